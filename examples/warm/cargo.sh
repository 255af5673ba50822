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

# Cargo compares the times of files. If target was built from another commit, the files that differ from that have newer
# times than target here, whichever of the two commits is older. So a build compiles what differs, and nothing else.
cargo build --locked
