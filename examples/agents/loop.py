#!/usr/bin/env python3
"""Ten agents work on one repository at the same time, each in a container with a private checkout.

At the end their commits are in RESULTS, and the script prints what the plugin saved. It needs the Docker SDK for Python
(Debian: python3-docker), and git in the image.

    REPO=https://github.com/you/project IMAGE=you/agent WORK='your-agent --task "$AGENT"' ./loop.py

Ctrl-C ends the agents. No container and no volume is left, and the plugin keeps the changes of the removed volumes as
discards for a day (docker repos discards ls).
"""

import base64
import os
import pathlib
import shlex
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import docker

REPO = os.environ.get("REPO", "https://github.com/octocat/Hello-World")
REF = os.environ.get("REF", "")  # a branch, a tag or a commit; empty: the default branch
SUBJECT = os.environ.get("SUBJECT", "default")  # the owner of the clone and its caches
IMAGE = os.environ.get("IMAGE", "buildpack-deps:scm")
NETWORK = os.environ.get("NETWORK", "bridge")  # of the containers
AGENTS = int(os.environ.get("AGENTS", "10"))
RESULTS = pathlib.Path(os.environ.get("RESULTS", "results"))
# The work of one agent, for sh, in its checkout. AGENT is its number.
WORK = os.environ.get("WORK") or (
    'echo "I am agent $AGENT" >"agent-$AGENT.txt"; git add --all; git commit --quiet --message "work of agent $AGENT"'
)

PLAIN = """
git clone --quiet "$REPO" /tmp/plain
cd /tmp/plain
if [ -n "$REF" ]; then git checkout --quiet "$REF" --; fi
du -sk . | cut -f1
"""

# base64, because the engine's log, which this script reads, keeps only text.
BUNDLE = """
cd /w
if [ -n "$(git rev-list --max-count=1 HEAD --not --remotes --tags)" ]; then
    git bundle create --quiet /tmp/bundle HEAD --not --remotes --tags
    base64 /tmp/bundle
fi
"""

run = f"agents-{int(time.time())}-{os.getpid()}"  # names what this run makes
labels = {"repos-example": run}
# A mount that clones can take two minutes, and an agent as long as it likes.
client = docker.from_env(timeout=24 * 3600, max_pool_size=2 * AGENTS)


def container(script, volume=None, env=None):
    """Runs a script in a container, and returns its exit code, standard output and standard error."""
    c = client.containers.create(
        IMAGE,
        ["sh", "-euc", script],
        environment=env or {},
        init=True,
        labels=labels,
        network_mode=NETWORK,
        volumes={volume: {"bind": "/w"}} if volume else {},
    )
    try:
        c.start()
        code = c.wait()["StatusCode"]
        return code, c.logs(stderr=False), c.logs(stdout=False)
    finally:
        c.remove(force=True)


def pull():
    """Pulls the image, unless the engine has it: containers.create does not."""
    try:
        client.images.get(IMAGE)
    except docker.errors.ImageNotFound:
        client.images.pull(IMAGE)


def timed(work, *args):
    begin = time.monotonic()
    result = work(*args)
    return result, round(1000 * (time.monotonic() - begin))


def must(result):
    code, out, err = result
    if code != 0:
        raise RuntimeError(f"exit code {code}: {err.decode(errors='replace').strip()}")
    return out


def create_volume(number):
    # With mode=keep the checkout stays when the container has ended, so the work can be fetched.
    options = {"repo": REPO, "ref": REF, "subject": SUBJECT, "mode": "keep"}
    name = f"{run}-{number}"
    client.volumes.create(name, driver="helmdeck/repos", driver_opts=options, labels=labels)
    return name


def agent(number, volume):
    """Runs an agent, and fetches its commits even if it fails.

    The bundle is made in a container, because git runs programs that the configuration of a checkout names, and the
    agent may have written that.
    """
    who = {"NAME": f"agent {number}", "EMAIL": "agent@example.com"}
    env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    code, out, err = container(f"cd /w\n{WORK}", volume, {"AGENT": str(number), **env})
    (RESULTS / f"agent-{number}.log").write_bytes(out + err)
    bundle = base64.b64decode(must(container(BUNDLE, volume)))
    if bundle:
        (RESULTS / f"agent-{number}.bundle").write_bytes(bundle)
    return code, bool(bundle)


def report(number, future):
    """Prints the result of an agent, and returns whether it succeeded."""
    try:
        code, commits = future.result()
    except Exception as e:  # of the engine, or of git in a checkout that the agent broke
        print(f"agent {number} failed: {e}")
        return False
    if code != 0:
        print(f"agent {number} failed with exit code {code}: see {RESULTS}/agent-{number}.log")
    if commits:
        print(f"agent {number}: git fetch {shlex.quote(str(RESULTS / f'agent-{number}.bundle'))} HEAD:agent-{number}")
    else:
        print(f"agent {number}: no commits")
    return code == 0


def shared_bytes(volume):
    """The size of the clone. The plugin measures it in the background."""
    for _ in range(30):
        status = client.api.inspect_volume(volume)["Status"]
        if status["store_measured_at"] and status["tree_measured_at"]:
            break
        time.sleep(1)
    return status["store_bytes"] + status["tree_bytes"]


# All calls are made in the pool's threads, because Ctrl-C interrupts only the main one: a call that is ended halfway
# could make something after the clean-up.
pool = ThreadPoolExecutor(max_workers=AGENTS)
futures = []


def submit(work, *args):
    futures.append(pool.submit(work, *args))
    return futures[-1]


def main():
    def call(work, *args):
        return submit(work, *args).result()

    RESULTS.mkdir(parents=True, exist_ok=True)
    pull()  # Ctrl-C may end it halfway
    # For comparison, a plain clone in a container: its time, and its size on the disk.
    plain, plain_ms = call(timed, container, PLAIN, None, {"REPO": REPO, "REF": REF})
    plain_bytes = 1024 * int(must(plain))
    volumes = [f.result() for f in [submit(create_volume, number) for number in range(1, AGENTS + 1)]]

    # The first mount of a repository clones it. Later ones, in this run or another, do not.
    first, first_ms = call(timed, container, "true", volumes[0])
    must(first)
    mount, mount_ms = call(timed, container, "true", volumes[-1])
    must(mount)

    begin = time.monotonic()
    agents = [submit(agent, number, volume) for number, volume in enumerate(volumes, 1)]
    succeeded = [report(number, future) for number, future in enumerate(agents, 1)]
    agents_ms = round(1000 * (time.monotonic() - begin))

    mib = 1024 * 1024
    print()
    print(f"a container with a plain git clone:       {plain_ms} ms")
    print(f"the first container with a volume:        {first_ms} ms")
    print(f"the next container with a volume:         {mount_ms} ms")
    print(f"{AGENTS} agents, with the fetch of their work: {agents_ms} ms")
    print(f"{AGENTS} plain clones on the disk:             {AGENTS * plain_bytes / mib:.1f} MiB")
    print(f"the clone that all agents share:          {call(shared_bytes, volumes[0]) / mib:.1f} MiB")
    return 0 if all(succeeded) else 1


def clean_up():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pool.shutdown(wait=False, cancel_futures=True)
    while True:  # containers that are made while this runs are in the next list
        busy = not all(future.done() for future in futures)
        for c in client.containers.list(all=True, ignore_removed=True, filters={"label": f"repos-example={run}"}):
            try:
                c.remove(force=True)
            except docker.errors.APIError:  # its own thread removes it
                pass
        if not busy:
            break
        time.sleep(0.2)
    for volume in client.volumes.list(filters={"label": f"repos-example={run}"}):
        volume.remove()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(143))
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    finally:
        clean_up()
    sys.exit(code)
