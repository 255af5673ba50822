#!/bin/sh
# uv with a warm .venv. This runs in the container, in the checkout; the image has uv and Python. warm_key is the image,
# because a virtual environment belongs to one Python.
#
#   docker volume create --driver helmdeck/repos --opt repo=https://github.com/you/app \
#     --opt warm=.venv --opt warm_key=python-3.13 app
#   docker run --rm --volume app:/w --workdir /w you/python-uv sh -c "$(cat examples/warm/uv.sh)"
set -eu
HDCACHE=$PWD/.git/hdcache
. "$HDCACHE/env" # uv's cache

uv sync --frozen # changes in .venv only what uv.lock has changed
uv run --no-sync pytest
