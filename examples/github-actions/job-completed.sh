#!/bin/bash
# A hook of a self-hosted GitHub Actions runner, run after each job, when the job's container is gone. It removes what
# job-started.sh made. The clone and its caches stay, so the next job's checkout is warm.
set -euo pipefail

check() { # VARIABLE PATTERN
	[[ ${!1-} =~ ^$2$ ]] || { echo "repos: $1 is not of the form $2" >&2; exit 1; }
}
check GITHUB_RUN_ID '[0-9]+'
check GITHUB_RUN_ATTEMPT '[0-9]+'
check RUNNER_NAME '.+'
volume=repos-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT
holder=repos-holder-$(printf %s "$RUNNER_NAME" | sha256sum | cut -c1-16)

docker rm --force "$holder" >/dev/null 2>&1 || true
if ! out=$(docker volume rm "$volume" 2>&1); then
	case $out in
	*'no such volume'*) ;;                                                                   # job-started.sh failed
	*'volume is in use'*) echo "repos: another job uses $volume, and removes it at its end" ;;
	*) echo "repos: $out" >&2; exit 1 ;;
	esac
fi
