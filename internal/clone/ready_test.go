package clone

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// recentRefs returns the refs of what was mounted in the last day.
func (c *Clone) recentRefs() (refs []string) {
	for _, r := range c.Recent() {
		refs = append(refs, r.Options.Map()["ref"])
	}
	return refs
}

// mounted mounts a volume with these options, and unmounts it.
func (w *world) mounted(options ...string) *Clone {
	w.T.Helper()
	s := w.spec(options...)
	w.prepare(s).Release()
	c := w.clone(s)
	record, _ := c.FirstMount()
	if err := w.data.DB.Update(record); err != nil {
		w.T.Fatal(err)
	}
	c.Mounted(w.T.Context(), w.Options(options...))
	return c
}

func TestRecent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	head := w.remote("rev-parse", "refs/heads/main")
	c := w.mounted("ref", "main", "mode", "keep", "cache", "off")
	w.mounted("ref", head)
	w.mounted("ref", head[:12])
	w.mounted("ref", "main")
	w.mounted("ref", "feature/x", "uid", "1000")
	want := []string{"feature/x", "main"}
	if got := c.recentRefs(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q: no commits, and equal checkouts once", got, want)
	}
	w.Advance(20 * time.Hour)
	w.mounted("ref", "main")
	want = []string{"main", "feature/x"}
	if got := c.recentRefs(); !slices.Equal(got, want) {
		t.Errorf("mounted again: %q, want %q", got, want)
	}
	w.restart("boot 1")
	c = w.clone(w.spec())
	if got := c.recentRefs(); !slices.Equal(got, want) {
		t.Errorf("after a restart: %q, want %q", got, want)
	}
	w.Advance(5 * time.Hour)
	if got := c.recentRefs(); !slices.Equal(got, []string{"main"}) {
		t.Errorf("a day later: %q", got)
	}
	for i := range mostRecent + 5 {
		c.mu.Lock()
		if !c.noteLocked(w.Options("ref", fmt.Sprint("b", i)), w.Now()) {
			t.Error("not noted")
		}
		c.mu.Unlock()
	}
	if got := c.recentRefs(); len(got) != mostRecent || got[0] != fmt.Sprint("b", mostRecent+4) {
		t.Errorf("%d are noted, the newest is %q; want %d", len(got), got[0], mostRecent)
	}
	w.Advance(-48 * time.Hour) // the clock was wrong
	if got := c.recentRefs(); len(got) > 0 {
		t.Errorf("of the future: %q", got)
	}
}

// TestMadeWhenItIsThere: a clone counts as made when its first fetch ends, and until it is mounted as used when a layer of
// it was built, so that a client whose first Mount has given up finds it.
func TestMadeWhenItIsThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	var once sync.Once
	w.Server.Route("r", func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if _, err := os.Stat(filepath.Join(c.Dir, manifestName)); err == nil { // it is being fetched
				once.Do(func() { w.Advance(time.Hour) })
			}
			next.ServeHTTP(out, r)
		})
	})
	began := w.Now()
	if _, err := c.Refresh(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.Server.Route("r")
	if info, _ := c.Info(); w.Now().Equal(began) || !info.CreatedAt.Equal(w.Now()) || !info.Used.Equal(w.Now()) {
		t.Errorf("fetched at %v: made at %v and used at %v", w.Now(), info.CreatedAt, info.Used)
	}
	w.Advance(time.Hour)
	if _, err := c.Ready(t.Context(), s); err != nil { // no use
		t.Fatal(err)
	}
	if info, _ := c.Info(); !info.CreatedAt.Equal(w.Now().Add(-time.Hour)) || !info.Used.Equal(w.Now()) {
		t.Errorf("built at %v: made at %v and used at %v", w.Now(), info.CreatedAt, info.Used)
	}
}

// A Ready is not a use of the clone, and the next Mount only asks.
func TestReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.mounted("ref", "main")
	w.Advance(time.Hour)
	want := w.Push("main")
	before, _ := c.Info()
	r, err := c.Ready(t.Context(), w.spec("ref", "main", "refresh", "never"))
	if err != nil || r.Commit != want {
		t.Fatalf("got %+v, %v, want %s", r, err, want)
	}
	after, _ := c.Info()
	if !after.Used.Equal(before.Used) {
		t.Errorf("the clone was used at %v, want %v", after.Used, before.Used)
	}
	w.Server.Reset()
	co := w.prepare(w.spec("ref", "main"))
	defer co.Release()
	if l, f, _ := w.requests(); co.Resolution.Commit != want || l != 1 || f != 0 {
		t.Errorf("the Mount has %s, %d questions and %d fetches", co.Resolution.Commit, l, f)
	}
	for _, l := range []meta.Layer{co.Tree, co.GitLayer} {
		if !slices.ContainsFunc(after.Layers, func(i LayerInfo) bool { return i.ID == l.ID }) {
			t.Errorf("the Mount has built the %s", l.Kind)
		}
	}
}

// The git layer of a Ready has the branches that were pushed besides the ref.
func TestReadyFetchesOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c, s := w.mounted("ref", "main"), w.spec("ref", "main")
	w.Push("other")
	if _, err := c.Ready(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	w.Server.Reset()
	info, _ := c.Info()
	co := w.prepare(s)
	defer co.Release()
	if l, f, _ := w.requests(); l != 1 || f != 0 {
		t.Errorf("the Mount has %d questions and %d fetches", l, f)
	}
	if !slices.ContainsFunc(info.Layers, func(i LayerInfo) bool { return i.ID == co.GitLayer.ID }) {
		t.Error("the Mount has built a git layer")
	}
}

// A Ready does not make a clone.
func TestReadyOfNoClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	if _, err := w.clone(s).Ready(t.Context(), s); err == nil {
		t.Error("no error")
	}
	c := w.mounted("ref", "main")
	w.idle(c)
	if err := w.m.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Ready(t.Context(), s); err != ErrEvicted {
		t.Errorf("evicted: %v", err)
	}
	if got := c.Recent(); len(got) > 0 || len(w.m.Fetched()) > 0 {
		t.Errorf("left: %v", got)
	}
}
