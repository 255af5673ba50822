package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/wait"
)

// gauge is a number that must not grow with the number of starts.
type gauge struct {
	name string
	read func(e *engine, pid int) (int64, error)
	// grown is how much the median may grow from the first half to the second, in addition to a
	// quarter; negative: no limit.
	grown int64
	// left is how much the value after the load may exceed the value before it; negative: no limit.
	left int64
}

// gauges are read each second. A leak of one thing at each start makes hundreds in half of ten
// minutes, and after the load.
var gauges = []gauge{
	{"resident memory, KiB", status("VmRSS"), 8 << 10, -1},
	{"the most of it so far, KiB", status("VmHWM"), -1, -1},
	{"its own part of it, KiB", status("RssAnon"), 8 << 10, -1},
	{"threads", status("Threads"), 10, -1}, // Go keeps the threads that it once needed
	{"descriptors", func(_ *engine, pid int) (int64, error) {
		n, err := invariant.Descriptors(pid)
		return int64(n), err
	}, 20, 10}, // the engine keeps some connections open
	{"mounts in its namespace", func(_ *engine, pid int) (int64, error) {
		table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
		return int64(strings.Count(string(table), "\n")), err
	}, 30, 0},
	{"mounts of the engine on the host", func(e *engine, _ int) (int64, error) {
		list, err := dockerd.MountsBelow(e.Path())
		return int64(len(list)), err
	}, 30, 0},
	{"workspaces and trash", func(e *engine, _ int) (int64, error) {
		workspaces, err := e.layers("workspaces")
		trash, trashErr := filepath.Glob(e.Data("trash", "*"))
		return int64(len(workspaces) + len(trash)), errors.Join(err, trashErr)
	}, 100, 0},
	{"trees and git layers", func(e *engine, _ int) (int64, error) {
		trees, err := e.layers("trees")
		refs, refsErr := e.layers("refs")
		return int64(len(trees) + len(refs)), errors.Join(err, refsErr)
	}, -1, loadClones * 2 * 16}, // at the end a branch has a chain of at most 16 trees, after any number of pushes
}

func status(field string) func(*engine, int) (int64, error) {
	return func(_ *engine, pid int) (int64, error) { return invariant.Status(pid, field) }
}

// layers returns the directories of one kind in all clones.
func (e *engine) layers(kind string) ([]string, error) {
	return filepath.Glob(e.Data("clones", "*", "*", kind, "*"))
}

// sample has the values of the gauges at one time.
type sample struct {
	at     time.Duration // since the load began
	values []int64
}

type samples []sample

func (l *load) sample(at time.Duration) sample {
	l.Helper()
	s := sample{at: at}
	for _, g := range gauges {
		value, err := g.read(l.e, l.pid)
		if err != nil {
			l.Fatalf("%s: %v", g.name, err)
		}
		s.values = append(s.values, value)
	}
	return s
}

// median returns the median of a gauge.
func (s samples) median(gauge int) int64 {
	var values []int64
	for _, one := range s {
		values = append(values, one.values[gauge])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// halves returns the two halves of the samples after the warm-up. ok is false if the load was less
// than twice as long as the warm-up.
func (s samples) halves() (first, second samples, ok bool) {
	last := s[len(s)-1].at
	if last < 2*loadWarmUp {
		return nil, nil, false
	}
	half := loadWarmUp + (last-loadWarmUp)/2
	for _, one := range s {
		switch {
		case one.at >= half:
			second = append(second, one)
		case one.at >= loadWarmUp:
			first = append(first, one)
		}
	}
	return first, second, true
}

// wantFlat checks that no gauge has grown: its median in the second half exceeds that in the first
// half by at most a quarter and the gauge's grown. Temporary values, such as garbage or a push that
// many containers wait for, do not change a median. Without a leak the values are bounded by the
// number of containers, however fast the machine starts them. A leak grows with the number of
// starts.
func (s samples) wantFlat(t *testing.T) {
	t.Helper()
	first, second, ok := s.halves()
	if !ok {
		return
	}
	for i, g := range gauges {
		if was, is := first.median(i), second.median(i); g.grown >= 0 && is > was+was/4+g.grown {
			t.Errorf("%s: grew from %d in the first half to %d in the second", g.name, was, is)
		}
	}
}

// course returns the values of a gauge at the beginning, in the middle and at the end: each the
// median of a tenth of the samples.
func (s samples) course(gauge int) (first, middle, last int64) {
	n := len(s)
	tenth := n/10 + 1
	return s[:tenth].median(gauge), s[(n-tenth)/2 : (n+tenth)/2].median(gauge), s[n-tenth:].median(gauge)
}

// created matches a line of the plugin's dump of goroutines in the engine's log.
var created = regexp.MustCompile(`msg="created by ([^ ]+) in goroutine `)

// dumpGoroutines ends the plugin's process with SIGQUIT, so that Go's runtime prints the
// goroutines, and counts them by the function that started them. The engine starts the plugin
// again.
func (l *load) dumpGoroutines() map[string]int {
	l.Helper()
	before, err := os.Stat(l.e.Path("log"))
	if err != nil {
		l.Fatal(err)
	}
	if err := syscall.Kill(l.pid, syscall.SIGQUIT); err != nil {
		l.Fatal(err)
	}
	var dump string
	wait.For(l.T, "the goroutines in the engine's log", func() error {
		log, err := os.ReadFile(l.e.Path("log"))
		if err != nil {
			return err
		}
		dump = string(log[before.Size():])
		if !registers.MatchString(dump) {
			return fmt.Errorf("the log ends with %s", dump[max(0, len(dump)-1000):])
		}
		return nil
	})
	wait.For(l.T, "the plugin's next process", func() error {
		_, err := l.e.admin(l.T).Clones(l.Context(), api.Filter{})
		return err
	})
	counts := map[string]int{}
	for _, by := range created.FindAllStringSubmatch(dump, -1) {
		if !strings.HasPrefix(by[1], "runtime.") { // the runtime prints its own goroutines only at times
			counts[by[1]]++
		}
	}
	return counts
}

// registers matches the end of the runtime's dump: the line of the program counter, of amd64 or
// arm64.
var registers = regexp.MustCompile(`msg="(rip|pc) +0x`)

// sum returns the number of all goroutines.
func sum(counts map[string]int) (n int) {
	for _, count := range counts {
		n += count
	}
	return n
}

// wantSameGoroutines checks that the number of goroutines has grown by at most ten, because the
// engine keeps some connections open.
func wantSameGoroutines(t *testing.T, before, after map[string]int) {
	t.Helper()
	if sum(before) == 0 || sum(after) > sum(before)+10 {
		t.Errorf("%d goroutines after the load, %d before, by what started them: %v, %v", sum(after), sum(before), after, before)
	}
}
