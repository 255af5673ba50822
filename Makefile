# helmdeck/repos: "make demo" shows what it does, "make check" and "make test" test it, "make help" lists all targets.
MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help

# Variables that a user may set, for the scripts and programs below.
export MIRROR MIRROR_SECURITY ARCH STRICT CONFIRM REPO REF IMAGE
export FORCE FRESH
export VERSION KEY REGISTRY LATEST DIRTY

.PHONY: help needs needs-build needs-install needs-demo needs-release needs-recipes build build-csi rootfs lock plugin image cli deb install install-cli uninstall release publish demo check test test-all test-demo test-hostile test-remotes test-crash test-checkpoints test-soak test-load test-engines test-release test-recipes test-kubernetes test-quota fuzz bench reference performance lint clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | while IFS='	' read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: needs-demo install ## install the plugin and show its main job end to end; REPO=url REF=ref IMAGE=image to use your own
	@cmd/demo/demo

# Neither -race nor -count: Go's cache has the results of packages that have not changed.
check: rootfs ## what to run before each commit, in minutes: gofmt, go vet, and the tests of packages, which need no engine (as root)
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2
	@go vet ./... && go vet -C cli ./...
	@go test -C cli ./...
	@go test -p 3 $$(go list ./... | grep -Ev '/(tests|cmd|rootfs|internal/git/gitserver/hostile)(/|$$)') ./tests/frontend ./tests/invariant

test: needs plugin cli ## the tests that every change must pass, in minutes: units, integration (as root), end to end in engines of their own; at the end the slowest tests, the flaky ones, what failed, and what the tests left on the machine
	@tests/run

test-all: needs plugin cli ## all tests of behaviour, in hours, before a release: fuzz, test-demo, test-release, and those of make test without -short, with those of test-hostile, test-crash, test-remotes and test-soak
	@failed=0; for target in fuzz test-demo test-release; do $(MAKE) $$target || failed=1; done; \
	tests/run all || failed=1; \
	exit $$failed

test-demo: ## run the demo in the local engine, and undo it, unless the plugin is installed there or there is no engine
	@if ! docker info >/dev/null 2>&1; then echo "test-demo: this machine has no engine"; \
	elif docker plugin inspect helmdeck/repos >/dev/null 2>&1; then echo "test-demo: the plugin is installed already"; \
	else \
		failed=0; docker image inspect helmdeck-demo >/dev/null 2>&1 && kept=1; \
		$(MAKE) demo && $(MAKE) uninstall CONFIRM=yes || failed=1; \
		[ -n "$$kept" ] || docker image rm helmdeck-demo >/dev/null || failed=1; \
		exit $$failed; \
	fi

# This runs the test program itself, because "go test" hides the output of passing tests.
test-hostile: needs plugin ## attack the plugin: one line per case, with its control and its verdict (as root)
	@go test -c -o build/hostile.test ./tests/hostile
	@cd tests/hostile && ../../build/hostile.test -test.timeout 60m

test-remotes: needs ## show what a user is told when a remote or the disk misbehaves: one line per fault (as root)
	@go test -C tests/remotes -count=1 -timeout 10m

test-crash: needs ## kill the plugin at each failpoint and check the state after the next start: one line per point (as root)
	@go test -C tests/crash -count=1 -timeout 10m

test-checkpoints: needs ## make 500 checkpoints beside random writers, on ext4 and XFS, and 50 beside each of SQLite and git, and compare; ROUNDS=50 for fewer (as root)
	@go test -C tests/checkpoints -count=1 -timeout 0 -v -skip '^TestRecipe' -args -rounds $(or $(ROUNDS),500)

test-soak: needs plugin ## random work on 30 clones with room for a third of them, then 20,000 subjects; DURATION=1h for longer than 5 minutes, SUBJECTS=4000 for fewer; HOSTILE=1 for work beside a hostile subject instead (as root)
	@go test -C tests/soak -count=1 -timeout 0 -run '^$(if $(HOSTILE),TestSiege,(TestSoak|TestSubjects))$$' -args -duration $(or $(DURATION),5m) -subjects $(or $(SUBJECTS),20000)

test-load: needs plugin ## start and stop 100 containers in a loop on 10 clones while branches move, in a separate engine, and check for errors and leaks; DURATION=3m for less than 10 minutes (as root)
	@go test -C tests -count=1 -timeout 0 -run '^TestLoad$$' -args -load $(or $(DURATION),10m)

test-engines: needs plugin cli ## all end-to-end tests, and many rounds of crashes, on Docker Engine of three Debian releases, as one table; ROUNDS=2 for fewer, ENGINES=28.5 ROWS=regexp for some (as root)
	@tests/engines/fetch
	@go run -buildvcs=false ./tests/engines $(if $(ROUNDS),-rounds $(ROUNDS)) $(if $(ENGINES),-engines $(ENGINES)) $(if $(ROWS),-run '$(ROWS)')

test-release: KEPT = $(CURDIR)/build/test-release
test-release: needs ## make two releases from nothing, in two directories with separate caches, compare them byte by byte, and install one on a new engine and in a cluster (as root)
	@rm -rf $(KEPT)
	@go test -C release -count=1 -timeout 60m -run '^TestReleaseTwice$$' ./bundle -args -full -keep $(KEPT)
	@go test -C release -count=1 -timeout 10m -run '^TestEngineInstalls$$' ./image -args -release $(KEPT)
	@go test -C tests/charts -count=1 -timeout 20m ./... -args -release $(KEPT)
	@tests/kubernetes/needs
	@tests/kubernetes/build >/dev/null
	@go test -C tests/kubernetes -count=1 -timeout 20m -run '^TestKubernetes$$' . -args -scenarios 'operators|examples|private repository|nothing is left' -release $(KEPT)
	@rm -rf $(KEPT)

test-recipes: needs needs-recipes plugin ## run the recipes for npm, cargo and go, twice each, with this machine's npm and cargo, let one container prepare dependencies for others, and kill these, pip, Gradle and Maven at random moments; ROUNDS=20 for more than 2 rounds of that (as root)
	@go test -C tests -count=1 -timeout 20m -run '^TestRecipe[A-Z]'
	@go test -C tests/checkpoints -count=1 -timeout 20m -run '^TestRecipe[A-Z]'
	@go test -C tests/caches -count=1 -timeout 0 -args -rounds $(or $(ROUNDS),2)

# This runs the test program itself, because "go test" hides the output of passing tests. The programs of Kubernetes
# are built once, into the user's cache.
test-kubernetes: needs image ## start a cluster of one node and test the CSI driver in it: one line per scenario, with times; 15 minutes the first time, then 4; SCENARIOS=regexp for some (as root)
	@tests/kubernetes/needs
	@tests/kubernetes/build >/dev/null
	@go test -c -o build/kubernetes.test ./tests/kubernetes
	@cd tests/kubernetes && ../../build/kubernetes.test -test.timeout 20m -test.run '^TestKubernetes$$' $(if $(SCENARIOS),-scenarios '$(SCENARIOS)')

test-quota: needs ## boot a virtual machine with project quotas, and test limits of workspaces on XFS and ext4; ONLY=regexp for some tests (as root)
	@go test -C tests/quota -count=1 -timeout 20m -v -run '^TestQuota$$' . -args -full $(if $(ONLY),-only '$(ONLY)')

# The lengths are numbers of inputs, because a fuzz test that ends by the clock now and then fails with "context deadline
# exceeded" (go.dev/issue/75804).
fuzz: ## fuzz the parsers of untrusted input, each for less than a minute; FUZZTIME=9000000x inputs for longer, FUZZTIME=10000x for less
	@for target in volume.FuzzParseURL.400000x volume.FuzzParseRef.400000x volume.FuzzParseOptions.150000x \
		git/gitindex.FuzzParse.75000x git/gitref.FuzzDecode.150000x git/gitref.FuzzReadPack.150000x repo/lfs.FuzzParsePointer.50000x; do \
		set -- $$(echo $$target | tr . ' '); \
		go test -run='^$$' -fuzz="^$$2$$" -fuzztime=$(or $(FUZZTIME),$$3) -fuzzminimizetime=10x ./internal/$$1 || exit 1; \
	done

BENCHSTAT = go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
bench: needs plugin ## compare with git, git-sync and plain volumes, and with a remote 30 ms away, into build/bench.json (as root); FILES=1000 RUNS=3 ROWS=warm,distance for less; REPOS=directory for the bare repositories there, into build/bench-repos.json; GITSYNC=program for the real git-sync; AGAINST=commit to compare with that build instead, in turns, by benchstat
	@go run -buildvcs=false ./cmd/bench $(if $(FILES),-files $(FILES)) $(if $(RUNS),-runs $(RUNS)) $(if $(ROWS),-rows $(ROWS)) $(if $(REPOS),-repos '$(REPOS)') $(if $(GITSYNC),-gitsync '$(GITSYNC)') $(if $(AGAINST),-against $(AGAINST); \
		status=$$?; $(BENCHSTAT) -col build build/bench-against.txt && exit $$status)

reference: ## write the pages of docs/reference from the code
	@go test -count=1 -run '^TestDocs$$' ./api ./csi ./internal/admin/metrics ./internal/volume ./plugin -args -update
	@go test -C cli -count=1 -run '^TestDocs$$' ./internal/commands -args -update

performance: ## write docs/performance.md from build/bench.json and build/bench-repos.json
	@go run -buildvcs=false ./cmd/bench -report docs

lint: ## gofmt, go vet and staticcheck, of all modules but tests/charts, whose dependencies take minutes to build
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; } >&2
	@set -e; for module in . cli release tests/csi tests/libraries; do \
		echo "lint: module $$module"; \
		(cd $$module && go vet ./... && go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./...); \
	done; go vet -tags kubernetes ./plugin; go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 -tags kubernetes ./plugin

install: needs-install plugin ## install the plugin into the local engine, or upgrade it and keep the clones; FORCE=1 while containers use it
	@rootfs/install

# Docker looks for plugins of its command in both directories.
CLI_DIR = $(if $(filter 0,$(shell id -u)),/usr/libexec/docker,$(or $(DOCKER_CONFIG),$(HOME)/.docker))/cli-plugins

install-cli: cli ## install the command "docker repos" for all users (as root) or for this one; DESTDIR=dir for a package
	@install -D -m 755 build/docker-repos $(DESTDIR)$(CLI_DIR)/docker-repos
	@for arch in $(RELAYS); do install -m 755 build/repos-linux-$$arch $(DESTDIR)$(CLI_DIR)/; done
	@echo "installed $(DESTDIR)$(CLI_DIR)/docker-repos"

uninstall: ## remove the plugin and all clones from the local engine; lists what it would delete, CONFIRM=yes deletes it
	@rootfs/uninstall

release: needs-release ## make build/release/VERSION: plugin, command, Debian packages, image, chart and YAML for Kubernetes, checksums, bills of materials; VERSION=1.2.3, KEY=ssh-key signs, REGISTRY=registry.example.com/helmdeck/repos if it will be published there, STRICT=1, DIRTY=1 (as root; docs/releasing.md)
	@go build -C release -buildvcs=false -o ../build/make-release .
	@build/make-release make -version "$$VERSION" -key "$$KEY" -repository "$$REGISTRY" -dirty "$$DIRTY" -strict "$$STRICT"

publish: ## push the plugins of build/release/VERSION to a registry, and the images for Kubernetes to the same name with -csi: VERSION=1.2.3 REGISTRY=registry.example.com/helmdeck/repos, LATEST=1 for the tag latest too
	@go build -C release -buildvcs=false -o ../build/make-release .
	@build/make-release publish -version "$$VERSION" -repository "$$REGISTRY" -latest "$$LATEST"

plugin: build rootfs ## assemble the plugin: build/plugin/{config.json,rootfs} (as root)
	@rootfs/assemble && { cat build/helmdeck-repos.sources && $(note) rootfs; } >build/plugin.sources

# Tests compare what they find in build/ with the sources (tests/built). "noted" runs a command that makes an output, and
# writes beside it what it is made of, unless the output is for another place.
note = GOOS= GOARCH= go run -buildvcs=false ./tests/built/note
noted = $(if $(filter build/$(1),$(2)),sources=$$($(note) $(1)) && rm -f $(2).sources && $(3) && echo "$$sources" >$(2).sources,$(3))

compile = CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags='-s -w -X main.version=$(or $(VERSION),dev)'

PROGRAM = build/helmdeck-repos
build: ## compile the plugin's program: build/helmdeck-repos, static
	@$(call noted,helmdeck-repos,$(PROGRAM),$(if $(ARCH),GOARCH=$(ARCH)) $(compile) -o $(PROGRAM) ./plugin)

# grpcnotrace leaves out 4 MB for pages that nobody serves.
build-csi: ## compile the program of the CSI driver, which is the plugin's with a server for kubelet: build/helmdeck-repos, static
	@$(if $(ARCH),GOARCH=$(ARCH)) $(compile) -tags kubernetes,grpcnotrace -o $(PROGRAM) ./plugin

# An engine on Linux runs the command as a relay, so a command for another system has one for Linux beside it.
RELAYS ?= $(if $(filter linux,$(shell go env GOOS)),,amd64 arm64)
compile_cli = CGO_ENABLED=0 go build -C cli -trimpath -buildvcs=false \
	-ldflags='-s -w -X github.com/helmdeck/repos/cli/internal/commands.version=$(or $(VERSION),dev)'

COMMAND = build/docker-repos
cli: ## compile the command "docker repos": build/docker-repos, static; RELAYS=arm64 for engines of other architectures too
	@$(call noted,docker-repos,$(COMMAND),$(compile_cli) -o $(abspath $(COMMAND)) .)
	@for arch in $(RELAYS); do GOOS=linux GOARCH=$$arch $(compile_cli) -o ../build/repos-linux-$$arch . || exit; done

# ARCH is an architecture as Debian names it, and, for these two, as Go does.
# REGISTRY and VERSION name the image; deploy/kubernetes has the names that are the default here.
image: export ARCH := $(or $(ARCH),$(shell go env GOARCH))
image: rootfs ## make the image of the CSI driver for Kubernetes: build/image/helmdeck-repos-csi-ARCH.tar, for docker load and ctr; VERSION=1.2.3, REGISTRY=registry.example.com/helmdeck/repos-csi, ARCH=arm64
	@mkdir -p build/image/$(ARCH)
	@GOOS=linux $(MAKE) build-csi PROGRAM=build/image/$(ARCH)/helmdeck-repos
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
rootfs: needs-build ## make the plugin's root filesystem from locked Debian packages (as root); ARCH=arm64, MIRROR=url, STRICT=1 for locked versions or none, FORCE=1 to build it again, FRESH=1 without the user's cache
	@FORCE=$(if $(filter rootfs,$(MAKECMDGOALS)),$(FORCE)) rootfs/build

lock: needs-build ## lock the current versions of these packages: rootfs/lock.amd64 and lock.arm64 (as root); MIRROR=url
	@rootfs/lock

needs: ## install the programs that the tests need besides Docker Engine, Go and make (Debian, as root), or list them
	@rootfs/needs

# The other targets need fewer of them.
needs-build needs-install needs-demo needs-release needs-recipes:
	@rootfs/needs $(@:needs-%=%)

clean: ## delete build/; the installed plugin stays, and so does ~/.cache/helmdeck-repos
	@rm -rf build
