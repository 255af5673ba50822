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

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
)

// spoil damages the packs of a store, not those that are linked elsewhere.
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

// TestMountsMeetDamage at once: one of them sets the store aside, which takes it
// from under the others. All work in the end, and it is cloned again once.
func TestMountsMeetDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	for range 3 {
		spoil(t, c.Remote.StoreDir("full"))
		w.server.Reset()
		var mounts sync.WaitGroup
		for i := range 6 {
			id := fmt.Sprint(64800 + i) // a tree of its own
			s := w.spec("ref", "main", "uid", id, "gid", id)
			mounts.Go(func() {
				co, err := c.Prepare(t.Context(), s, nil)
				if err != nil {
					t.Error(err)
					return
				}
				co.Release()
			})
		}
		mounts.Wait()
		if _, _, clones := w.asked(); clones != 1 {
			t.Errorf("%d clones, want 1", clones)
		}
		// The next round is to build them all again.
		w.advance(time.Second)
		w.push("main")
	}
}

// TestDamageThatIsMended: a Mount meets the damage of a store that another one has
// set aside and cloned again by the time that it says so.
func TestDamageThatIsMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
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
			return meta.Layer{}, git.Damaged("the store that was", errors.New("spoilt"))
		})
		if git.KindOf(err) != git.KindCorrupt {
			t.Errorf("the build: %v", err)
		}
	})
	<-building
	w.server.Reset()
	mounts.Go(func() {
		co, err := c.Prepare(t.Context(), late, nil)
		if err != nil {
			t.Error(err)
			return
		}
		co.Release()
	})
	testdir.Eventually(t, "the question of the second mount", func() bool {
		asked, _, _ := w.asked()
		return asked > 0
	})
	w.advance(time.Second)
	spoil(t, c.Remote.StoreDir("full"))
	if healed, err := c.Remote.HealStore(t.Context(), s.Source); !healed || err != nil {
		t.Fatalf("healed %v, %v", healed, err)
	}
	w.prepare(s).Release()
	close(mended)
	mounts.Wait()
}

// TestHealIsNotRecorded: a damaged store stays known until the record says that it
// is set aside, and the next Mount does that.
func TestHealIsNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.idle(w.clone(s))
	c := w.clone(s)
	spoil(t, c.Remote.StoreDir("full"))
	setKey := func(key string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.rec.Key = key
	}
	setKey("") // the database takes no such record
	if healed, err := c.Remote.HealStore(t.Context(), s.Source); healed || err == nil {
		t.Errorf("healed %v, %v; want an error", healed, err)
	}
	setKey(c.Key)
	if _, ok := c.Remote.Store(s.History); !ok {
		t.Error("the store is forgotten")
	}
	if healed, err := c.Remote.HealStore(t.Context(), s.Source); !healed || err != nil {
		t.Errorf("healed %v, %v", healed, err)
	}
	w.prepare(s).Release()
}

// TestHealIsNotSetAside: a store that no record names, for it could not go to the
// trash, is in no clone's way.
func TestHealIsNotSetAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	spoil(t, c.Remote.StoreDir("full"))
	allow := testdir.Refuse(t, filepath.Join(w.root, "trash"))
	if _, err := c.Remote.HealStore(t.Context(), s.Source); !errors.Is(err, unix.EXDEV) {
		t.Errorf("heal: %v, want that the store could not be moved", err)
	}
	allow()
	co := w.prepare(s)
	defer co.Release()
	run(t, w.mount(co, 0), 0, "fsck", "--strict")
}
