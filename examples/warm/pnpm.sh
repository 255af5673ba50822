#!/bin/sh
# pnpm with a warm node_modules. This runs in the container, in the checkout; the image has pnpm. warm_key is what compiled
# modules depend on. In a monorepo, name the node_modules of each package: warm=node_modules,web/node_modules
#
#   docker volume create --driver helmdeck/repos --opt repo=https://github.com/you/app \
#     --opt warm=node_modules --opt warm_key=node-22 app
#   docker run --rm --volume app:/w --workdir /w you/node-pnpm sh -c "$(cat examples/warm/pnpm.sh)"
set -eu
HDCACHE=$PWD/.git/hdcache
. "$HDCACHE/env" # pnpm's store is in the cache

# With copy, no file of node_modules is another name of one in the store, through which a program could change the store.
# pnpm changes in node_modules only what the lock file has changed.
pnpm install --frozen-lockfile --prefer-offline --package-import-method copy
pnpm test
