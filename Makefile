# helmdeck/repos: "make demo" shows what it does, "make test" tests it, "make help" lists all targets.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# Variables that a user may set, for the scripts and programs below.
export MIRROR MIRROR_SECURITY ARCH STRICT CONFIRM REPO REF IMAGE
export FORCE
export VERSION KEY REGISTRY LATEST DIRTY

.PHONY: help needs build rootfs lock plugin image cli deb install install-cli uninstall release publish demo test test-hostile test-remotes test-crash test-soak test-load test-engines test-release test-recipes test-kubernetes fuzz walks bench reference performance lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: install ## install the plugin and show its main job end to end; REPO=url REF=ref IMAGE=image to use your own
	@go run -buildvcs=false ./cmd/demo

# The plugin's package takes longest, so it begins first. Others run beside it, three at a time, because they mostly
# wait for processes and the disk. The race detector is for what the plugin is made of, so the tests in which the plugin
# is another program do without it, and so do those of what makes its root filesystem and of Git's servers, which run
# under it in the tests of the plugin's packages. Most packages below tests run one at a time, because they start
# engines or measure times. The events, which take hours, are left to test-engines, and the recipes that need npm and
# Cargo to test-recipes. Each part runs even if one before it fails.
NO_RACE = /(rootfs|internal/gitserver)(/|$$)|/tests/(crash|walks)$$
test: needs plugin cli ## all tests: units, integration (as root), end to end in a separate engine
	@failed=0; all=$$(go list ./...) || failed=1; \
	go test -C cli -race -count=1 -timeout 10m ./... || failed=1; \
	go test -C release -count=1 -timeout 10m ./... || failed=1; \
	go test -C tests/csi -count=1 -timeout 10m ./... || failed=1; \
	go test -race -count=1 -timeout 28m -p 3 ./plugin ./tests/frontend $$(echo "$$all" | grep -v /tests | grep -Ev '$(NO_RACE)') || failed=1; \
	go test -count=1 -timeout 28m -p 3 $$(echo "$$all" | grep -E '$(NO_RACE)') || failed=1; \
	go test -count=1 -timeout 28m -p 1 -skip '^Test(Event|Recipe|Kubernetes)($$|[A-Z])' $$(echo "$$all" | grep /tests | grep -Ev '$(NO_RACE)') || failed=1; \
	exit $$failed

# This runs the test program itself, because "go test" hides the output of passing tests.
test-hostile: needs plugin ## attack the plugin: one line per case, with its control and its verdict (as root)
	@go test -c -o build/hostile.test ./tests/hostile
	@cd tests/hostile && ../../build/hostile.test -test.timeout 20m -exact

test-remotes: needs ## show what a user is told when a remote or the disk misbehaves: one line per fault (as root)
	@go test -C tests/remotes -count=1 -timeout 10m

test-crash: needs ## kill the plugin at each failpoint and check the state after the next start: one line per point (as root)
	@go test -C tests/crash -count=1 -timeout 10m

test-soak: needs plugin ## random work on 30 clones with room for a third of them; DURATION=1h for longer than 5 minutes; HOSTILE=1 for work beside a hostile subject instead (as root)
	@go test -C tests/soak -count=1 -timeout 0 -run '^$(if $(HOSTILE),TestSiege,TestSoak)$$' -args -duration $(or $(DURATION),5m)

test-load: needs plugin ## start and stop 100 containers in a loop on 10 clones while branches move, in a separate engine, and check for errors and leaks; DURATION=3m for less than 10 minutes (as root)
	@go test -C tests -count=1 -timeout 0 -run '^TestLoad$$' -args -load $(or $(DURATION),10m)

test-engines: needs plugin cli ## all end-to-end tests, and many rounds of crashes, on Docker Engine of three Debian releases, as one table; ROUNDS=2 for fewer, ENGINES=28.5 ROWS=regexp for some (as root)
	@tests/engines/fetch
	@go run -buildvcs=false ./tests/engines $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(ENGINES),-engines $(ENGINES)) $(if $(ROWS),-run '$(ROWS)')

test-release: needs ## make two releases from nothing, in two directories with separate caches, and compare them byte by byte (as root)
	@go test -C release -count=1 -timeout 60m -run '^TestReleaseTwice$$' ./bundle -args -full

test-recipes: needs plugin ## run the recipes for npm, cargo and go, twice each, with this machine's npm and cargo (as root)
	@go test -C tests -count=1 -timeout 20m -run '^TestRecipe[A-Z]'

# This runs the test program itself, because "go test" hides the output of passing tests. The programs of Kubernetes
# are built once, into the user's cache.
test-kubernetes: needs image ## start a cluster of one node and test the CSI driver in it: one line per scenario, with times; 15 minutes the first time, then 4; SCENARIOS=regexp for some (as root)
	@tests/kubernetes/needs
	@tests/kubernetes/build >/dev/null
	@go test -c -o build/kubernetes.test ./tests/kubernetes
	@cd tests/kubernetes && ../../build/kubernetes.test -test.timeout 20m -test.run '^TestKubernetes$$' $(if $(SCENARIOS),-scenarios '$(SCENARIOS)')

fuzz: ## fuzz the parsers of untrusted input, each for less than a minute; FUZZTIME=10m for longer
	@for target in volume.FuzzParseURL.400000x volume.FuzzParseRef.400000x volume.FuzzParseOptions.150000x \
		gitindex.FuzzParse.75000x gitref.FuzzDecode.150000x gitref.FuzzReadPack.150000x lfs.FuzzParsePointer.50000x; do \
		set -- $$(echo $$target | tr . ' '); \
		go test -run='^$$' -fuzz="^$$2$$" -fuzztime=$(or $(FUZZTIME),$$3) -fuzzminimizetime=10x ./internal/$$1 || exit 1; \
	done

walks: needs ## list the functions that a Mount, an Unmount and an eviction pass (as root)
	@go run -buildvcs=false ./tests/walks

bench: needs plugin ## compare with git, git-sync and plain volumes, and with a remote 30 ms away, into build/bench.json (as root); FILES=1000 RUNS=3 ROWS=warm,distance for less; AGAINST=commit to compare with that build instead
	@go run -buildvcs=false ./cmd/bench $(if $(FILES),-files $(FILES)) $(if $(RUNS),-runs $(RUNS)) $(if $(ROWS),-rows $(ROWS)) $(if $(AGAINST),-against $(AGAINST))

reference: ## write the pages of docs/reference from the code
	@go test -count=1 -run '^TestDocs$$' ./api ./csi ./internal/metrics ./internal/volume ./plugin -args -update
	@go test -C cli -count=1 -run '^TestDocs$$' ./internal/commands -args -update

performance: ## write docs/performance.md and its picture from build/bench.json
	@go run -buildvcs=false ./cmd/bench -report docs

lint: ## gofmt, go vet and staticcheck, of all modules
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2
	@set -e; for module in . cli release tests/csi; do \
		echo "lint: module $$module"; \
		(cd $$module && go vet ./... && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...); \
	done

install: plugin ## install the plugin into the local engine, or upgrade it and keep the clones; FORCE=1 while containers use it
	@rootfs/install

# Docker looks for plugins of its command in both directories.
CLI_DIR = $(if $(filter 0,$(shell id -u)),/usr/libexec/docker,$(or $(DOCKER_CONFIG),$(HOME)/.docker))/cli-plugins

install-cli: cli ## install the command "docker repos" for all users (as root) or for this one; DESTDIR=dir for a package
	@install -D -m 755 build/docker-repos $(DESTDIR)$(CLI_DIR)/docker-repos
	@for arch in $(RELAYS); do install -m 755 build/repos-linux-$$arch $(DESTDIR)$(CLI_DIR)/; done
	@echo "installed $(DESTDIR)$(CLI_DIR)/docker-repos"

uninstall: ## remove the plugin and all clones from the local engine; lists what it would delete, CONFIRM=yes deletes it
	@rootfs/uninstall

release: ## make build/release/VERSION: plugin, command, Debian packages, checksums, bills of materials; VERSION=1.2.3, KEY=ssh-key signs, STRICT=1, DIRTY=1 (as root; docs/releasing.md)
	@go build -C release -buildvcs=false -o ../build/make-release .
	@build/make-release make -version "$$VERSION" -key "$$KEY" -dirty "$$DIRTY" -strict "$$STRICT"

publish: ## push the plugins of build/release/VERSION to a registry: VERSION=1.2.3 REGISTRY=registry.example.com/helmdeck/repos, LATEST=1 for the tag latest too
	@go build -C release -buildvcs=false -o ../build/make-release .
	@build/make-release publish -version "$$VERSION" -repository "$$REGISTRY" -latest "$$LATEST"

plugin: build rootfs ## assemble the plugin: build/plugin/{config.json,rootfs} (as root)
	@rootfs/assemble

compile = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(or $(VERSION),dev)'

PROGRAM = build/helmdeck-repos
build: ## compile the plugin's program: build/helmdeck-repos, static
	@$(if $(ARCH),GOARCH=$(ARCH)) $(compile) -o $(PROGRAM) ./plugin

# An engine on Linux runs the command as a relay, so a command for another system has one for Linux beside it.
RELAYS ?= $(if $(filter linux,$(shell go env GOOS)),,amd64 arm64)
compile_cli = CGO_ENABLED=0 go build -C cli -trimpath -buildvcs=false \
	-ldflags='-s -w -X github.com/helmdeck/repos/cli/internal/commands.version=$(or $(VERSION),dev)'

COMMAND = build/docker-repos
cli: ## compile the command "docker repos": build/docker-repos, static; RELAYS=arm64 for engines of other architectures too
	@$(compile_cli) -o $(abspath $(COMMAND)) .
	@for arch in $(RELAYS); do GOOS=linux GOARCH=$$arch $(compile_cli) -o ../build/repos-linux-$$arch . || exit; done

# ARCH is an architecture as Debian names it, and, for these two, as Go does.
# REGISTRY and VERSION name the image; deploy/kubernetes has the names that are the default here.
image: export ARCH := $(or $(ARCH),$(shell go env GOARCH))
image: rootfs ## make the image of the CSI driver for Kubernetes: build/image/helmdeck-repos-csi-ARCH.tar, for docker load and ctr; VERSION=1.2.3, REGISTRY=registry.example.com/helmdeck/repos-csi, ARCH=arm64
	@mkdir -p build/image/$(ARCH)
	@GOOS=linux GOARCH=$(ARCH) $(compile) -o build/image/$(ARCH)/helmdeck-repos ./plugin
	@GOOS=linux GOARCH=$(ARCH) $(compile_cli) -o ../build/image/$(ARCH)/docker-repos .
	@go build -C release -buildvcs=false -o ../build/make-release .
	@build/make-release image -version '$(or $(VERSION),dev)' -arch $(ARCH) -name '$(or $(REGISTRY),localhost/helmdeck/repos-csi)' \
		-program build/image/$(ARCH)/helmdeck-repos -command build/image/$(ARCH)/docker-repos -archive build/image/helmdeck-repos-csi-$(ARCH).tar

deb: export ARCH := $(or $(ARCH),$(shell go env GOARCH))
deb: export VERSION := $(VERSION)
deb: ## make the Debian packages of the command and of the service for Podman: build/deb/*.deb; VERSION=1.2.3, ARCH=amd64 or arm64
	@mkdir -p build/deb/$(ARCH)
	@GOOS=linux GOARCH=$(ARCH) $(compile) -o build/deb/$(ARCH)/helmdeck-repos ./plugin
	@GOOS=linux GOARCH=$(ARCH) $(compile_cli) -o ../build/deb/$(ARCH)/docker-repos .
	@packaging/deb/build

# FORCE=1 applies here only if this target is named on the command line: in "make install FORCE=1" it concerns
# containers.
rootfs: needs ## make the plugin's root filesystem from locked Debian packages (as root); ARCH=arm64, MIRROR=url, STRICT=1 for locked versions or none, FORCE=1 to build it again
	@FORCE=$(if $(filter rootfs,$(MAKECMDGOALS)),$(FORCE)) rootfs/build

lock: needs ## lock the current versions of these packages: rootfs/lock.amd64 and lock.arm64 (as root); MIRROR=url
	@rootfs/lock

needs: ## install the programs needed besides Docker Engine, Go and make (Debian, as root), or list them
	@rootfs/needs

clean: ## delete build/; the installed plugin stays
	@rm -rf build
