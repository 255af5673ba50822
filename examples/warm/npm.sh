#!/bin/sh
# npm with a warm node_modules. This runs in the container, in the checkout. warm_key is what compiled modules depend on.
#
#   docker volume create --driver helmdeck/repos --opt repo=https://github.com/you/app \
#     --opt warm=node_modules --opt warm_key=node-22 app
#   docker run --rm --volume app:/w --workdir /w node:22 sh -c "$(cat examples/warm/npm.sh)"
set -eu
HDCACHE=$PWD/.git/hdcache
. "$HDCACHE/env" # downloads are kept in the cache, also for another warm_key

# npm ci begins with the removal of node_modules, so it runs only if the lock file is not the one of the last time.
cmp -s package-lock.json node_modules/.lock || {
	npm ci --prefer-offline --no-audit --no-fund
	cp package-lock.json node_modules/.lock
}
npm test
