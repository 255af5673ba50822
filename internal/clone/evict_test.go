package clone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// wantBusy fails unless err is a *work.BusyError whose reason contains words.
func wantBusy(t *testing.T, what string, err error, words string) {
	t.Helper()
	if busy, ok := errors.AsType[*work.BusyError](err); !ok || !strings.Contains(busy.Reason, words) {
		t.Errorf("%s: %v, want a clone that is busy: %q", what, err, words)
	}
}

// mountWorkspace mounts an overlay in the place of a workspace without a record.
func (w *world) mountWorkspace(c *Clone, id string) (unmount func()) {
	w.T.Helper()
	own, points, dir := filepath.Join(c.Dir, "workspaces", id), overlay.PointsDir(w.Root), testdir.New(w.T, "clone")
	if err := errors.Join(os.Mkdir(own, 0o700), overlay.MakePoint(points, id)); err != nil {
		w.T.Fatal(err)
	}
	s := overlay.Spec{Lower: []string{filepath.Join(dir, "lower")}, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: filepath.Join(points, id)}
	if err := errors.Join(os.Mkdir(s.Lower[0], 0o755), os.Mkdir(s.Upper, 0o755), os.Mkdir(s.Work, 0o755), overlay.Mount(s)); err != nil {
		w.T.Fatal(err)
	}
	return func() {
		w.T.Helper()
		release, err := overlay.Detach(s.Target)
		if err == nil {
			err = errors.Join(release(), os.Remove(own))
		}
		if err != nil {
			w.T.Fatal(err)
		}
	}
}

func TestEvictClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	var evicted []string
	undone := 0
	refused := errors.New("refused")
	forget := func(key string) (func(*meta.Tx) error, func()) {
		evicted = append(evicted, key)
		return func(*meta.Tx) error { return refused }, func() { undone++ }
	}
	s := w.spec("ref", "main")
	c := w.clone(s)
	evict := func() error { return w.m.EvictClone(t.Context(), c.Key, work.StopNothing, forget) }
	co := w.prepare(s)
	theirs := disk.Size{Bytes: 1 << 40, Inodes: 1} // of a layer that another package has made
	temp, err := c.layers.Temp(meta.WarmLayer)
	if err == nil {
		_, err = c.layers.Publish(meta.Layer{Kind: meta.WarmLayer, ID: "w", Size: meta.Measured{Size: theirs, At: w.Now()}}, temp)
	}
	if err != nil {
		t.Fatal(err)
	}
	wantBusy(t, "held", evict(), "workspaces or checkpoints")
	w.idle(c)
	clear := func(context.Context, func() error) error { return nil } // and a workspace is made meanwhile
	wantBusy(t, "held after clear", w.m.ClearClone(t.Context(), c.Key, work.StopNothing, clear, forget), "made of it meanwhile")
	co.Release()
	release, err := c.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantBusy(t, "used", evict(), "not done")
	release()
	release() // once is enough
	w.idle(c)
	unlock, err := c.remote.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wantBusy(t, "locked", evict(), "lock is taken")
	unlock()
	unmount := w.mountWorkspace(c, "unrecorded")
	wantBusy(t, "mounted", evict(), "mnt/unrecorded is mounted")
	unmount()
	if len(evicted) > 0 {
		t.Errorf("evicted %q while it was busy", evicted)
	}
	w.idle(c)
	if err := evict(); !errors.Is(err, refused) || undone != 1 {
		t.Errorf("a transaction that fails: %v, undone %d times", err, undone)
	}
	if info := w.m.Inventory()[0]; info.Busy != "" || len(info.Layers) != 2 || len(info.Stores) != 1 {
		t.Errorf("after a transaction that failed: %+v", info)
	}
	refused, evicted = nil, nil
	want := w.takes(c).Add(theirs)
	if got := w.trashed(evict); got != want {
		t.Errorf("%+v more in the trash, want all that was known of it: %+v", got, want)
	}
	if !slices.Equal(evicted, []string{c.Key}) || undone != 1 {
		t.Errorf("others forgot %q", evicted)
	}
	if got := testdir.Names(t, filepath.Join(w.Root, "clones")); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	_, measured, err := c.used.Start(t.Context()) // a measurement has waited for the eviction
	if err != nil {
		t.Fatal(err)
	}
	if got, keys := w.m.Inventory(), w.m.Keys(); len(got)+len(keys) > 0 {
		t.Errorf("inventory: %+v, keys %q", got, keys)
	}
	measured()
	if got := c.Status(s.History); got.Cloned || got.State != "absent" {
		t.Errorf("status: %+v", got)
	}
	if err := errors.Join(evict(), w.m.EvictClone(t.Context(), "nobody/0", work.StopNothing), w.m.EvictLayers(t.Context(), "nobody/0", nil)); err != nil {
		t.Errorf("once more: %v", err)
	}
	for _, restarted := range []bool{false, true} {
		w.Server.Reset()
		co = w.prepare(s)
		if got := run(t, w.Mount(co.Lower, 0), 0, "status", "--porcelain"); got != "" {
			t.Errorf("status %q", got)
		}
		if _, _, clones := w.requests(); clones != 1 || co.Reused {
			t.Errorf("%d clones, reused %v; want a new one", clones, co.Reused)
		}
		co.Release()
		if !restarted {
			w.idle(c)
			if err := evict(); err != nil {
				t.Fatal(err)
			}
			w.restart("boot 1")
		}
	}
}

// takes returns the size of a clone according to the inventory.
func (w *world) takes(c *Clone) (sum disk.Size) {
	w.T.Helper()
	info := w.measured(c)
	sum = info.LFS.Size
	for _, s := range info.Stores {
		sum = sum.Add(s.Size)
	}
	for _, l := range info.Layers {
		if l.Size.Bytes == 0 {
			w.T.Errorf("not measured: %+v", l)
		}
		sum = sum.Add(l.Size.Size)
	}
	return sum
}

// trashed returns by how much the reported size of the trash grows while f evicts, which
// is what the janitor sees.
func (w *world) trashed(f func() error) disk.Size {
	w.T.Helper()
	before := w.m.config.Trash.Stats()
	if err := f(); err != nil {
		w.T.Fatal(err)
	}
	after := w.m.config.Trash.Stats()
	if after.Unmeasured != before.Unmeasured {
		w.T.Errorf("%d entries in the trash have no size", after.Unmeasured-before.Unmeasured)
	}
	return after.Size.Sub(before.Size)
}

// A directory that could not be renamed after its record was deleted is trashed later, but
// a new one with its name is not.
func TestTrashedLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		evict func(w *world, c *Clone, tree string) error
		left  func(w *world, c *Clone) error
		what  func(c *Clone, tree string) string
	}{
		{
			"layer", func(w *world, c *Clone, tree string) error {
				return w.m.EvictLayers(w.T.Context(), c.Key, []string{tree})
			},
			nil, // which internal/repo/layer tests
			func(c *Clone, tree string) string { return c.dirOf(meta.Tree, tree) },
		},
		{
			"clone", func(w *world, c *Clone, tree string) error {
				return w.m.EvictClone(w.T.Context(), c.Key, work.StopNothing)
			},
			func(w *world, c *Clone) error { return w.m.trashLeft(w.T.Context(), c.Key, disk.Size{}) },
			func(c *Clone, tree string) string { return c.Dir },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main")
			c, co := w.clone(s), w.prepare(s)
			co.Release()
			w.idle(c)
			allow := testdir.Refuse(t, filepath.Join(w.Root, "trash"))
			if err := tt.evict(w, c, co.Tree.ID); !errors.Is(err, unix.EXDEV) {
				t.Fatalf("evicted: %v", err)
			}
			path := tt.what(c, co.Tree.ID)
			if _, err := os.Stat(path); err != nil {
				t.Fatal(err)
			}
			allow()
			wait.For(t, "it to be trashed", func() error {
				_, err := os.Stat(path)
				return wait.Check(errors.Is(err, os.ErrNotExist), "it is there, %v", err)
			})
			again := w.prepare(s)
			again.Release()
			w.idle(c)
			if again.Tree.ID != co.Tree.ID {
				t.Errorf("tree %s instead of %s", again.Tree.ID, co.Tree.ID)
			}
			if tt.left == nil {
				return
			}
			if err := tt.left(w, c); err != nil {
				t.Errorf("a try with a new one: %v", err)
			}
			if _, err := os.Stat(c.dirOf(meta.Tree, again.Tree.ID)); err != nil {
				t.Errorf("the new one: %v", err)
			}
		})
	}
}

// A Mount during an eviction waits, and makes a new clone.
func TestMountDuringEviction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	w.prepare(s).Release()
	began, goOn := make(chan struct{}), make(chan struct{})
	forget := func(string) (func(*meta.Tx) error, func()) {
		close(began)
		<-goOn
		return func(*meta.Tx) error { return nil }, func() {}
	}
	w.Server.Reset()
	w.idle(c)
	ended := make(chan error, 2)
	go func() { ended <- w.m.EvictClone(t.Context(), c.Key, work.StopNothing, forget) }()
	<-began
	wantBusy(t, "a second one", w.m.EvictClone(t.Context(), c.Key, work.StopNothing), "being evicted")
	var co *Checkout
	go func() {
		var err error
		co, err = c.Prepare(t.Context(), s)
		ended <- err
	}()
	close(goOn)
	if err := errors.Join(<-ended, <-ended); err != nil {
		t.Fatal(err)
	}
	defer co.Release()
	if got := run(t, w.Mount(co.Lower, 0), 0, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if _, _, clones := w.requests(); clones != 1 {
		t.Errorf("%d clones, want 1", clones)
	}
}

// Concurrent mounts and evictions fail only because of each other.
func TestMountsAndEvictions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	var evictions atomic.Int32
	evict := func() {
		for _, err := range []error{w.m.EvictClone(t.Context(), c.Key, work.StopNothing)} {
			if _, busy := errors.AsType[*work.BusyError](err); err != nil && !busy {
				t.Error(err)
			} else if !busy {
				evictions.Add(1)
			}
		}
	}
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for range 5 {
				co, err := c.Prepare(t.Context(), s)
				if err != nil {
					t.Error(err)
					return
				}
				for _, dir := range co.Lower {
					if _, err := os.Lstat(dir); err != nil {
						t.Error(err)
					}
				}
				co.Release()
				evict()
			}
		})
	}
	workers.Wait()
	w.idle(c)
	evict()
	if evictions.Load() == 0 {
		t.Error("nothing was evicted")
	}
}
