package clone

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/tree"
	"github.com/helmdeck/repos/tests/wait"
)

// idle waits until no background work uses a clone or will measure it.
func (w *world) idle(c *Clone) {
	w.T.Helper()
	wait.For(w.T, "an idle clone", func() error {
		used := c.used.Usage().Used
		w.m.mu.Lock()
		defer w.m.mu.Unlock()
		return wait.Check(!used && len(w.m.unmeasured[c])+len(c.layers.Unmeasured()) == 0, "in use: %t, to measure: %d workspaces, %d layers", used, len(w.m.unmeasured[c]), len(c.layers.Unmeasured()))
	})
}

// measured waits until all parts of a clone have a size, and describes it.
func (w *world) measured(c *Clone) Info {
	w.T.Helper()
	w.idle(c)
	info, _ := c.Info()
	return info
}

// All sizes of a clone are known, also after a restart. Packs count in their store and not
// in the git layers that link them.
func TestSizes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	co := w.prepare(s)
	defer co.Release()
	w.measured(c)
	// The number of blocks may change until they are written.
	if err := durable.SyncFS(w.Root); err != nil {
		t.Fatal(err)
	}
	forget := func() {
		t.Helper()
		w.m.config.Work.Close()
		if err := w.data.DB.Update(func(tx *meta.Tx) error {
			rec := c.recordOf(t)
			store := rec.Stores["full"]
			store.Size = meta.Measured{}
			rec.Stores["full"] = store
			errs := []error{tx.PutClone(rec)}
			for _, l := range c.layers.List() {
				l.Size = meta.Measured{}
				errs = append(errs, tx.PutLayer(l))
			}
			return errors.Join(errs...)
		}); err != nil {
			t.Fatal(err)
		}
		w.restart("boot 1")
		c = w.clone(s)
	}
	forget()
	c.measureSoon("full")
	if err := os.MkdirAll(filepath.Join(tree.LFSDir(c.Dir), "ab"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tree.LFSDir(c.Dir), "ab", "object"), make([]byte, 100_000), 0o644); err != nil {
		t.Fatal(err)
	}
	c.measureSoon(tree.LFSObjects)
	take := func(q disk.Query, path string) disk.Size {
		t.Helper()
		got, err := q.Take(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return got.Size
	}
	want := map[string]disk.Size{
		co.Tree.ID: take(disk.Query{}, co.Lower[1]), co.GitLayer.ID: take(disk.Query{Own: true}, filepath.Dir(co.Lower[0])),
	}
	if all := take(disk.Query{}, co.Lower[0]); all.Bytes <= want[co.GitLayer.ID].Bytes {
		t.Errorf("the git layer takes %d bytes with its packs, and %d without", all.Bytes, want[co.GitLayer.ID].Bytes)
	}
	check := func(what string, info Info) {
		t.Helper()
		for _, l := range info.Layers {
			if l.Size.Size != want[l.ID] || l.Size.At.IsZero() {
				t.Errorf("%s: %s: %+v, want %+v", what, l.Kind, l.Size, want[l.ID])
			}
		}
		if got, want := info.Stores["full"].Size, take(disk.Query{}, c.remote.StoreDir("full")); got != want || len(info.Layers) != 2 {
			t.Errorf("%s: store %+v, want %+v; %d layers, want 2", what, got, want, len(info.Layers))
		}
	}
	check("at first", w.measured(c))
	if got := w.measured(c).LFS; got.Inodes != 3 || got.Bytes < 100_000 {
		t.Errorf("LFS objects take %+v, want 3 inodes and 100,000 bytes at least", got)
	}
	w.restart("boot 1")
	c = w.clone(s)
	check("after a restart", w.m.Inventory()[0])
	forget() // as if the plugin had died before
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	check("after a sweep", w.measured(c))
}

// A store is measured again after a fetch.
func TestSizeFollowsTheFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	before := w.measured(w.clone(s)).Stores["full"]
	w.Advance(time.Minute)
	w.Push("main")
	w.prepare(s).Release()
	if after := w.measured(w.clone(s)).Stores["full"]; after.Inodes <= before.Inodes || !after.At.After(before.At) {
		t.Errorf("the store has %+v, and had %+v", after, before)
	}
}

// Use is recorded once a minute, for the clone and its layers, and survives a restart. In memory
// that of the clone is exact.
func TestRecency(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	for _, tt := range []struct {
		later, want time.Duration // want is how long ago it was used
	}{
		{0, 0}, {usedEvery - time.Second, usedEvery - time.Second}, {time.Second, 0},
		{-time.Hour, 0}, // the clock was wrong, and is set
		{24 * time.Hour, 0},
	} {
		w.Advance(tt.later)
		w.prepare(s).Release()
		wait.For(t, "the tree of another clock to go", func() error { return wait.Equal(len(w.m.Inventory()[0].Layers), 2) })
		for _, restarted := range []bool{false, true} {
			if restarted {
				w.restart("boot 1")
			}
			info := w.m.Inventory()[0]
			if got := w.Now().Sub(info.Used); tt.later >= 0 && (restarted && got != tt.want || !restarted && got != 0) {
				t.Errorf("after %v, restarted %v: the clone was used %v ago", tt.later, restarted, got)
			}
			for _, l := range info.Layers {
				if got := w.Now().Sub(l.Used); got != tt.want && tt.later >= 0 {
					t.Errorf("after %v, restarted %v: a layer was used %v ago, want %v", tt.later, restarted, got, tt.want)
				}
			}
		}
	}
}
