#!/bin/sh
# Cargo with a warm target directory. This runs in the container, in the checkout. warm_key is the toolchain: Cargo builds
# everything again for another one, and keeps what the first one made.
#
#   docker volume create --driver helmdeck/repos --opt repo=https://github.com/you/app \
#     --opt warm=target --opt warm_key=rust-1.95 app
#   docker run --rm --volume app:/w --workdir /w rust:1.95 sh -c "$(cat examples/warm/cargo.sh)"
set -eu
HDCACHE=$PWD/.git/hdcache
. "$HDCACHE/env" # CARGO_HOME, with the downloaded crates

# Cargo compares the times of files. Those of a checkout are the same in each workspace of a commit, so a second build
# has nothing to do, and one after a push compiles what changed.
cargo build --locked
