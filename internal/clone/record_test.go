package clone

import (
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// state closes the world and returns the records in its database.
func (w *world) state() meta.State {
	w.T.Helper()
	w.data.Close()
	db, state, err := meta.Open(filepath.Join(w.Root, "meta.db"))
	if err != nil {
		w.T.Fatal(err)
	}
	if err := db.Close(); err != nil {
		w.T.Fatal(err)
	}
	return state
}

// A sweep deletes the records of layers whose clone has no record.
func TestSweepForgetsLayersWithoutClone(t *testing.T) {
	t.Parallel()
	for _, gone := range []string{"record", "record and directory"} {
		t.Run(gone, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main")
			w.prepare(s).Release()
			c := w.clone(s)
			w.m.config.Work.Close()
			if err := w.data.DB.Update(func(tx *meta.Tx) error { return tx.DeleteClone(c.Key) }); err != nil {
				t.Fatal(err)
			}
			w.restart("boot 1")
			c = w.m.Lookup(c.Key)
			if c == nil || len(c.layers.List(meta.Tree)) == 0 {
				t.Fatal("the layers are not known")
			}
			if gone == "record and directory" {
				if err := os.RemoveAll(c.Dir); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.m.SweepAll(t.Context()); err != nil {
				t.Fatal(err)
			}
			state := w.state()
			if len(state.Trees)+len(state.GitLayers)+len(state.Clones) > 0 {
				t.Errorf("the database has trees %v, git layers %v and clones %v, want none", state.Trees, state.GitLayers, state.Clones)
			}
		})
	}
}

// A sweep that can't save changes nothing in memory, so that the next sweep repeats it.
func TestSweepFails(t *testing.T) {
	t.Parallel()
	for _, lose := range []string{"store/full.git", "store/depth-1.git", "trees"} {
		t.Run(filepath.Base(lose), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main")
			w.prepare(s).Release()
			w.prepare(w.spec("ref", "main", "depth", "1")).Release()
			w.restart("boot 1")
			c := w.clone(s)
			if err := os.RemoveAll(filepath.Join(c.Dir, lose)); err != nil {
				t.Fatal(err)
			}
			if lose == "store/full.git" {
				if err := os.RemoveAll(c.remote.StoreDir("depth-1")); err != nil {
					t.Fatal(err)
				}
			}
			memory := func() (trees, gitLayers int, stores map[string]meta.Store) {
				return len(c.layers.List(meta.Tree)), len(c.layers.List(meta.GitLayer)), c.remote.Stores()
			}
			trees, gitLayers, stores := memory()
			if err := w.data.DB.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.Sweep(t.Context()); err == nil {
				t.Fatal("Sweep succeeded without a database")
			}
			gotTrees, gotGitLayers, gotStores := memory()
			if gotTrees != trees || gotGitLayers != gitLayers || !reflect.DeepEqual(gotStores, stores) {
				t.Errorf("after a failure: %d trees, %d git layers, stores %v; want %d, %d, %v",
					gotTrees, gotGitLayers, gotStores, trees, gitLayers, stores)
			}
		})
	}
}

// No other goroutine writes to the record that a sweep saves. The race detector checks it.
func TestSweepRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	shallow := w.spec("ref", "main", "depth", "1")
	s = w.asked("ref", "main")
	s.Since.For = time.Hour
	writers := []func(){
		func() {
			if err := c.remote.Snapshot(t.Context(), s.Source, nil); err != nil {
				t.Errorf("the record does not agree with the answer: %v", err)
			}
		},
		func() { c.remote.SetSize("full", meta.Measured{At: w.Now()}) },
		func() { c.Info(); c.Status(s.History); c.remote.Resolution(s.Source) },
	}
	for range 5 {
		w.Advance(time.Minute)
		c.Touch()
		w.prepare(shallow).Release()
		if err := os.RemoveAll(c.remote.StoreDir("depth-1")); err != nil {
			t.Fatal(err)
		}
		c.swept.Store(false)
		var swept atomic.Bool
		var atWork sync.WaitGroup
		for _, write := range writers {
			atWork.Go(func() {
				for !swept.Load() {
					write()
				}
			})
		}
		err := c.Sweep(t.Context())
		swept.Store(true)
		atWork.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if _, lost := c.recordOf(t).Stores["depth-1"]; lost {
			t.Fatal("the lost store is still there")
		}
	}
}

// recordOf returns a copy of a clone's record.
func (c *Clone) recordOf(t *testing.T) meta.Clone {
	t.Helper()
	rec, ok := c.record()
	if !ok {
		t.Fatal("the clone has no record")
	}
	return rec
}
