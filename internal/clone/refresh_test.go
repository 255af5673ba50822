package clone

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
)

func TestRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	first := w.remote("rev-parse", "refs/heads/main")
	always, hour, never := w.spec("ref", "main"), w.spec("ref", "main", "refresh", "1h"), w.spec("ref", "main", "refresh", "never")
	commit := w.spec("ref", first)
	second, third := "", ""
	for _, step := range []struct {
		name             string
		do               func()
		spec             Spec
		want             *string
		lsRefs, fetching int // what the remote is asked
	}{
		{"never still fetches the first time", func() {}, never, &first, 1, 1},
		{"always asks", func() {}, always, &first, 1, 0},
		{"a duration that has not passed", func() {}, hour, &first, 0, 0},
		{"never, moved", func() { second = w.Push("main") }, never, &first, 0, 0},
		{"a duration that has not passed, moved", func() { w.Advance(59 * time.Minute) }, hour, &first, 0, 0},
		{"a duration that has passed", func() { w.Advance(2 * time.Minute) }, hour, &second, 1, 1},
		{"always, moved", func() { third = w.Push("main") }, always, &third, 1, 1},
		{"never takes what is there", func() {}, never, &third, 0, 0},
		{"a commit that is there", func() {}, commit, &first, 0, 0},
		{"a commit does not move", func() {}, commit, &first, 0, 0},
	} {
		step.do()
		w.Server.Reset()
		co, err := w.clone(step.spec).Prepare(t.Context(), step.spec)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := co.Resolution.Commit; got != *step.want {
			t.Errorf("%s: %s, want %s", step.name, got, *step.want)
		}
		if l, f, _ := w.requests(); l != step.lsRefs || f < step.fetching || step.fetching == 0 && f > 0 {
			t.Errorf("%s: %d questions and %d fetches, want %d and %d", step.name, l, f, step.lsRefs, step.fetching)
		}
		co.Release()
	}
}

// A fetch for another ref that does not include a ref does not count as a question about
// it.
func TestRefreshIsPerRef(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, ref string
		before    func(w *world)
		move      func(w *world) string
	}{
		{"pull request", "refs/pull/7/head", func(w *world) { w.Push("refs/pull/7/head") }, func(w *world) string { return w.Push("refs/pull/7/head") }},
		{"HEAD renamed", "", func(*world) {}, func(w *world) string {
			w.remote("branch", "trunk", "feature/x")
			w.remote("symbolic-ref", "HEAD", "refs/heads/trunk")
			return w.remote("rev-parse", "trunk")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			tt.before(w)
			s := w.spec("ref", tt.ref, "refresh", "1h")
			w.prepare(s).Release()
			want := tt.move(w)
			w.Advance(50 * time.Minute)
			w.Push("feature/x")
			w.prepare(w.spec("ref", "feature/x")).Release()
			w.Advance(20 * time.Minute)
			co := w.prepare(s)
			defer co.Release()
			if got := co.Resolution.Commit; got != want {
				t.Errorf("%s after more than an hour, want %s", got, want)
			}
		})
	}
}

// gate is a fault that reports each request, and lets it pass when it is open.
type gate struct {
	arrived chan struct{}
	open    chan struct{}
}

func newGate() gate { return gate{make(chan struct{}, 1000), make(chan struct{})} }

func (g gate) wrap(next http.Handler) http.Handler {
	stalled := gitserver.Stall(g.open)(next)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		g.arrived <- struct{}{}
		stalled.ServeHTTP(rw, r)
	})
}

// Concurrent callers that want the same cause one question and one clone.
func TestCoalescing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	g := newGate()
	w.Server.Wrap(g.wrap)
	const n = 20
	var wg sync.WaitGroup
	began := make(chan struct{}, n)
	for range n {
		wg.Go(func() {
			began <- struct{}{}
			co, err := w.clone(s).Prepare(t.Context(), s)
			if err != nil {
				t.Error(err)
				return
			}
			co.Release()
		})
	}
	for range n {
		<-began
	}
	<-g.arrived
	close(g.open)
	wg.Wait()
	if _, _, clones := w.requests(); clones != 1 {
		t.Errorf("%d clones, want 1", clones)
	}
	for _, dir := range []string{"trees", "refs"} {
		if got := testdir.Names(t, filepath.Join(w.clone(s).Dir, dir)); len(got) != 1 {
			t.Errorf("%s: %q, want one layer", dir, got)
		}
	}
}

// A caller whose context ends gets the cause at once. The work continues, and the next
// caller finds it done.
func TestWorkContinuesWithoutCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.asked("ref", "main")
	c := w.clone(s)
	g := newGate()
	w.Server.Wrap(g.wrap)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Prepare(ctx, s)
		ended <- err
	}()
	<-g.arrived
	if got := c.Status(volume.History{}).State; got != "cloning" {
		t.Errorf("state %q, want cloning", got)
	}
	cancel(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("Prepare: %v, want the context's cause", err)
	}
	w.Server.Reset()
	close(g.open)
	co, err := c.Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	co.Release()
	if got := w.Server.Stats("r").Infos; got != 0 {
		t.Errorf("%d new requests, want the fetch that was under way", got)
	}
	if got := c.Status(volume.History{}); got.State != "ready" || !got.Cloned || c.remote.Doing.String() != "" {
		t.Errorf("status %+v, activity %q", got, c.remote.Doing.String())
	}
}

// A silent server does not prevent the plugin from stopping.
func TestCloseEndsStuckWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	g := newGate()
	w.Server.Wrap(g.wrap)
	ended := make(chan error, 1)
	go func() {
		_, err := w.clone(s).Prepare(t.Context(), s)
		ended <- err
	}()
	<-g.arrived
	w.data.Close()
	if err := <-ended; err == nil {
		t.Error("Prepare succeeded")
	}
}

func TestFailedFirstFetchLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault func(http.Handler) http.Handler
	}{
		{"500", gitserver.Fail(500)}, {"cut", gitserver.Cut(3000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.asked("ref", "main")
			c := w.clone(s)
			w.Server.Wrap(tt.fault)
			if _, err := c.Prepare(t.Context(), s); giterror.KindOf(err) != giterror.KindServer {
				t.Errorf("Prepare: %v, want a server error", err)
			}
			if got := testdir.Names(t, filepath.Join(w.Root, "clones")); len(got) > 0 {
				t.Errorf("left: %q", got)
			}
			if got := c.Status(volume.History{}); got.Cloned || got.State != "absent" {
				t.Errorf("status %+v", got)
			}
			w.Server.Wrap(nil)
			w.prepare(s).Release()
			// A later one that fails leaves what was there.
			w.Push("main")
			s = w.asked("ref", "main")
			w.Server.Wrap(tt.fault)
			if tt.name == "500" {
				if _, err := c.Prepare(t.Context(), s); err == nil {
					t.Error("Prepare succeeded")
				}
			}
			if _, err := os.Stat(filepath.Join(c.Dir, "store/full.git/packed-refs")); err != nil {
				t.Error(err)
			}
		})
	}
}
