package main

import (
	"slices"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

// Names of rows to which other rows or targets refer.
const (
	coldMount   = "cold Create + Mount"
	warmMount   = "warm Mount"
	smallMount  = "warm Mount of a repository with 1,000 files"
	loneMount   = "warm Mount, in turns with Mounts at once"
	lsRemote    = "git ls-remote URL REF"
	updateMount = "Mount, 100 files changed"
	firstStatus = "git status in a fresh workspace"
	hungUpMount = "warm Mount after the server hung up"
	newMount    = "Create + Mount of a new volume, warm repository"

	refreshedMount = "Mount after POST /v1/refresh, 100 files changed"

	freshClone  = "git clone"
	inPlace     = "in place: fetch, reset, clean"
	inPlacePush = inPlace + ", 100 files changed"

	gitSyncWay   = "git-sync's way"
	gitSyncPush  = gitSyncWay + ", 100 files changed"
	gitSyncFirst = gitSyncWay + ", first sync"

	dockerWarm  = "docker run, warm repository"
	dockerCold  = "docker run, cold repository"
	dockerClone = "docker run, git clone in the container"
	dockerPush  = "docker run, 100 files changed"
	dockerEmpty = "docker run, empty local volume"

	dockerNameless      = "docker run, nameless volume"
	dockerWorkdir       = "docker run --workdir, nameless volume"
	dockerNamelessLocal = "docker run, nameless local volume"
)

// groups returns all groups in the order of measurement.
func groups(c config) []group {
	if c.repos != "" {
		return realGroups(c)
	}
	list := []group{cold(c), warm(c), update(c), docker(c), status(c)}
	for _, n := range c.dirty {
		list = append(list, reset(c, n))
	}
	for _, n := range c.copied {
		list = append(list, checkpoint(c, n, loopdisk.Ext4), checkpoint(c, n, loopdisk.XFS))
	}
	return append(list, forks(c), atOnce(c), space(c), modules(c), deletion(c), plan(c), sweep(c), away(c), awayInContainers(c), history(c), keepReady(c))
}

// groupNames returns the names that -rows accepts.
func (c config) groupNames() []string {
	var names []string
	for _, g := range groups(config{dirty: numbers{0}, copied: numbers{0}, repos: c.repos}) {
		names = append(names, g.name)
	}
	return slices.Compact(names) // the groups of a name are neighbours
}
