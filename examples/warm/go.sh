#!/bin/sh
# Go with its module and build caches, which know by content what is up to date: it needs no warm directory. This runs in
# the container, in the checkout.
#
#   docker volume create --driver helmdeck/repos --opt repo=https://github.com/you/app app
#   docker run --rm --volume app:/w --workdir /w golang:latest sh -c "$(cat examples/warm/go.sh)"
set -eu
HDCACHE=$PWD/.git/hdcache
. "$HDCACHE/env" # GOMODCACHE and GOCACHE
go test ./...
