#!/bin/bash
# A hook of a self-hosted GitHub Actions runner, run before each job: it makes the volume that the job's container
# mounts, because "container.volumes" in a workflow can name a volume but not make one. The runner's file .env has
#
#   ACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/repos/job-started.sh
#   ACTIONS_RUNNER_HOOK_JOB_COMPLETED=/opt/repos/job-completed.sh
#
# A pull request decides about refs and names, so nothing is used that was not checked. A failure here fails the job.
set -euo pipefail

check() { # VARIABLE PATTERN
	[[ ${!1-} =~ ^$2$ ]] || { echo "repos: $1 is not of the form $2" >&2; exit 1; }
}
check GITHUB_SERVER_URL 'https?://[A-Za-z0-9.-]+(:[0-9]+)?'
check GITHUB_REPOSITORY '[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+'
check GITHUB_SHA '[0-9a-f]{40}([0-9a-f]{24})?'
check GITHUB_RUN_ID '[0-9]+'
check GITHUB_RUN_ATTEMPT '[0-9]+'
check RUNNER_NAME '.+'

# The job says container.volumes: ["repos-${{ github.run_id }}-${{ github.run_attempt }}:/w"]. Each container that mounts
# the volume gets a private checkout, so all jobs of a run can use the same one.
volume=repos-$GITHUB_RUN_ID-$GITHUB_RUN_ATTEMPT

# Jobs of pull requests read the caches of the others, and leave nothing in them.
case ${GITHUB_EVENT_NAME-} in
push | schedule | workflow_dispatch) publish=always ;;
*) publish=never ;;
esac

# A container that never runs holds the volume until this runner's job has ended. So another runner on this machine,
# which ends a job of the same run, can't remove it before this job's container is made. "docker create" makes the volume
# and takes hold of it in one step; a volume that exists is used as it is.
holder=repos-holder-$(printf %s "$RUNNER_NAME" | sha256sum | cut -c1-16)
docker image inspect repos-holder >/dev/null 2>&1 || tar -cf - --files-from /dev/null | docker import - repos-holder >/dev/null
docker rm --force "$holder" >/dev/null 2>&1 || true # of a job that this runner did not end
mount=type=volume,source=$volume,target=/w,volume-driver=helmdeck/repos
mount+=,volume-opt=repo=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY,volume-opt=ref=$GITHUB_SHA
mount+=,volume-opt=subject=github/$GITHUB_REPOSITORY,volume-opt=publish=$publish
docker create --name "$holder" --mount "$mount" repos-holder none >/dev/null
echo "repos: $volume has $GITHUB_REPOSITORY at $GITHUB_SHA, publish=$publish"
