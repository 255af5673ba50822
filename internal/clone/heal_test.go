package clone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// spoil damages the packs of a store, but not links to them elsewhere.
func spoil(t *testing.T, store string) {
	t.Helper()
	packs, err := filepath.Glob(filepath.Join(store, "objects/pack/*.pack"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("packs: %q, %v", packs, err)
	}
	for _, pack := range packs {
		data, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		for i := 40; i < len(data); i += 97 {
			data[i] ^= 0x55
		}
		if err := errors.Join(os.Remove(pack), os.WriteFile(pack, data, 0o444)); err != nil {
			t.Fatal(err)
		}
	}
}

// Concurrent mounts find a damaged store. One sets it aside while the others use it. All
// succeed, and it is cloned again once.
func TestMountsFindDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	log := logtest.NewLocal(w.data.Log)
	w.data.Log.SetLevel(logrus.DebugLevel)
	for range 3 {
		spoil(t, c.remote.StoreDir("full"))
		w.Server.Reset()
		log.Reset()
		var mounts sync.WaitGroup
		for i := range 6 {
			id := fmt.Sprint(64800 + i) // a tree of its own
			s := w.spec("ref", "main", "uid", id, "gid", id)
			mounts.Go(func() {
				co, err := c.Prepare(t.Context(), s)
				if err != nil {
					t.Error(err)
					return
				}
				co.Release()
			})
		}
		mounts.Wait()
		if _, _, clones := w.requests(); clones != 1 {
			t.Errorf("%d clones, want 1", clones)
			for _, e := range log.AllEntries() {
				t.Log(e.Time, e.Message, e.Data)
			}
		}
		// The next round must build all layers again.
		w.Advance(time.Second)
		w.Push("main")
	}
}

// A Mount finds a store damaged that another one sets aside and clones again before the
// first returns its error.
func TestDamageRepairedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	late := w.spec("ref", "main", "uid", "64801", "gid", "64801")
	co := w.prepare(late)
	co.Release()
	if err := w.m.EvictLayers(t.Context(), c.Key, []string{co.Tree.ID, co.GitLayer.ID}); err != nil {
		t.Fatal(err)
	}
	mended := make(chan struct{})
	var mounts sync.WaitGroup
	building := make(chan struct{})
	mounts.Go(func() {
		_, err := work.ShareOn(t.Context(), c.used, "layer\x00"+string(meta.Tree)+"\x00"+co.Tree.ID, func(context.Context) (meta.Layer, error) {
			close(building)
			<-mended
			return meta.Layer{}, giterror.Damaged("the store that was", errors.New("spoilt"))
		})
		if giterror.KindOf(err) != giterror.KindCorrupt {
			t.Errorf("the build: %v", err)
		}
	})
	<-building
	w.Server.Reset()
	mounts.Go(func() {
		co, err := c.Prepare(t.Context(), late)
		if err != nil {
			t.Error(err)
			return
		}
		co.Release()
	})
	wait.For(t, "the question of the second mount", func() error {
		asked, _, _ := w.requests()
		return wait.Check(asked > 0, "none")
	})
	w.Advance(time.Second)
	spoil(t, c.remote.StoreDir("full"))
	if healed, err := c.remote.HealStore(t.Context(), s.Source); !healed || err != nil {
		t.Fatalf("healed %v, %v", healed, err)
	}
	w.prepare(s).Release()
	close(mended)
	mounts.Wait()
}

// If the record of a damaged store can't be deleted, the store stays, and the next Mount
// sets it aside.
func TestHealCannotDeleteRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.idle(w.clone(s))
	c := w.clone(s)
	spoil(t, c.remote.StoreDir("full"))
	setKey := func(key string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rec.Key = key
	}
	setKey("") // the database takes no such record
	if healed, err := c.remote.HealStore(t.Context(), s.Source); healed || err == nil {
		t.Errorf("healed %v, %v; want an error", healed, err)
	}
	setKey(c.Key)
	if _, ok := c.remote.Store(s.History); !ok {
		t.Error("the store is forgotten")
	}
	if healed, err := c.remote.HealStore(t.Context(), s.Source); !healed || err != nil {
		t.Errorf("healed %v, %v", healed, err)
	}
	w.prepare(s).Release()
}

// A store without a record, because it could not be moved to the trash, does not prevent a
// new clone.
func TestHealCannotMoveStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	spoil(t, c.remote.StoreDir("full"))
	allow := testdir.Refuse(t, filepath.Join(w.Root, "trash"))
	if _, err := c.remote.HealStore(t.Context(), s.Source); !errors.Is(err, unix.EXDEV) {
		t.Errorf("heal: %v, want that the store could not be moved", err)
	}
	allow()
	co := w.prepare(s)
	defer co.Release()
	run(t, w.Mount(co.Lower, 0), 0, "fsck", "--strict")
}
