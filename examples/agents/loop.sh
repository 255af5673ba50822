#!/bin/bash
# Ten agents work on one repository at the same time, each in a container with a private checkout. At the end their
# commits are in RESULTS, and the script prints what the plugin saved. It needs Linux, Docker, and git in the image.
#
#   REPO=https://github.com/you/project IMAGE=you/agent WORK='your-agent --task "$AGENT"' ./loop.sh
#
# Ctrl-C ends the agents. No container and no volume is left, and the plugin keeps the changes of the removed volumes
# as discards for a day (docker repos discards ls).
set -euo pipefail

REPO=${REPO:-https://github.com/octocat/Hello-World}
REF=${REF:-}                # a branch, a tag or a commit; empty: the default branch
SUBJECT=${SUBJECT:-default} # the owner of the clone and its caches
IMAGE=${IMAGE:-buildpack-deps:scm}
NETWORK=${NETWORK:-bridge}  # of the containers
AGENTS=${AGENTS:-10}
RESULTS=${RESULTS:-results} # a directory
# The work of one agent, for sh, in its checkout. AGENT is its number.
# shellcheck disable=SC2016 # the shell in the container expands it
WORK=${WORK:-'echo "I am agent $AGENT" >"agent-$AGENT.txt"; git add --all; git commit --quiet --message "work of agent $AGENT"'}

run=agents-$(date +%s)-$$ # names what this run makes
label=repos-example=$run
started=$(mktemp -d)

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
	rm -rf "$started"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

now() { date +%s%3N; } # milliseconds

command docker image inspect "$IMAGE" >/dev/null 2>&1 || command docker pull --quiet "$IMAGE"

# For comparison, a plain clone in a container: its time, and its size on the disk.
begin=$(now)
# shellcheck disable=SC2016
container --env REPO="$REPO" --env REF="$REF" "$IMAGE" sh -euc '
	git clone --quiet "$REPO" /tmp/plain
	cd /tmp/plain
	if [ -n "$REF" ]; then git checkout --quiet "$REF" --; fi
	du -sk . | cut -f1' >"$started/plain"
plain_ms=$(($(now) - begin)) plain_kib=$(cat "$started/plain")

# A volume for each agent. With mode=keep its checkout stays when the container has ended, so the work can be fetched.
for i in $(seq "$AGENTS"); do
	docker volume create --label "$label" --driver helmdeck/repos --opt repo="$REPO" --opt ref="$REF" \
		--opt subject="$SUBJECT" --opt mode=keep "$run-$i" >/dev/null
done

# The first mount of a repository clones it. Later ones, in this run or another, do not.
begin=$(now)
container --volume "$run-1:/w" "$IMAGE" true
first_ms=$(($(now) - begin)) begin=$(now)
container --volume "$run-$AGENTS:/w" "$IMAGE" true
mount_ms=$(($(now) - begin))

# agent runs an agent, and fetches its commits even if it fails. The bundle is made in a container, because git runs
# programs that the configuration of a checkout names, and the agent may have written that.
agent() { # NUMBER
	local code=0
	container --volume "$run-$1:/w" --env AGENT="$1" \
		--env GIT_AUTHOR_NAME="agent $1" --env GIT_AUTHOR_EMAIL=agent@example.com \
		--env GIT_COMMITTER_NAME="agent $1" --env GIT_COMMITTER_EMAIL=agent@example.com \
		"$IMAGE" sh -euc "cd /w; $WORK" >"$RESULTS/agent-$1.log" 2>&1 || code=$?
	# shellcheck disable=SC2016
	container --volume "$run-$1:/w" "$IMAGE" sh -euc '
		cd /w
		if [ -n "$(git rev-list --max-count=1 HEAD --not --remotes --tags)" ]; then
			git bundle create --quiet - HEAD --not --remotes --tags
		fi' >"$RESULTS/agent-$1.bundle" 2>>"$RESULTS/agent-$1.log" || code=$?
	return "$code"
}

mkdir -p "$RESULTS"
begin=$(now)
running=()
for i in $(seq "$AGENTS"); do
	agent "$i" &
	running+=("$!")
done
failed=0
for i in $(seq "$AGENTS"); do
	code=0
	wait "${running[i - 1]}" || code=$?
	if [ "$code" != 0 ]; then
		failed=$((failed + 1))
		echo "agent $i failed with exit code $code: see $RESULTS/agent-$i.log"
	fi
	if [ -s "$RESULTS/agent-$i.bundle" ]; then
		echo "agent $i: git fetch '$RESULTS/agent-$i.bundle' HEAD:agent-$i"
	else
		rm -f "$RESULTS/agent-$i.bundle"
		echo "agent $i: no commits"
	fi
done
agents_ms=$(($(now) - begin))

# The plugin measures sizes in the background.
size() { command docker volume inspect --format "{{if .Status.$1_measured_at}}{{printf \"%.0f\" .Status.$1_bytes}}{{end}}" "$run-1"; }
for _ in $(seq 30); do
	store=$(size store) tree=$(size tree)
	[ -z "$store" ] || [ -z "$tree" ] || break
	sleep 1
done
mib() { awk -v bytes="$1" 'BEGIN { printf "%.1f MiB", bytes / 1048576 }'; }
echo
echo "a container with a plain git clone:       $plain_ms ms"
echo "the first container with a volume:        $first_ms ms"
echo "the next container with a volume:         $mount_ms ms"
echo "$AGENTS agents, with the fetch of their work: $agents_ms ms"
echo "$AGENTS plain clones on the disk:             $(mib $((AGENTS * plain_kib * 1024)))"
echo "the clone that all agents share:          $(mib $((store + tree)))"
[ "$failed" = 0 ]
