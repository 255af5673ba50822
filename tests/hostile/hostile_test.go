package hostile

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver/hostile"
)

// attack is one case.
type attack struct {
	group  string
	name   string // unique in its group
	abuses string // the mechanism
	// prepare sets the stage for control and plugin alike; may be nil.
	prepare func(t *testing.T, tr *trap)
	control control
	on      func() *plugin // whom it is made against; nil is the roomy one
	run     func(s *scene)
}

// groups are all attacks, each file's its own.
var groups []func() []attack

// TestHostile makes every attack, and prints a line for each and a count.
func TestHostile(t *testing.T) {
	var all []attack
	for _, group := range groups {
		all = append(all, group()...)
	}
	slices.SortStableFunc(all, func(a, b attack) int { return order[a.group] - order[b.group] })
	out := newReport(all)
	names := map[string]bool{}
	mechanisms := map[string]string{}
	t.Run("all", func(t *testing.T) {
		for i, a := range all {
			id := a.group + "/" + a.name
			if names[id] || mechanisms[a.abuses] != "" || a.abuses == "" || order[a.group] == 0 {
				t.Errorf("%s: not a case of its own: %q is %s too", id, a.abuses, mechanisms[a.abuses])
			}
			names[id], mechanisms[a.abuses] = true, id
			t.Run(id, func(t *testing.T) {
				t.Parallel()
				var said, outcome string
				defer func() { out.done(i, said, outcome, t.Failed()) }()
				said = a.tryControl(t)
				outcome = a.tryPlugin(t)
			})
		}
	})
	fmt.Println(out.count())
	if len(all) < 60 {
		t.Errorf("got %d cases, want 60 or more", len(all))
	}
}

// order is that of the groups in the report.
var order = map[string]int{"url": 1, "server": 2, "repository": 3, "size": 4, "submodule": 5, "lfs": 6, "container": 7, "socket": 8}

// tryPlugin makes the attack against the plugin, and returns what came of it.
func (a attack) tryPlugin(t *testing.T) string {
	s := newScene(t, a)
	defer s.finish()
	a.run(s)
	return s.outcome
}

// report prints the lines in the order of the table, each as soon as those before it are there.
type report struct {
	mu    sync.Mutex
	cases []attack
	lines []string
	next  int // the first one that is not printed
	ended int
	held  int
	fired int
}

func newReport(cases []attack) *report {
	return &report{cases: cases, lines: make([]string, len(cases))}
}

func (r *report) done(i int, control, outcome string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	verdict := "FELL"
	if !failed {
		verdict = "held"
		r.held++
	}
	switch hostile.Effect(control) {
	case hostile.Runs, hostile.Asks, hostile.Reads, hostile.Writes, hostile.Fails:
		r.fired++
		control = "control " + control
	}
	r.ended++
	a := r.cases[i]
	r.lines[i] = fmt.Sprintf("%s  %-10s %-27s %-8s %-25s %s", verdict, a.group, a.name, outcome, control, a.abuses)
	for ; r.next < len(r.lines) && r.lines[r.next] != ""; r.next++ {
		fmt.Println(r.lines[r.next])
	}
}

// count prints what could not be printed in order, for -run has left cases out, and returns the sums.
func (r *report) count() string {
	for ; r.next < len(r.lines); r.next++ {
		if r.lines[r.next] != "" {
			fmt.Println(r.lines[r.next])
		}
	}
	return fmt.Sprintf("%d cases: %d held, %d fell; %d controls fired, %d have nothing to fire at or are closed in git %s",
		r.ended, r.held, r.ended-r.held, r.fired, r.ended-r.fired, gitVersion)
}
