package main

import (
	"fmt"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
)

const (
	// The numbers of files and of dirty files in the targets.
	targetFiles = 100000
	targetDirty = 50000
	// The number of concurrent mounts, and of idle workspaces.
	targetCrowd = 64
	// The number of files deleted, and of clones planned for.
	targetDoomed  = 1000000
	targetPlanned = 100000
	// The number of commits of the repository with a long history.
	targetCommits = 20000
	// The number of files of a node_modules.
	targetModules = 20000
)

// targetColumn is where the targets are read.
var targetColumn = column{files: targetFiles}

// goal is a target of the project.
type goal struct {
	name    string
	limit   float64
	atLeast bool                     // the value must be at least limit; otherwise at most
	got     func(r *report) *reading // nil if its rows were not measured
}

// reading is a run's value for a goal.
type reading struct {
	value float64
	unit  unit // empty for a ratio
	note  string
}

// target is a goal with the measured value.
type target struct {
	Name    string  `json:"name"`
	Limit   float64 `json:"limit"`
	AtLeast bool    `json:"at_least,omitempty"`
	Got     float64 `json:"got"`
	Unit    unit    `json:"unit,omitempty"`
	Met     bool    `json:"met"`
	Note    string  `json:"note"`
}

// goals has all targets of the project.
var goals = []goal{
	{name: "warm Mount / git ls-remote of the same ref", limit: 1.5, got: ratio(warmMount, lsRemote)},
	{name: "warm Mount at 100,000 files / at 1,000", limit: 1.3, got: ratio(warmMount, smallMount)},
	{name: "docker run, warm repository / empty local volume", limit: 1.2, got: ratio(dockerWarm, dockerEmpty)},
	{name: "docker run, cold repository / git clone in the container", limit: 0.8, got: ratio(dockerCold, dockerClone)},
	{name: "in-place reset of 50,000 dirty files / warm Mount", limit: 20, atLeast: true, got: ratio(dirtyRow(targetDirty), warmMount)},
	{name: "git clone / warm Mount", limit: 100, atLeast: true, got: ratio(freshClone, warmMount)},
	{name: "Unmount with 50,000 dirty files", limit: 5, got: value(unmountRow(targetDirty))},
	{name: "cold Create + Mount / git clone", limit: 0.7, got: ratio(coldMount, freshClone)},
	{name: "update by 100 files / in-place fetch, reset, clean", limit: 0.2, got: ratio(updateMount, inPlacePush)},
	{name: "64 Mounts at once after a push: fetches", limit: 1, got: most(pushedFetches(targetCrowd))},
	{name: "64 Mounts at once after a push: ls-refs", limit: 2, got: most(pushedAsks(targetCrowd))},
	{name: "64 Mounts at once: ls-refs", limit: 2, got: most(crowdAsks(targetCrowd))},
	{name: "64 Mounts at once / one warm Mount", limit: 20, got: ratio(crowdRow(targetCrowd), loneMount)},
	{name: "64 Mounts at once after a push / 64 at once, and one after a push", limit: 1.5, got: ratio(pushedRow(targetCrowd), crowdRow(targetCrowd), loneUpdate)},
	{name: "30 ms away: warm Mount", limit: 1.2, got: value(tripsRow(warmMount))},
	{name: "30 ms away: Create + Mount of a new volume, warm repository", limit: 1.4, got: value(tripsRow(newMount))},
	{name: "30 ms away: docker run --workdir, nameless volume", limit: 1.6, got: value(tripsRow(dockerWorkdir))},
	{name: "30 ms away: warm Mount after the server hung up", limit: 4, got: value(tripsRow(hungUpMount))},
	{name: "30 ms away: docker run, nameless volume: questions", limit: 1, got: most(trafficRow(dockerNameless, questions))},
	{name: "30 ms away: docker run --workdir, nameless volume: questions", limit: 1, got: most(trafficRow(dockerWorkdir, questions))},
	{name: "30 ms away: 64 Mounts at once: questions", limit: 2, got: most(trafficRow(crowdRow(targetCrowd), questions))},
	{name: "30 ms away: Mount after an update by 100 files, with KEEP_READY / warm", limit: 1.2, got: ratio(farRow(keptMount), farRow(keptNext))},
	{name: "0 ms away: Mount after an update by 100 files, with KEEP_READY / warm", limit: 1.2, got: ratio(nearRow(keptMount), nearRow(keptNext))},
	{name: "30 ms away: Mount after an update by 100 files and POST /v1/refresh / warm", limit: 1.2, got: ratio(farRow(refreshedMount), farRow(warmMount))},
	{name: "0 ms away: Mount after an update by 100 files and POST /v1/refresh / warm", limit: 1.2, got: ratio(nearRow(refreshedMount), nearRow(warmMount))},
	{name: "30 ms away: cold repository with 20,000 commits / git clone", limit: 0.95, got: ratio(farRow(deepRow(targetCommits)), farRow(deepClone(targetCommits)))},
	{name: "0 ms away: cold repository with 20,000 commits / git clone", limit: 0.95, got: ratio(nearRow(deepRow(targetCommits)), nearRow(deepClone(targetCommits)))},
	{name: "30 ms away: cold repository with 20,000 commits, cold=shallow / git clone --depth 1", limit: 1.2, got: ratio(farRow(shallowRow(targetCommits)), farRow(shallowClone(targetCommits)))},
	{name: "0 ms away: cold repository with 20,000 commits, cold=shallow / git clone --depth 1", limit: 1.2, got: ratio(nearRow(shallowRow(targetCommits)), nearRow(shallowClone(targetCommits)))},
	{name: "second pass of a checkpoint of 1,000 files, ext4", limit: 60, got: value(secondPass(1000, loopdisk.Ext4))},
	{name: "second pass of a checkpoint of 10,000 files, ext4", limit: 500, got: value(secondPass(10000, loopdisk.Ext4))},
	{name: "second pass of a checkpoint of 1,000 files, XFS", limit: 30, got: value(secondPass(1000, loopdisk.XFS))},
	{name: "second pass of a checkpoint of 10,000 files, XFS", limit: 250, got: value(secondPass(10000, loopdisk.XFS))},
	{name: "Mount of a checkpoint / warm Mount", limit: 1.2, got: ratio(forkMount, forkBeside)},
	{name: "100 Mounts of one checkpoint at once", limit: 1000, got: value(forksRow(forksAtOnce))},
	{name: "disk of 100 workspaces that begin with a checkpoint", limit: 20, got: value(forksSpace(forksAtOnce))},
	{name: "64 idle workspaces on top of one", limit: 64, got: value(spaceRow(targetCrowd))},
	{name: "plan for 100,000 clones with five layers and checkpoints each", limit: 200, got: value(planRow(targetPlanned))},
	{name: "memory of that plan, with what it plans for", limit: 300e6 / (1 << 20), got: value(planSpace(targetPlanned))},
	{name: "a sweep that finds nothing: directories read", limit: 0, got: most(sweepReadRow)},
	{name: "warm Mount while a million files are deleted / before", limit: 2, got: ratio(besideRow(targetDoomed), beforeRow(targetDoomed))},
}

// ratio returns a row's median over the sum of those of others.
func ratio(a string, of ...string) func(*report) *reading {
	return func(r *report) *reading {
		var sum series
		for _, name := range of {
			s := r.row(name, targetColumn)
			if s == nil {
				return nil
			}
			sum.Unit, sum.Median = s.Unit, sum.Median+s.Median
		}
		return divide(r.row(a, targetColumn), &sum)
	}
}

func divide(a, b *series) *reading {
	if a == nil || b == nil || b.Median == 0 {
		return nil
	}
	return &reading{value: a.Median / b.Median, note: fmt.Sprintf("%s / %s", a.Unit.format(a.Median), b.Unit.format(b.Median))}
}

// value returns a row's median.
func value(name string) func(*report) *reading {
	return func(r *report) *reading {
		s := r.row(name, targetColumn)
		if s == nil {
			return nil
		}
		return &reading{value: s.Median, unit: s.Unit, note: fmt.Sprintf("max of %d: %s", len(s.Samples), s.Unit.format(s.max()))}
	}
}

// most returns a row's largest sample, for limits that no sample may exceed.
func most(name string) func(*report) *reading {
	return func(r *report) *reading {
		s := r.row(name, targetColumn)
		if s == nil {
			return nil
		}
		return &reading{value: s.max(), unit: s.Unit, note: fmt.Sprintf("max of %d", len(s.Samples))}
	}
}

// targets checks the goals whose rows were measured.
func targets(r *report) (list []target) {
	for _, g := range goals {
		got := g.got(r)
		if got == nil {
			continue
		}
		list = append(list, target{
			Name: g.name, Limit: g.limit, AtLeast: g.atLeast, Got: got.value, Unit: got.unit, Note: got.note,
			Met: g.atLeast && got.value >= g.limit || !g.atLeast && got.value <= g.limit,
		})
	}
	return list
}

// verdict returns whether the target was met, as text.
func (t target) verdict() string {
	if t.Met {
		return "met"
	}
	return "NOT MET"
}

// figures returns the measured value and the limit as text.
func (t target) figures() (got, limit string) {
	write := t.Unit.format
	if t.Unit == "" {
		write = times
	}
	limit = "at most "
	if t.AtLeast {
		limit = "at least "
	}
	return write(t.Got), limit + write(t.Limit)
}

func (t target) String() string {
	got, limit := t.figures()
	return fmt.Sprintf("%-7s  %s: %s, %s (%s)", t.verdict(), t.Name, got, limit, t.Note)
}
