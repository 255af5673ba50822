#!/bin/bash
# Ten agents work on one repository at the same time, each in a container with a private checkout. What each committed is
# pushed to a branch of its own, also if the agent failed. It needs Linux, Docker, docker repos, and git in the image.
#
#   docker repos credentials put agents --scope https://github.com/you --user x-access-token --allow push <token
#   REPO=https://github.com/you/project IMAGE=you/agent WORK='your-agent --task "$AGENT"' ./loop.sh
#
# The repository may be private: the containers need neither a credential nor a network for git. Ctrl-C ends the agents. No
# container and no volume is left, and the plugin keeps the changes of the removed volumes as checkpoints for a day
# (docker repos checkpoints ls), from which docker repos push works too.
set -euo pipefail

REPO=${REPO:-https://github.com/octocat/Hello-World}
REF=${REF:-}                # a branch, a tag or a commit; empty: the default branch
SUBJECT=${SUBJECT:-default} # the owner of the clone and its caches
IMAGE=${IMAGE:-buildpack-deps:scm}
NETWORK=${NETWORK:-bridge}  # of the containers
AGENTS=${AGENTS:-10}
BRANCHES=${BRANCHES:-agents/} # agent 3 is pushed to agents/3
RESULTS=${RESULTS:-results}   # a directory for what the agents print
# The work of one agent, for sh, in its checkout. AGENT is its number.
# shellcheck disable=SC2016 # the shell in the container expands it
WORK=${WORK:-'echo "I am agent $AGENT" >"agent-$AGENT.txt"; git add --all; git commit --quiet --message "work of agent $AGENT"'}

run=agents-$(date +%s)-$$ # names what this run makes
label=repos-example=$run

# Ctrl-C in a terminal reaches each program there. In a session of its own, docker is spared: a command that is ended
# halfway could make something after the clean-up.
docker() { setsid docker "$@"; }

# container runs a container in the background and waits, because Ctrl-C interrupts only the shell's own wait.
running=()
container() {
	docker run --rm --init --label "$label" --network "$NETWORK" "$@" &
	running=("$!")
	wait "$!"
}

clean_up() {
	trap '' INT TERM HUP
	local list
	while # containers that are made while this runs are in the next list
		mapfile -t list < <(docker ps --all --quiet --filter "label=$label")
		[ ${#list[@]} = 0 ] || docker rm --force "${list[@]}" >/dev/null 2>&1 || true
		[ ${#running[@]} != 0 ] && kill -0 "${running[@]}" 2>/dev/null
	do sleep 0.2; done
	mapfile -t list < <(docker volume ls --quiet --filter "label=$label")
	[ ${#list[@]} = 0 ] || docker volume rm "${list[@]}" >/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

command docker image inspect "$IMAGE" >/dev/null 2>&1 || command docker pull --quiet "$IMAGE"

# The first time, this clones the repository; otherwise it fetches what is new.
command docker repos warm --quiet --subject "$SUBJECT" ${REF:+--ref "$REF"} "$REPO" >/dev/null

# A volume for each agent. With mode=keep its checkout stays when the container has ended, so the work can be pushed.
for i in $(seq "$AGENTS"); do
	docker volume create --label "$label" --driver helmdeck/repos --opt repo="$REPO" --opt ref="$REF" \
		--opt subject="$SUBJECT" --opt mode=keep "$run-$i" >/dev/null
done

# agent runs an agent, and pushes its commits even if it fails. The push is made outside of the container, so the agent
# has no credential, and nothing that it configured is used.
agent() { # NUMBER
	local code=0 volume=$run-$1
	container --volume "$volume:/w" --env AGENT="$1" \
		--env GIT_AUTHOR_NAME="agent $1" --env GIT_AUTHOR_EMAIL=agent@example.com \
		--env GIT_COMMITTER_NAME="agent $1" --env GIT_COMMITTER_EMAIL=agent@example.com \
		"$IMAGE" sh -euc "cd /w; $WORK" >"$RESULTS/agent-$1.log" 2>&1 || code=$?
	[ "$code" = 0 ] || echo "agent $1 failed with exit code $code: see $RESULTS/agent-$1.log"
	if [ "$(docker repos status --format '{{.Ahead}}' "$volume")" = 0 ]; then
		echo "agent $1: no commits"
	elif docker repos push --quiet "$volume" "HEAD:$BRANCHES$1" >/dev/null; then
		echo "agent $1: pushed to $BRANCHES$1"
	else
		echo "agent $1: not pushed"
		code=1
	fi
	return "$code"
}

mkdir -p "$RESULTS"
running=()
for i in $(seq "$AGENTS"); do
	agent "$i" &
	running+=("$!")
done
failed=0
for pid in "${running[@]}"; do
	wait "$pid" || failed=$((failed + 1))
done
[ "$failed" = 0 ]
