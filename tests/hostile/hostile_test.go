package hostile

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/short"
)

// attack is one case of TestHostile.
type attack struct {
	group  string
	name   string // unique in its group
	abuses string // the mechanism
	// prepare prepares the bait for the control and for the plugin; it may be nil.
	prepare func(t *testing.T, tr *trap)
	control control
	on      func() *plugin // the plugin to attack; nil stands for roomy
	run     func(s *scene)
}

// groups return all attacks. Each file adds its own groups.
var groups []func() []attack

// TestHostile runs every attack, and prints a line for each and the counts.
func TestHostile(t *testing.T) {
	roomy.Limit, narrow.Limit = t, t // TestMain, which started them, has no deadline
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
				t.Errorf("%s: its name, group or mechanism %q is missing or not unique: see %s", id, a.abuses, mechanisms[a.abuses])
			}
			names[id], mechanisms[a.abuses] = true, id
			t.Run(id, func(t *testing.T) {
				short.OneOf(t, 12)
				t.Parallel()
				var effect, outcome string
				defer func() { out.done(i, effect, outcome, t.Failed()) }()
				t.Cleanup(func() { noteFall(t) })
				effect = a.tryControl(t)
				outcome = a.tryPlugin(t)
			})
		}
	})
	fmt.Println(out.count())
	if len(all) < 60 {
		t.Errorf("got %d cases, want at least 60", len(all))
	}
}

// order is the order of the groups in the report.
var order = map[string]int{"url": 1, "server": 2, "repository": 3, "size": 4, "submodule": 5, "lfs": 6, "container": 7, "socket": 8, "push": 9, "handout": 10}

// tryPlugin runs the attack against the plugin, and returns the outcome for the report.
func (a attack) tryPlugin(t *testing.T) string {
	s := newScene(t, a)
	defer s.finish()
	a.run(s)
	return s.outcome
}

// report prints a line for each case, in the order of the cases. It holds a line back until all
// lines before it are printed.
type report struct {
	mu    sync.Mutex
	cases []attack
	lines []string
	next  int // the index of the first line that is not yet printed
	ended int
	held  int
	fired int
}

func newReport(cases []attack) *report {
	return &report{cases: cases, lines: make([]string, len(cases))}
}

// done adds the line of a case.
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

// count prints the lines that done held back because -run leaves out cases before them, and returns
// the counts.
func (r *report) count() string {
	for ; r.next < len(r.lines); r.next++ {
		if r.lines[r.next] != "" {
			fmt.Println(r.lines[r.next])
		}
	}
	return fmt.Sprintf("%d cases: %d held, %d fell; %d controls fired, %d have nothing to fire at or are closed in git %s",
		r.ended, r.held, r.ended-r.held, r.fired, r.ended-r.fired, gitVersion)
}
