package layer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	// A directory of an earlier boot already has the name.
	w.must(os.MkdirAll(filepath.Join(w.path(meta.Tree, "a"), "left"), 0o755))
	l := w.publish(meta.Tree, "a")
	if l.Clone != owner || l.Boot != "boot 1" || l.CreatedAt.IsZero() || l.Durable {
		t.Errorf("%+v", l)
	}
	if _, err := os.Stat(filepath.Join(w.path(meta.Tree, "a"), "left")); !os.IsNotExist(err) {
		t.Errorf("the layer has a file of the earlier boot: %v", err)
	}
	if _, ok := w.set.Get(meta.GitLayer, "a"); ok {
		t.Error("a layer of another kind has the same ID")
	}
	temp := w.temp(meta.Tree)
	if info, err := os.Stat(temp); err != nil || info.Mode().Perm() != 0o755 || !durable.IsTemp(filepath.Base(temp)) {
		t.Errorf("%s: %v, %v", temp, info, err)
	}
	refused := errors.New("refused")
	if _, err := w.set.Publish(meta.Layer{Kind: meta.Tree, ID: "b"}, temp, func(*meta.Tx) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("publish: %v, want the error of the function that also writes", err)
	}
	if _, err := os.Stat(temp); err != nil {
		t.Errorf("the temporary directory is gone: %v", err)
	}
	left := w.path(meta.Tree, "b")
	if _, err := w.set.Publish(meta.Layer{Kind: meta.Tree, ID: "b"}, temp, func(*meta.Tx) error {
		return errors.Join(refused, os.MkdirAll(filepath.Join(temp, "in the way"), 0o755))
	}); !errors.Is(err, refused) || !errors.Is(err, os.ErrExist) {
		t.Errorf("publish: %v, want also why the directory can't be renamed back", err)
	}
	w.must(os.Remove(filepath.Join(left, "file")), os.Remove(left)) // it is all that is left of what was built
	both := []Built{{meta.Layer{Kind: meta.Tree, ID: "b"}, w.temp(meta.Tree)}, {meta.Layer{Kind: meta.Tree, ID: "c"}, filepath.Join(w.temp(meta.Tree), "missing")}}
	if err := w.set.PublishAll(both); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("publish two: %v, want the error about the second", err)
	}
	w.must(w.set.Discard(both[0].Temp), w.set.Discard(filepath.Dir(both[1].Temp)))
	other := w.temp(meta.Tree)
	w.must(w.set.Discard(temp), w.set.Discard(other), w.set.Discard(other))
	w.wants("a")
	if _, ok := w.set.Get(meta.Tree, "a"); !ok {
		t.Error("the layer is missing after a restart")
	}
}

// TestRemoveHeld checks that Remove deletes the record of a held layer, and that its
// directory goes with the last hold.
func TestRemoveHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.publish(meta.Tree, "a")
	w.set.Hold(meta.Tree, "a", "a")
	w.must(w.set.Remove([]meta.Layer{l}), w.set.TrashStrays(meta.Tree))
	w.set.Drop(meta.Tree, "a")
	w.work.Wait()
	if _, err := os.Stat(w.path(meta.Tree, "a")); err != nil {
		t.Errorf("the directory of a held layer: %v", err)
	}
	w.set.Drop(meta.Tree, "a")
	w.work.Wait()
	w.wants()
}

// TestRemoveFails checks that a layer is back in memory if its record can't be deleted, and
// that a failed rename of its directory is repeated, unless a new layer has the ID.
func TestRemoveFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(meta.Tree, "a")
	w.must(w.store.Sync(t.Context())) // because unwritten blocks may not count
	if _, err := w.set.Measure(t.Context(), disk.NewPace(0)); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	list := w.set.Withdraw(w.set.List())
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
	if got := w.store.config.Trash.Stats(); got.Size != l.Size.Size || got.Unmeasured != 0 {
		t.Errorf("in the trash: %+v, want the size %+v", got, l.Size)
	}
	w.publish(meta.Tree, "a")
	w.must(w.set.trashLater(t.Context(), l))
	w.wants("a")
}

func TestEvict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(meta.Tree, "a")
	w.publish(meta.Tree, "b", "a")
	w.publish(meta.Tree, "c")
	w.publish(meta.Tree, "d", "c")
	w.publish(meta.WarmLayer, "w")
	w.set.Hold(meta.Tree, "d", "c")
	for _, tt := range []struct {
		ids          []string
		gone, stayed int
	}{
		{[]string{"a"}, 0, 1}, // b is above it
		{[]string{"c", "d", "unknown", "w"}, 0, 2},
		{[]string{"a", "b", "c"}, 2, 1},
	} {
		if gone, stayed, err := w.set.Evict(tt.ids, meta.Tree, meta.GitLayer); err != nil || gone != tt.gone || stayed != tt.stayed {
			t.Errorf("%q: %d gone and %d stayed, %v; want %d and %d", tt.ids, gone, stayed, err, tt.gone, tt.stayed)
		}
	}
	if len(w.set.List(meta.WarmLayer)) != 1 {
		t.Error("a layer of another kind is gone")
	}
	w.wants("c", "d")
}

// TestSweep checks that Void returns the records whose directory is missing, was not durable
// before a reboot or is a copy without attributes, and the layers above them, and that TrashStrays
// removes directories without a record.
func TestSweep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, id := range []string{"gone", "lost", "copied", "whole"} {
		w.publish(meta.Tree, id)
	}
	w.publish(meta.Tree, "on gone", "gone")
	w.publish(meta.Tree, "on copied", "copied")
	w.publish(meta.Tree, "on whole", "whole")
	w.must(w.store.Sync(t.Context()))
	lost, _ := w.set.Get(meta.Tree, "lost")
	lost.Durable = false
	w.must(
		w.store.config.DB.Update(func(tx *meta.Tx) error { return tx.PutLayer(lost) }),
		os.RemoveAll(w.path(meta.Tree, "gone")), unix.Removexattr(w.path(meta.Tree, "copied"), "trusted.overlay.helmdeck"),
		os.Mkdir(w.path(meta.Tree, "stranger"), 0o755), os.Mkdir(w.path(meta.Tree, "held"), 0o755),
	)
	w.temp(meta.Tree)
	w.restart("boot 2")
	w.publish(meta.Tree, "new")
	w.set.Hold(meta.Tree, "held")
	// This sync can't save layers of an earlier boot.
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
