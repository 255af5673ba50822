#!/usr/bin/env python3
"""Ten agents work on one repository at the same time, each in a container with a private checkout.

What each committed is pushed to a branch of its own, also if the agent failed. It needs the Docker SDK for Python
(Debian: python3-docker), docker repos, and git in the image.

    docker repos credentials put agents --scope https://github.com/you --user x-access-token --allow push <token
    REPO=https://github.com/you/project IMAGE=you/agent WORK='your-agent --task "$AGENT"' ./loop.py

The repository may be private: the containers need neither a credential nor a network for git. Ctrl-C ends the agents. No
container and no volume is left, and the plugin keeps the changes of the removed volumes as checkpoints for a day
(docker repos checkpoints ls), from which docker repos push works too.
"""

import json
import os
import pathlib
import signal
import subprocess
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
BRANCHES = os.environ.get("BRANCHES", "agents/")  # agent 3 is pushed to agents/3
RESULTS = pathlib.Path(os.environ.get("RESULTS", "results"))  # a directory for what the agents print
# The work of one agent, for sh, in its checkout. AGENT is its number.
WORK = os.environ.get("WORK") or (
    'echo "I am agent $AGENT" >"agent-$AGENT.txt"; git add --all; git commit --quiet --message "work of agent $AGENT"'
)

run = f"agents-{int(time.time())}-{os.getpid()}"  # names what this run makes
labels = {"repos-example": run}
# A mount that clones can take two minutes, and an agent as long as it likes.
client = docker.from_env(timeout=24 * 3600, max_pool_size=2 * AGENTS)


def container(script, volume, env):
    """Runs a script in a container, and returns its exit code and what it printed."""
    c = client.containers.create(
        IMAGE,
        ["sh", "-euc", script],
        environment=env,
        init=True,
        labels=labels,
        network_mode=NETWORK,
        volumes={volume: {"bind": "/w"}},
    )
    try:
        c.start()
        return c.wait()["StatusCode"], c.logs()
    finally:
        c.remove(force=True)


def repos(*args):
    """Runs docker repos, which Ctrl-C does not reach, and returns what it printed."""
    done = subprocess.run(["docker", "repos", *args], capture_output=True, text=True, start_new_session=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def pull():
    """Pulls the image, unless the engine has it: containers.create does not."""
    try:
        client.images.get(IMAGE)
    except docker.errors.ImageNotFound:
        client.images.pull(IMAGE)


def create_volume(number):
    # With mode=keep the checkout stays when the container has ended, so the work can be pushed.
    options = {"repo": REPO, "ref": REF, "subject": SUBJECT, "mode": "keep"}
    name = f"{run}-{number}"
    client.volumes.create(name, driver="helmdeck/repos", driver_opts=options, labels=labels)
    return name


def agent(number, volume):
    """Runs an agent, and pushes its commits even if it fails.

    The push is made outside of the container, so the agent has no credential, and nothing that it configured is used.
    """
    who = {"NAME": f"agent {number}", "EMAIL": "agent@example.com"}
    env = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    code, out = container(f"cd /w\n{WORK}", volume, {"AGENT": str(number), **env})
    (RESULTS / f"agent-{number}.log").write_bytes(out)
    if json.loads(repos("status", "--format", "json", volume))["ahead"] == 0:
        return code, "no commits"
    try:
        repos("push", "--quiet", volume, f"HEAD:{BRANCHES}{number}")
    except RuntimeError as e:
        return code or 1, f"not pushed: {e}"
    return code, f"pushed to {BRANCHES}{number}"


def report(number, future):
    """Prints the result of an agent, and returns whether it succeeded."""
    try:
        code, what = future.result()
    except Exception as e:  # of the engine, or of the plugin
        code, what = 1, e
    if code != 0:
        print(f"agent {number} failed with exit code {code}: see {RESULTS}/agent-{number}.log")
    print(f"agent {number}: {what}")
    return code == 0


# All calls are made in the pool's threads, because Ctrl-C interrupts only the main one: a call that is ended halfway
# could make something after the clean-up.
pool = ThreadPoolExecutor(max_workers=AGENTS)
futures = []


def submit(work, *args):
    futures.append(pool.submit(work, *args))
    return futures[-1]


def main():
    RESULTS.mkdir(parents=True, exist_ok=True)
    pull()  # Ctrl-C may end it halfway
    # The first time, this clones the repository; otherwise it fetches what is new.
    ref = ["--ref", REF] if REF else []
    submit(repos, "warm", "--quiet", "--subject", SUBJECT, *ref, REPO).result()
    volumes = [f.result() for f in [submit(create_volume, number) for number in range(1, AGENTS + 1)]]
    agents = [submit(agent, number, volume) for number, volume in enumerate(volumes, 1)]
    succeeded = [report(number, future) for number, future in enumerate(agents, 1)]
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
    except RuntimeError as e:  # of docker repos
        code = e
    finally:
        clean_up()
    sys.exit(code)
