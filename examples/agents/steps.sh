#!/bin/bash
# Runs steps on one checkout, in a container that goes on, with a checkpoint before each. After a step that fails, the
# checkout goes back to what it was before it, untracked and deleted files too, and the step is tried again.
#
#   REPO=https://github.com/you/project IMAGE=you/agent ./steps.sh my-work ./plan ./build 'make test'
#
# The checkout stays in the volume my-work. No container is left. docker repos checkpoints ls has what was there before each
# step, and what each failed one left.
set -euo pipefail

REPO=${REPO:-https://github.com/octocat/Hello-World}
SUBJECT=${SUBJECT:-default} # the owner of the clone and its caches
IMAGE=${IMAGE:-buildpack-deps:scm}
NETWORK=${NETWORK:-bridge} # of the container
TRIES=${TRIES:-3}          # of each step, which finds its number in TRY

volume=$1
container=$volume-steps-$$ # another run may be there
shift
docker volume create --driver helmdeck/repos --opt repo="$REPO" --opt subject="$SUBJECT" --opt mode=keep "$volume" >/dev/null

start() {
	docker run --detach --init --name "$container" --network "$NETWORK" --volume "$volume:/w" --workdir /w "$IMAGE" sleep infinity >/dev/null
}
end() { docker rm --force "$container" >/dev/null; }
trap end EXIT
trap 'exit 130' INT # or the step would have failed
trap 'exit 143' TERM HUP

start
for step in "$@"; do
	before=$(docker repos checkpoint --message "before ${step:0:200}" "$volume")
	for try in $(seq "$TRIES"); do
		docker exec --env TRY="$try" "$container" sh -euc "$step" && continue 2
		end # a volume that a container uses can't go back
		docker repos rewind "$volume" "$before" >/dev/null
		start
	done
	echo "failed $TRIES times: $step" >&2
	exit 1
done
