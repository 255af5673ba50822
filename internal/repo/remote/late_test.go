package remote

import (
	"context"
	"maps"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestLateRequest resolves refs for requests that came before and after a question began.
func TestLateRequest(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.git("branch", "other", "main~1")
	main, other := h.source("main"), h.source("other")
	h.resolve(main)
	h.resolve(other)
	request := func() context.Context {
		return origin.Begin(t.Context(), origin.Actor{Kind: origin.Engine})
	}
	check := func(name string, ctx context.Context, s Source, commit string, questions int) {
		t.Helper()
		before := h.server.Stats("r").LsRefs
		var r meta.Resolution
		if err := h.r.Snapshot(ctx, s, func(snap *Snapshot) error { r = snap.Resolution; return nil }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if asked := h.server.Stats("r").LsRefs - before; r.Commit != commit || asked != questions {
			t.Errorf("%s: %s after %d questions, want %s after %d", name, r.Commit, asked, commit, questions)
		}
	}

	early := request()
	commit := h.push("1")
	h.ask(main)
	last := h.kept()
	again := func() { h.setKept(maps.Clone(last)) } // also if the test takes longer than keptLate
	again()
	check("the store lacks the commit", early, main, commit, 0)
	again()
	check("the store has the commit", early, main, commit, 0)
	again()
	check("another ref", early, other, h.git("rev-parse", "other"), 1)
	again()
	check("a request from after the question", request(), main, commit, 1)
	again()
	check("no request", t.Context(), main, commit, 1)
	again()
	since := main
	since.Since.Asked = h.r.Asked()
	check("a volume from after the question", early, since, commit, 1)

	shallow := main
	shallow.History.Depth = 1
	h.resolve(shallow)
	early = request()
	h.ask(main)
	check("another history", early, shallow, commit, 1)

	h.push("2")
	h.ask(main)
	last = h.kept()
	commit = h.push("3")
	h.resolve(other) // brings main too
	again()
	check("the store has a newer answer", early, main, commit, 1)

	h.git("branch", "third", "main")
	if _, err := gitserver.Commit(h.server.Path("r"), "third", gitserver.Change{Path: "third"}); err != nil {
		t.Fatal(err)
	}
	h.git("branch", "fourth", "main")
	check("the store lacks another branch", t.Context(), main, commit, 1)
	check("the store has half of the answer, and gets the rest", early, main, commit, 0)

	commit = h.push("4")
	known := h.ask(main)
	held := testgit.Hold()
	h.server.Script("r", gitserver.LsRefs, held.Fault)
	var wg sync.WaitGroup
	early = request()
	wg.Go(func() { h.ask(main) })
	<-held.Answered
	if _, err := h.r.reconcile(t.Context(), main, known, false); err != nil {
		t.Fatal(err)
	}
	pushed := h.push("5")
	during := request()
	close(held.Open)
	wg.Wait()
	last = h.kept()
	again()
	check("the store has changed during the question", early, main, commit, 0)
	again()
	check("a request from during the question", during, main, pushed, 1)

	h.server.Wrap(gitserver.On(gitserver.LsRefs, gitserver.Fail(500)))
	early = request()
	if err := h.r.Ask(t.Context(), main); err == nil {
		t.Error("no error")
	}
	h.server.Wrap(nil)
	check("the question failed", early, main, pushed, 1)
}
