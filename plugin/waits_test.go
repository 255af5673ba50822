package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// TestFirstCloneCanBeWatched checks that the first clone of a repository is listed while it runs, with
// whose it is, and that the log and the audit log have the phases of each mount and what it has waited for.
//
// Not parallel: some of its mounts must work within MOUNT_WAIT, which is a second.
func TestFirstCloneCanBeWatched(t *testing.T) {
	s := remote(t)
	p := startWith(t, scratch(t), func(at *places) { at.idle = true }, "MOUNT_WAIT=1s")
	gate := gitserver.NewGate()
	s.Script("sample", gitserver.Fetch, gate.Fault)
	for _, name := range []string{"a", "b"} {
		p.create(name, map[string]string{"repo": s.URL("sample"), "ref": "main"})
	}
	mounted := make(chan error, 2)
	go func() { mounted <- p.tryMount("a", "1") }()
	<-gate.Arrived
	work, err := p.admin().Work(t.Context(), api.Filter{})
	i := slices.IndexFunc(work, func(w api.Work) bool { return w.State == "cloning" })
	if err != nil || i < 0 || work[i].Repo != s.URL("sample") || work[i].Subject != "default" || work[i].Queued || work[i].Since.IsZero() ||
		!strings.Contains(work[i].For, `volume "a"`) {
		t.Fatalf("work %+v, %v", work, err)
	}
	go func() { mounted <- p.tryMount("b", "2") }()
	for range 2 {
		if err := <-mounted; err == nil || !strings.Contains(err.Error(), "continues in the background") {
			t.Fatal(err)
		}
	}
	close(gate.Open)
	wait.For(t, "the clone", func() error {
		work, err := p.admin().Work(t.Context(), api.Filter{})
		return wait.Check(err == nil && len(work) == 0, "%v, %v", work, err)
	})
	wait.For(t, "the checkout", func() error { return p.tryMount("b", "3") })
	p.mount("b", "4")
	logged := make(map[string]string)
	if err := p.admin().Logs(t.Context(), api.LogFilter{Volume: "b"}, func(l api.LogLine) error {
		if strings.HasPrefix(l.Message, "mount: ") {
			logged[l.Fields["lease"]] = fmt.Sprintln(l.Message, l.Fields["resolve"] != "", l.Fields["mount"] != "", strings.Contains(l.Fields["waited"], "work for "))
		}
		return nil
	}); err != nil || logged["2"] != "mount: failed true false true\n" || logged["4"] != "mount: done true true false\n" {
		t.Errorf("the log of volume b has %q, %v", logged, err)
	}
	for _, r := range p.audited() {
		if r.Action != "mount" {
			continue
		}
		waits := strings.Join(slices.Sorted(maps.Keys(r.Waits)), " ")
		if r.Took <= 0 || r.Phases["resolve"] <= 0 || (r.Result == "ok") != (r.Phases["mount"] > 0) || r.Lease == "2" && !strings.Contains(waits, `work for`) {
			t.Errorf("%+v", r)
		}
	}
}
