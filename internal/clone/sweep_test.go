package clone

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// TestSweep puts the leftovers of crashes into a clone's directory and restarts.
func TestSweep(t *testing.T) {
	t.Parallel()
	mkdir := func(t *testing.T, path string) {
		t.Helper()
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name    string
		damage  func(t *testing.T, w *world, c *Clone)
		boot    string
		clones  int  // first fetches that the next Prepare makes
		rebuilt bool // its tree is built again
	}{
		{"nothing", func(*testing.T, *world, *Clone) {}, "boot 1", 0, false},
		{"a build that did not end", func(t *testing.T, w *world, c *Clone) {
			mkdir(t, filepath.Join(c.Dir, "trees/.tmp-1/.git"))
			mkdir(t, filepath.Join(c.Dir, "refs/.tmp-2"))
			mkdir(t, filepath.Join(c.Dir, "store/.tmp-3"))
		}, "boot 1", 0, false},
		{"layers that no record names", func(t *testing.T, w *world, c *Clone) {
			mkdir(t, filepath.Join(c.Dir, "trees/0123456789abcdef"))
			mkdir(t, filepath.Join(c.Dir, "refs/0123456789abcdef"))
		}, "boot 1", 0, false},
		{"a fetch that was killed", func(t *testing.T, w *world, c *Clone) {
			for _, name := range []string{"packed-refs.lock", "objects/pack/tmp_pack_x", "refs/heads/main.lock"} {
				mkdir(t, filepath.Dir(filepath.Join(c.remote.StoreDir("full"), name)))
				if err := os.WriteFile(filepath.Join(c.remote.StoreDir("full"), name), []byte("x"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			w.Push("main") // has a lock in its way
		}, "boot 1", 0, true},
		{"a tree is gone", func(t *testing.T, w *world, c *Clone) {
			if err := os.RemoveAll(filepath.Join(c.Dir, "trees")); err != nil {
				t.Fatal(err)
			}
			mkdir(t, filepath.Join(c.Dir, "trees"))
		}, "boot 1", 0, true},
		{"the store is gone", func(t *testing.T, w *world, c *Clone) {
			if err := os.RemoveAll(c.remote.StoreDir("full")); err != nil {
				t.Fatal(err)
			}
		}, "boot 1", 1, true},
		{"the directory is gone", func(t *testing.T, w *world, c *Clone) {
			if err := os.RemoveAll(c.Dir); err != nil {
				t.Fatal(err)
			}
		}, "boot 1", 1, true},
		{"all is gone", func(t *testing.T, w *world, c *Clone) {
			if err := os.RemoveAll(filepath.Join(w.Root, "clones")); err != nil {
				t.Fatal(err)
			}
		}, "boot 1", 1, true},
		{"the record is gone", func(t *testing.T, w *world, c *Clone) {
			if err := w.data.DB.Update(func(tx *meta.Tx) error { return tx.DeleteClone(c.Key) }); err != nil {
				t.Fatal(err)
			}
		}, "boot 1", 1, true},
		{"a reboot after a sync", func(t *testing.T, w *world, c *Clone) {
			if err := w.m.config.Layers.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, "boot 2", 0, false},
		{"a reboot before the sync", func(t *testing.T, w *world, c *Clone) {
			if err := w.data.DB.Update(func(tx *meta.Tx) error {
				for _, l := range c.layers.List(meta.Tree) {
					l.Durable = false
					if err := tx.PutLayer(l); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}, "boot 2", 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main")
			co := w.prepare(s)
			co.Release()
			built := co.Tree.CreatedAt
			w.Advance(time.Second)
			if err := w.m.config.Layers.Sync(t.Context()); err != nil { // the one in the background may have no more to do
				t.Fatal(err)
			}
			damage := w.clone(s)
			w.m.config.Work.Close()
			tt.damage(t, w, damage)
			w.restart(tt.boot)
			w.Server.Reset()
			if err := w.m.SweepAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			co = w.prepare(s)
			defer co.Release()
			if got := run(t, w.Mount(co.Lower, 0), 0, "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
			if _, _, got := w.requests(); got != tt.clones {
				t.Errorf("%d clones, want %d", got, tt.clones)
			}
			if got := !co.Tree.CreatedAt.Equal(built); got != tt.rebuilt {
				t.Errorf("the tree was built again: %v, want %v", got, tt.rebuilt)
			}
			c := w.clone(s)
			left := map[string]int{"store": 1, "trees": len(c.layers.List(meta.Tree)), "refs": len(c.layers.List(meta.GitLayer))}
			for dir, want := range left {
				if got := testdir.Names(t, filepath.Join(c.Dir, dir)); len(got) != want {
					t.Errorf("%s has %q, want %d", dir, got, want)
				}
			}
		})
	}
}

// Directories without a record are trashed, unless their layers are held.
func TestSweepTrashesUnrecordedLayers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	key := w.clone(s).Key
	for _, dir := range []string{"clones/other/0123456789abcdef/store/full.git", "clones/other/fedcba9876543210", "clones/empty"} {
		if err := os.MkdirAll(filepath.Join(w.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(w.Root, "clones/other/fedcba9876543210", manifestName), []byte(`{"subject": "other", "repo": "https://h/x"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	w.m.config.Work.Close()
	if err := w.data.DB.Update(func(tx *meta.Tx) error { return tx.DeleteClone(key) }); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 1")
	c := w.m.get(meta.Clone{Key: key, Subject: "default", Repo: s.URL.Normalized()})
	c.Trees.Hold([]string{"t"}, "g")
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, filepath.Join(w.Root, "clones")); !reflect.DeepEqual(got, []string{"default"}) {
		t.Errorf("left: %q, want what is held", got)
	}
	w.restart("boot 1")
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := testdir.Names(t, filepath.Join(w.Root, "clones")); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// If a store is gone, the layers of a workspace stay.
func TestLostStoreKeepsLayersOfWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	co := w.prepare(s)
	dir := w.Mount(co.Lower, 0)
	if err := os.RemoveAll(w.clone(s).remote.StoreDir("full")); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 1")
	w.clone(s).Trees.Hold(co.Tree.Chain, co.GitLayer.ID) // as the workspace's record says
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, lower := range co.Lower {
		if _, err := os.Stat(lower); err != nil {
			t.Error(err)
		}
	}
	if got := run(t, dir, 0, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	run(t, dir, 0, "fsck", "--strict")
	w.prepare(s).Release()
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	main := w.remote("rev-parse", "refs/heads/main")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	record, _ := c.FirstMount()
	if err := w.data.DB.Update(record); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"clones/default/no-manifest/store/full.git", "clones/default/no-store/store"} {
		if err := os.MkdirAll(filepath.Join(w.Root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	recs, err := Rebuild(w.Root)
	if err != nil {
		t.Fatal(err)
	}
	rec := recs[c.Key]
	if len(recs) != 1 || rec.Key != c.Key || rec.Subject != "default" || rec.Repo != s.URL.Normalized() ||
		rec.FirstMount.IsZero() || !rec.CreatedAt.Equal(w.Now().Round(0)) {
		t.Fatalf("%+v", recs)
	}
	w.data.Close()
	if err := os.Remove(filepath.Join(w.Root, "meta.db")); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	if err := w.data.DB.Update(func(tx *meta.Tx) error { return tx.PutClone(rec) }); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 1") // as the database gives it back
	w.Server.Reset()
	w.Advance(time.Second)
	// A commit in the store needs neither a fetch nor the record of a ref.
	co := w.prepare(w.spec("ref", main))
	defer co.Release()
	if _, fetches, _ := w.requests(); fetches != 0 || !co.Reused {
		t.Errorf("%d fetches, reused %v; want none, and true", fetches, co.Reused)
	}
	w.prepare(s).Release()
	if _, _, clones := w.requests(); clones != 0 {
		t.Errorf("%d clones, want none", clones)
	}
}

// A Mount reuses a clone if another Mount was served, and recorded, before it began.
func TestReused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	for i, want := range []bool{false, false, true} {
		co := w.prepare(s)
		if co.Reused != want {
			t.Errorf("Prepare %d: reused %v, want %v", i, co.Reused, want)
		}
		co.Release()
		if i == 1 {
			c, failed := w.clone(s), errors.New("failed")
			record, undo := c.FirstMount()
			if err := w.data.DB.Update(func(tx *meta.Tx) error { return errors.Join(record(tx), failed) }); !errors.Is(err, failed) {
				t.Fatal(err)
			}
			if undo(); c.Status(s.History).Used {
				t.Error("a Mount that failed counts as the first one")
			}
			record, _ = c.FirstMount()
			if err := w.data.DB.Update(record); err != nil {
				t.Fatal(err)
			}
			w.Advance(time.Second)
			w.restart("boot 1")
		}
	}
}

// A sweep does not wait for a fetch, neither the first one nor a later one.
func TestSweepDoesNotWaitForFetch(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		w := newWorld(t, "")
		s := w.spec("ref", "main")
		c := w.clone(s)
		if first {
			if err := errors.Join(c.Sweep(t.Context()), c.makeDirs()); err != nil {
				t.Fatal(err)
			}
		} else {
			w.prepare(s).Release()
			w.restart("boot 1")
			c = w.clone(s)
			w.prepare(s).Release()
		}
		release, err := c.Use(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := c.remote.Lock(t.Context()) // as a fetch does, for as long as it takes
		if err != nil {
			t.Fatal(err)
		}
		swept := make(chan error, 1)
		go func() { swept <- w.m.SweepAll(t.Context()) }()
		wait.For(t, "the end of the sweep", func() error { return wait.Equal(len(swept), 1) })
		unlock()
		// The mount is not done yet.
		if err := errors.Join(<-swept, w.m.SweepAll(t.Context())); err != nil {
			t.Error(err)
		}
		release()
		if got := testdir.Names(t, c.Dir); len(got) == 0 {
			t.Errorf("first %v: what a mount fills is gone", first)
		}
		w.data.Close()
	}
}
