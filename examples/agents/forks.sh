#!/bin/bash
# Tries three ways at once, each in a container with a checkout of its own, from what a running container has now. It pushes
# what the first of those that succeed has committed, and removes the checkouts.
#
#   IMAGE=you/agent WORK='your-agent --way "$TRY" && make test' ./forks.sh my-container fix-login
#
# The running container goes on meanwhile, but for a moment.
set -euo pipefail

IMAGE=${IMAGE:-buildpack-deps:scm}
NETWORK=${NETWORK:-bridge} # of the containers
# One try, for sh, in its checkout. TRY is its number.
# shellcheck disable=SC2016 # the shell in the container expands it
WORK=${WORK:-'echo "way $TRY" >way.txt; git add --all; git commit --quiet --message "way $TRY"'}

container=$1 branch=$2
at=$(docker repos checkpoint --message "before three tries" "$container")
tries=() running=()
clean_up() {
	for try in "${tries[@]}"; do docker rm --force "$try" >/dev/null 2>&1 || true; done
	wait
	[ ${#tries[@]} -eq 0 ] || docker volume rm "${tries[@]}" >/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

for n in 1 2 3; do
	docker repos checkpoints fork "$at" "try-$at-$n" >/dev/null
	tries+=("try-$at-$n")
	docker run --rm --init --name "try-$at-$n" --network "$NETWORK" --volume "try-$at-$n:/w" --workdir /w --env TRY="$n" \
		--env GIT_AUTHOR_NAME="try $n" --env GIT_AUTHOR_EMAIL=agent@example.com \
		--env GIT_COMMITTER_NAME="try $n" --env GIT_COMMITTER_EMAIL=agent@example.com \
		"$IMAGE" sh -euc "$WORK" &
	running+=("$!")
done
best=
for n in 1 2 3; do
	wait "${running[n - 1]}" && best=${best:-$n} # wait for all, and pick the first
done
[ -n "$best" ] || { echo "no try has succeeded" >&2; exit 1; }
docker repos push "try-$at-$best" "HEAD:$branch"
