package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
)

const owner = "s/c"

// world is a data directory with a Store.
type world struct {
	t     *testing.T
	root  string
	store *Store
	set   *Set
	work  sync.WaitGroup // in the background
	stop  func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: testdir.New(t, "layer")}
	w.start("boot 1")
	return w
}

func (w *world) start(boot string) {
	w.t.Helper()
	d := testdb.Open(w.t, w.root)
	ctx, cancel := context.WithCancel(context.Background())
	w.store = New(Config{
		Root: w.root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: time.Now,
		Background: func(f func(context.Context)) { w.work.Go(func() { f(ctx) }) },
	}, d.State)
	w.set = w.store.Set(owner)
	w.stop = sync.OnceFunc(func() {
		cancel()
		w.work.Wait()
		d.DB.Close()
	})
	w.t.Cleanup(w.stop)
}

func (w *world) restart(boot string) {
	w.t.Helper()
	w.stop()
	w.start(boot)
}

// temp makes a layer in the making, with a file.
func (w *world) temp(k meta.Kind) string {
	w.t.Helper()
	temp, err := w.set.Temp(k)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, "file"), make([]byte, 10_000), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return temp
}

// make publishes a layer.
func (w *world) make(k meta.Kind, id string, below ...string) meta.Layer {
	w.t.Helper()
	l := meta.Layer{Kind: k, ID: id}
	if k == meta.Tree {
		l.Chain = append([]string{id}, below...)
	}
	l, err := w.set.Publish(l, w.temp(k))
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// path returns the directory of a layer.
func (w *world) path(k meta.Kind, id string) string { return w.set.Lower(k, id)[0] }

// wants checks which trees there are: in memory, in the database and on disk.
func (w *world) wants(ids ...string) {
	w.t.Helper()
	var known, dirs, records []string
	for _, l := range w.set.List(meta.Tree) {
		known = append(known, l.ID)
	}
	entries, err := os.ReadDir(w.path(meta.Tree, ""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		dirs = append(dirs, e.Name())
	}
	w.restart(w.store.Boot)
	for _, l := range w.set.List(meta.Tree) {
		records = append(records, l.ID)
	}
	for what, got := range map[string][]string{"memory": known, "on disk": dirs, "records": records} {
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			w.t.Errorf("%s: trees %q, want %q", what, got, ids)
		}
	}
}

func (w *world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}

func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// What has the name is of an earlier life.
	w.must(os.MkdirAll(filepath.Join(w.path(meta.Tree, "a"), "left"), 0o755))
	l := w.make(meta.Tree, "a")
	if l.Clone != owner || l.Boot != "boot 1" || l.CreatedAt.IsZero() || l.Durable {
		t.Errorf("%+v", l)
	}
	if _, err := os.Stat(filepath.Join(w.path(meta.Tree, "a"), "left")); !os.IsNotExist(err) {
		t.Errorf("the leftover is in the layer: %v", err)
	}
	if _, ok := w.set.Get(meta.GitLayer, "a"); ok {
		t.Error("it is a layer of another kind too")
	}
	temp := w.temp(meta.Tree)
	if info, err := os.Stat(temp); err != nil || info.Mode().Perm() != 0o755 || !durable.IsTemp(filepath.Base(temp)) {
		t.Errorf("%s: %v, %v", temp, info, err)
	}
	refused := errors.New("refused")
	if _, err := w.set.Publish(meta.Layer{Kind: meta.Tree, ID: "b"}, temp, func(*meta.Tx) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("publish: %v, want the error of what also commits", err)
	}
	other := w.temp(meta.Tree)
	w.must(w.set.Discard(temp), w.set.Discard(other), w.set.Discard(other))
	w.wants("a")
	if _, ok := w.set.Get(meta.Tree, "a"); !ok {
		t.Error("not there after a restart")
	}
}

// TestHold: what is held is not taken, and counts as often as it was held.
func TestHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.make(meta.Tree, "a"), w.make(meta.Tree, "b", "a")
	if !w.set.HoldKnown(b) {
		t.Fatal("not there")
	}
	w.set.Hold(meta.Tree, "a")
	w.set.Drop(meta.Tree, b.Chain...)
	if !w.set.Held(meta.Tree, "a") || w.set.Held(meta.Tree, "b") || !w.set.InUse(meta.Tree) || w.set.InUse(meta.GitLayer, meta.WarmLayer) {
		t.Error("held: want a, and no other")
	}
	taken := w.set.Take(w.set.List())
	if len(taken) != 1 || taken[0].ID != "b" || w.set.HoldKnown(b) {
		t.Errorf("taken: %+v, want b, which nobody can hold then", taken)
	}
	w.must(w.set.Remove(taken))
	w.set.Drop(meta.Tree, "a")
	if w.set.Held(meta.Tree, "a") || len(w.set.Take([]meta.Layer{b})) > 0 || !w.set.HoldKnown(a) {
		t.Error("a is to be free, and b gone")
	}
	w.wants("a")
}

// TestRemoveHeld: the record goes, the directory with its last user.
func TestRemoveHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.make(meta.Tree, "a")
	w.set.Hold(meta.Tree, "a", "a")
	w.must(w.set.Remove([]meta.Layer{l}), w.set.TrashStrays(meta.Tree))
	w.set.Drop(meta.Tree, "a")
	w.work.Wait()
	if _, err := os.Stat(w.path(meta.Tree, "a")); err != nil {
		t.Errorf("gone while it is held: %v", err)
	}
	w.set.Drop(meta.Tree, "a")
	w.work.Wait()
	w.wants()
}

// TestRemoveFails: a record that could not be deleted is back in memory, and a
// directory that could not be renamed is tried again, unless it was made anew.
func TestRemoveFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.must(w.store.Sync(t.Context())) // blocks that are not written yet may not count
	if _, err := w.set.Measure(t.Context(), disk.NewPace(0)); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	list := w.set.Take(w.set.List())
	if err := w.set.Forget(list, func(*meta.Tx) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("forget: %v", err)
	}
	l, ok := w.set.Get(meta.Tree, "a")
	if !ok || l.Size.Bytes == 0 {
		t.Errorf("after a failure: %+v, %v", l, ok)
	}
	allow := testdir.Refuse(t, filepath.Join(w.root, "trash"))
	if err := w.set.Remove([]meta.Layer{l}); !errors.Is(err, unix.EXDEV) {
		t.Errorf("remove: %v", err)
	}
	allow()
	w.work.Wait()
	if got := w.store.Trash.Stats(); got.Size != l.Size.Size || got.Unmeasured != 0 {
		t.Errorf("in the trash: %+v, want the size %+v", got, l.Size)
	}
	w.make(meta.Tree, "a")
	w.must(w.set.trashLater(t.Context(), l))
	w.wants("a")
}

func TestEvict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.make(meta.Tree, "b", "a")
	w.make(meta.Tree, "c")
	w.make(meta.Tree, "d", "c")
	w.make(meta.WarmLayer, "w")
	w.set.Hold(meta.Tree, "d", "c")
	for _, tt := range []struct {
		ids          []string
		gone, stayed int
	}{
		{[]string{"a"}, 0, 1}, // b stands on it
		{[]string{"c", "d", "unknown", "w"}, 0, 2},
		{[]string{"a", "b", "c"}, 2, 1},
	} {
		if gone, stayed, err := w.set.Evict(tt.ids, meta.Tree, meta.GitLayer); err != nil || gone != tt.gone || stayed != tt.stayed {
			t.Errorf("%q: %d gone and %d stayed, %v; want %d and %d", tt.ids, gone, stayed, err, tt.gone, tt.stayed)
		}
	}
	if len(w.set.List(meta.WarmLayer)) != 1 {
		t.Error("a layer of another kind went")
	}
	w.wants("c", "d")
}

// TestSweep: records without a directory, or of one that was not on disk when the
// machine went down, and those that stand on such; and directories without a record.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"gone", "lost", "whole"} {
		w.make(meta.Tree, id)
	}
	w.make(meta.Tree, "on gone", "gone")
	w.make(meta.Tree, "on whole", "whole")
	w.must(w.store.Sync(t.Context()))
	lost, _ := w.set.Get(meta.Tree, "lost")
	lost.Durable = false
	w.must(
		w.store.DB.Update(func(tx *meta.Tx) error { return tx.PutLayer(lost) }),
		os.RemoveAll(w.path(meta.Tree, "gone")), os.Mkdir(w.path(meta.Tree, "stranger"), 0o755), os.Mkdir(w.path(meta.Tree, "held"), 0o755),
	)
	w.temp(meta.Tree)
	w.restart("boot 2")
	w.make(meta.Tree, "new")
	w.set.Hold(meta.Tree, "held")
	// What is synced now was not on disk then.
	w.must(w.store.Sync(t.Context()))
	void, err := w.set.Void(meta.Tree)
	w.must(err, w.set.Forget(void), w.set.TrashStrays(meta.Tree))
	w.must(os.MkdirAll(filepath.Join(w.root, "clones/s/d/trees"), 0o755))
	for k, want := range map[meta.Kind][]string{meta.Tree: {owner, "s/d"}, meta.GitLayer: {owner}} {
		owners, err := w.store.Owners(k)
		slices.Sort(owners)
		if got := slices.Compact(owners); err != nil || !slices.Equal(got, want) {
			t.Errorf("owners of %ss: %q, %v; want %q", k, got, err, want)
		}
	}
	w.set.Drop(meta.Tree, "held")
	w.work.Wait()
	w.wants("new", "on whole", "whole")
}

// TestSync: layers are durable when their records say so, and if they don't the next
// sync tries again.
func TestSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.make(meta.GitLayer, "g")
	w.must(w.set.Settle(t.Context(), meta.Tree, "unknown"))
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait, want 2", n)
	}
	w.must(w.store.DB.Close())
	if err := w.store.Sync(t.Context()); err == nil {
		t.Error("a sync without a database")
	}
	if n := len(w.store.pending()); n != 2 {
		t.Errorf("%d layers wait after a failure, want 2", n)
	}
	w.restart("boot 1")
	w.must(w.set.Settle(t.Context(), meta.Tree, "a"))
	w.restart("boot 1")
	for _, l := range w.set.List() {
		if !l.Durable {
			t.Errorf("%s %s is not durable", l.Kind, l.ID)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	w.store.rounds.token <- struct{}{} // one is under way
	if err := w.store.Sync(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a sync that is not waited for: %v", err)
	}
	<-w.store.rounds.token
}

// TestSyncIsShared: of those that ask while one is under way, each has a round that
// began later.
func TestSyncIsShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.store.rounds.token <- struct{}{}
	var all sync.WaitGroup
	const n = 8
	for range n {
		all.Go(func() {
			if err := w.store.Sync(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	<-w.store.rounds.token
	all.Wait()
	if got, done := w.store.rounds.begun.Load(), w.store.rounds.done.Load(); got < 1 || got > n || done != got {
		t.Errorf("%d rounds, the last that succeeded %d", got, done)
	}
}

// TestRun: new layers, and those that an earlier run has not come to, become durable.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.restart("boot 1")
	w.store.Background(w.store.Run)
	isDurable := func(id string) func() bool {
		return func() bool { l, _ := w.set.Get(meta.Tree, id); return l.Durable }
	}
	testdir.Eventually(t, "a to be durable", isDurable("a"))
	w.make(meta.Tree, "b")
	testdir.Eventually(t, "b to be durable", isDurable("b"))
}

func TestTouchAndMeasure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.make(meta.Tree, "a")
	w.make(meta.WarmLayer, "w")
	at := time.Now().Add(time.Hour).Round(0)
	list := w.set.Touch(at, func(used time.Time) bool { return used.IsZero() }, meta.Tree, "a", "unknown")
	if len(list) != 1 || len(w.set.Touch(at, func(used time.Time) bool { return used.IsZero() }, meta.Tree, "a")) > 0 {
		t.Errorf("touched %+v, want a, once", list)
	}
	w.must(w.store.Sync(t.Context()))
	measured, err := w.set.Measure(t.Context(), disk.NewPace(0))
	if err != nil || len(measured) != 2 || len(w.set.Unmeasured()) > 0 {
		t.Errorf("measured %+v, %v", measured, err)
	}
	gone := meta.Layer{Kind: meta.Tree, ID: "gone"}
	w.must(w.store.DB.Update(func(tx *meta.Tx) error { return w.set.Save(tx, append(append(list, measured...), gone)...) }))
	w.restart("boot 1")
	l, _ := w.set.Get(meta.Tree, "a")
	if !l.Used.Equal(at) || l.Size.Bytes < 10_000 || l.Size.At.IsZero() || w.set.SizeOf(meta.Tree, "a", "unknown") != l.Size.Size {
		t.Errorf("%+v", l)
	}
	w.wants("a")
}
