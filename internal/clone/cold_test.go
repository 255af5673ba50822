package clone

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// counted returns a fault that counts its requests.
func counted() (gitserver.Fault, *atomic.Int64) {
	var n atomic.Int64
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n.Add(1)
			next.ServeHTTP(w, r)
		})
	}, &n
}

// holdFull makes fetches of the full history wait for the gate, and counts the others.
func (w *world) holdFull() (gate gitserver.Gate, shallow *atomic.Int64) {
	gate = gitserver.NewGate()
	count, shallow := counted()
	w.Server.Route("r", gitserver.OnDepth(false, gate.Fault), gitserver.OnDepth(true, count))
	return gate, shallow
}

// coldMain are the options of a volume of main with cold=shallow.
var coldMain = []string{"ref", "main", "cold", "shallow"}

// coldMount mounts a volume with the options coldMain, except its workspace.
func (w *world) coldMount() *Checkout {
	w.T.Helper()
	s := w.spec(coldMain...)
	co := w.prepare(s)
	w.clone(s).Mounted(w.T.Context(), w.Options(coldMain...))
	return co
}

// stores returns the names of the clone's stores, in its record and on the disk.
func (w *world) stores(c *Clone) (names []string) {
	w.T.Helper()
	info, _ := c.Info()
	for name := range info.Stores {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range testdir.Names(w.T, filepath.Join(c.Dir, "store")) {
		if name := strings.TrimSuffix(name, ".git"); !slices.Contains(names, name) {
			names = append(names, "without a record: "+name)
		}
	}
	return names
}

// deepened waits until the full history was fetched in the background.
func (w *world) deepened(c *Clone) {
	w.T.Helper()
	wait.For(w.T, "the full history", func() error {
		_, ok := c.remote.Store(volume.History{})
		return wait.Check(ok && !c.deepening.Load(), "a store with it: %t, a fetch: %t", ok, c.deepening.Load())
	})
}

// Cold Mounts share one fetch of the newest commits and do not wait for the full history,
// which is fetched once. The next Mount has it, and the same tree.
func TestCold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, shallow := w.holdFull()
	s := w.spec(coldMain...)
	c := w.clone(s)
	list := make([]*Checkout, 64)
	var all sync.WaitGroup
	for i := range list {
		all.Go(func() { list[i] = w.coldMount() })
	}
	all.Wait()
	<-gate.Arrived
	for _, co := range list {
		if !co.Shallow || co.Resolution.Commit != w.remote("rev-parse", "main") || co.GitLayer.ID != list[0].GitLayer.ID {
			t.Fatalf("got %+v", co)
		}
	}
	dir := w.Mount(list[0].Lower, 0)
	if got := run(t, dir, 0, "rev-list", "--count", "HEAD"); got != "1" {
		t.Errorf("the container has %s commits of main", got)
	}
	if got := run(t, dir, 0, "status", "--porcelain"); got != "" {
		t.Errorf("git status: %s", got)
	}
	if fetches, n := shallow.Load(), len(gate.Arrived); fetches != 1 || n != 0 {
		t.Errorf("%d shallow fetches, want 1, and %d more full ones", fetches, n)
	}

	// A push is seen although the full history is still being fetched.
	pushed := w.Push("main")
	co := w.coldMount()
	if !co.Shallow || co.Resolution.Commit != pushed {
		t.Errorf("after a push: %+v", co)
	}
	co.Release()
	if got := w.stores(c); !slices.Contains(got, "cold") || slices.Contains(got, "full") {
		t.Errorf("stores %q", got)
	}

	close(gate.Open)
	w.deepened(c)
	run(t, dir, 0, "fetch", "-q", "--unshallow")
	if got, want := run(t, dir, 0, "rev-list", "--all", "--count"), w.remote("rev-list", "--all", "--count"); got != want {
		t.Errorf("unshallowed: %s commits, want %s", got, want)
	}
	if got, want := refsOf(t, dir, "remotes/origin/", "tags/"), refsOf(t, w.Server.Path("r"), "heads/", "tags/"); !slices.Equal(got, append([]string{"HEAD"}, want...)) {
		t.Errorf("unshallowed: %q, want HEAD and %q", got, want)
	}
	w.Server.Reset()
	next := w.coldMount()
	defer next.Release()
	if next.Shallow || next.Tree.ID != co.Tree.ID || next.Resolution.Commit != pushed {
		t.Errorf("the next Mount has %+v, want the tree %s", next, co.Tree.ID)
	}
	dir = w.Mount(next.Lower, 0)
	if got, want := run(t, dir, 0, "rev-list", "--all", "--count"), w.remote("rev-list", "--all", "--count"); got != want {
		t.Errorf("the next Mount has %s commits, want %s", got, want)
	}

	// The cold store counts until the last workspace of it ends.
	wait.For(t, "the sizes", func() error {
		info, _ := c.Info()
		return wait.Check(info.Stores["cold"].Bytes > 0 && info.Stores["full"].Bytes > 0, "%+v", info.Stores)
	})
	for i, co := range list {
		if got := w.stores(c); !slices.Equal(got, []string{"cold", "full"}) {
			t.Fatalf("stores %q with %d workspaces", got, len(list)-i)
		}
		co.Release()
	}
	wait.For(t, "the end of the cold store", func() error { return wait.Equal(w.stores(c), []string{"full"}) })
	w.collected(c)
	if info, _ := c.Info(); slices.ContainsFunc(info.Layers, func(l LayerInfo) bool { return l.ID == list[0].GitLayer.ID }) {
		t.Error("the git layer of the cold store is left")
	}
}

// If the full history can't be fetched, cold Mounts stay shallow. They try again, with a
// wait that doubles, and the log has one warning.
func TestColdFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	count, full := counted()
	w.Server.Route("r", gitserver.OnDepth(false, count), gitserver.OnDepth(false, gitserver.Fail(http.StatusForbidden)))
	s := w.spec(coldMain...)
	c := w.clone(s)
	log := test.NewLocal(w.m.config.Log)
	for i := range 3 {
		co := w.coldMount()
		if !co.Shallow {
			t.Error("the Mount is not shallow")
		}
		co.Release()
		wait.For(t, "the end of the fetch", func() error { return wait.Check(!c.deepening.Load(), "it runs") })
		// The plugin itself asks for the history, and then git.
		if got := full.Load(); got != int64(2*(i+1)) {
			t.Errorf("%d fetches of the full history after %d Mounts", got, i+1)
		}
		if got := w.stores(c); !slices.Equal(got, []string{"cold"}) {
			t.Errorf("stores %q", got)
		}
		w.Advance(time.Minute<<i - 1)
		w.coldMount().Release()
		if c.deepening.Load() {
			t.Errorf("failure %d: tried again too soon", i)
		}
		w.Advance(1)
	}
	if warnings := slices.DeleteFunc(log.AllEntries(), func(e *logrus.Entry) bool { return e.Level != logrus.WarnLevel }); len(warnings) != 1 {
		t.Errorf("warnings: %v", warnings)
	}
	w.Server.Route("r")
	w.coldMount().Release()
	w.deepened(c)
	wait.For(t, "the end of the cold store", func() error { return wait.Equal(w.stores(c), []string{"full"}) })
}

// A plugin that stops during the fetch of the full history leaves nothing that the next one
// could not use or remove.
func TestColdStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, shallow := w.holdFull()
	s := w.spec(coldMain...)
	w.coldMount().Release()
	<-gate.Arrived
	w.restart("boot 1")
	co := w.coldMount()
	<-gate.Arrived
	if got := shallow.Load(); !co.Shallow || got != 1 {
		t.Errorf("after a restart: shallow: %v, %d shallow fetches", co.Shallow, got)
	}
	close(gate.Open)
	c := w.clone(s)
	w.deepened(c)
	// A crash at this point would leave both stores.
	w.restart("boot 1")
	c = w.clone(s)
	next := w.coldMount()
	if next.Shallow {
		t.Error("the full history is not used after a restart")
	}
	next.Release()
	wait.For(t, "the end of the cold store", func() error { return wait.Equal(w.stores(c), []string{"full"}) })
}

// An eviction ends the fetch in the background, as any work that nobody waits for.
func TestColdEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, _ := w.holdFull()
	s := w.spec(coldMain...)
	c := w.clone(s)
	w.coldMount().Release()
	<-gate.Arrived
	wait.For(t, "the end of other work", func() error { info, _ := c.Info(); return wait.Equal(info.Busy, "") })
	if err := w.m.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, filepath.Join(w.Root, "clones")); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// A Mount without the option joins the fetch of the full history, and waits for it.
func TestColdAndFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, shallow := w.holdFull()
	s := w.spec(coldMain...)
	cold := w.coldMount()
	defer cold.Release()
	<-gate.Arrived
	full := make(chan *Checkout)
	go func() { full <- w.prepare(w.spec("ref", "main")) }()
	w.coldMount().Release()
	close(gate.Open)
	co := <-full
	defer co.Release()
	if co.Shallow || co.Tree.ID != cold.Tree.ID || co.GitLayer.ID == cold.GitLayer.ID || len(gate.Arrived) > 0 {
		t.Errorf("got %+v, and %d more fetches", co, len(gate.Arrived))
	}
	// The full history is never left for the newest commits, and depth=1 has its own store.
	w.Push("main")
	for range 2 {
		co := w.coldMount()
		if co.Shallow || shallow.Load() != 1 {
			t.Errorf("shallow: %v, %d shallow fetches", co.Shallow, shallow.Load())
		}
		co.Release()
	}
	w.prepare(w.spec("ref", "main", "depth", "1")).Release()
	if got := w.stores(w.clone(s)); !slices.Equal(got, []string{"cold", "depth-1", "full"}) {
		t.Errorf("stores %q while a workspace of the cold one exists", got)
	}
}

// Questions, Status and refreshes are about the history that the next Mount gets.
func TestColdServing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, _ := w.holdFull()
	c := w.mounted("ref", "main", "cold", "shallow", "refresh", "never")
	<-gate.Arrived
	s := w.spec("ref", "main", "cold", "shallow", "refresh", "never")
	w.Server.Reset()
	if err := c.Ask(t.Context(), s); err != nil {
		t.Errorf("Ask with refresh=never: %v", err)
	}
	w.prepare(s).Release()
	if l, f, _ := w.requests(); l != 0 || f != 0 {
		t.Errorf("%d questions and %d fetches with refresh=never", l, f)
	}
	h := c.remote.Serving(s.Source)
	if got := c.Status(h); h != volume.ColdHistory || got.FetchedAt.IsZero() || got.State != "cloning" {
		t.Errorf("the history %q, status %+v", h.Name(), got)
	}
	r, ok := c.remote.Resolution(s.Source)
	if want := (meta.Resolution{Commit: w.remote("rev-parse", "main")}); !ok || r.Commit != want.Commit {
		t.Errorf("resolution %+v, want %s", r, want.Commit)
	}
	close(gate.Open)
	w.deepened(c)
	w.Advance(time.Hour)
	want := w.Push("main")
	recent := c.Recent()
	if len(recent) != 1 || recent[0].Options.Map()["cold"] != "shallow" {
		t.Fatalf("recent: %v", recent)
	}
	o, err := volume.Parse(recent[0].Options.Map(), nil, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	if r, err := c.Ready(t.Context(), SpecOf(o)); err != nil || r.Commit != want {
		t.Errorf("refresh: %v, %v, want %s", r, err, want)
	}
}
