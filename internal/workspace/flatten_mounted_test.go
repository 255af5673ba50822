package workspace

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// stat returns what a file is.
func stat(t *testing.T, path string) (st unix.Stat_t) {
	t.Helper()
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// checkSize checks that what counts for a merged checkpoint, which has nothing with others, is what it takes on the
// disk.
func (w *world) checkSize(id string) {
	w.t.Helper()
	rec := w.record(id)
	found, err := disk.Measure(w.t.Context(), w.m.mounter.Upper(rec))
	if err != nil {
		w.t.Fatal(err)
	}
	if rec.Size.Size != found || rec.Whole != found {
		w.t.Errorf("%+v counts for it, of %+v, and it takes %+v", rec.Size.Size, rec.Whole, found)
	}
}

// appendTo writes to a file, which an overlay copies up before.
func appendTo(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("more"); err != nil {
		t.Fatal(err)
	}
}

// TestFlattenIdle: a chain is merged when nothing is mounted on it any more, and its files become links. Until then it
// waits.
func TestFlattenIdle(t *testing.T) {
	t.Parallel()
	w, merges, ids := newChain(t, flattenAt)
	top := ids[flattenAt-1]
	<-merges.begun
	live, dir := w.forked(ids[2], "live", "1") // on the lowest ones
	appendTo(t, filepath.Join(dir, "f1"))
	before := stat(t, filepath.Join(dir, "f1"))
	merges.resume()
	<-merges.ended
	if rec := w.record(top); len(rec.Merged) > 0 {
		t.Error("it was merged while something is mounted")
	}
	w.end("live", "1")
	w.checkpointOf(live.ID)
	rec := w.merged(top)
	f1 := stat(t, filepath.Join(w.m.mounter.Upper(rec), "f1"))
	if below := stat(t, filepath.Join(w.m.mounter.Upper(w.record(ids[1])), "f1")); f1.Ino != below.Ino {
		t.Error("its files are no links")
	}
	_, dir = w.forked(live.ID, "again", "1")
	if got := stat(t, filepath.Join(dir, "f1")); got.Size != before.Size {
		t.Errorf("what it left has %d bytes, want %d", got.Size, before.Size)
	}
}

// TestFlattenMounted: a long chain is merged also while something is mounted on it. Files there keep their inode
// numbers, those that were copied up and those that are later; so their copies are the merged checkpoint's own from the
// beginning.
func TestFlattenMounted(t *testing.T) {
	t.Parallel()
	w, merges, ids := newChain(t, flattenAnyway)
	top := ids[flattenAnyway-1]
	_, dir := w.forked(top, "live", "1")
	appendTo(t, filepath.Join(dir, "f1"))
	names := []string{"f1", "f2", "mine"}
	numbers := func() (list []uint64) {
		for _, name := range names {
			list = append(list, stat(t, filepath.Join(dir, name)).Ino)
		}
		return list
	}
	before := numbers()
	low, err := w.m.records.lookUp(ids[3])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.records.change(t.Context(), low, func(rec *meta.Workspace) error {
		rec.Changed, rec.Size = nil, meta.Measured{}
		return nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	merges.resume()
	rec := w.merged(top)
	if rec := w.record(ids[3]); rec.Changed == nil || rec.Size.Bytes == 0 {
		t.Errorf("one that was merged had not been measured: %+v", rec.Size)
	}
	appendTo(t, filepath.Join(dir, "f2"))
	if after := numbers(); !slices.Equal(before, after) {
		t.Errorf("%q had the inode numbers %d, and have %d now", names, before, after)
	}
	if rec.Size.Bytes < rec.Whole.Bytes {
		t.Errorf("%d bytes count for it, and it has copied %d", rec.Size.Bytes, rec.Whole.Bytes)
	}
	_, again := w.forked(top, "again", "1")
	generation(t, again, flattenAnyway)
	w.end("live", "1")
	w.end("again", "1")
	reaped(t, w)
	w.removeAllBut(top)
	w.checkSize(top)
}

// TestFlattenTop: of a chain that waited, the last checkpoint alone is merged, also at a start, and nothing that it has
// merged. One that was below others waits until it is the last.
func TestFlattenTop(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	first := w.leave("v")
	_, dir := w.forked(first.ID, "live", "1")
	write(t, filepath.Join(dir, "mine"), "live")
	merges := w.stopMerges()
	ids := w.chain(first.ID, 0, flattenAt+3)
	top, below := ids[flattenAt+2], ids[flattenAt+1]
	w.end("live", "1")
	<-merges.begun
	merges.resume()
	<-merges.ended
	for _, id := range ids {
		if rec := w.record(id); len(rec.Merged) > 0 != (id == top) {
			t.Errorf("checkpoint %s has merged %v, and the last one is %s", id, rec.Merged, top)
		}
	}
	if err := w.m.EvictCheckpoint(top); err != nil {
		t.Fatal(err)
	}
	w.restart()
	w.merged(below)
}

// TestFlattenCause: merges of checkpoints on one lowest one fail together, but not those that copy files with those
// that do not.
func TestFlattenCause(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	put := func(rec meta.Workspace) *workspace {
		o := newWorkspace(rec.ID, nil)
		w.m.records.put(o, rec)
		return o
	}
	b := w.m.reaper.toFlatten
	one := put(meta.Workspace{ID: "one", Clone: "a/x", Phase: meta.Checkpoint, From: []string{"m", "l"}})
	two := put(meta.Workspace{ID: "two", Clone: "a/x", Phase: meta.Checkpoint, From: []string{"one", "m", "l"}})
	beside := put(meta.Workspace{ID: "beside", Clone: "b/x", Phase: meta.Checkpoint, From: []string{"k"}})
	if b.Cause(one) != b.Cause(two) || b.Cause(one) == b.Cause(beside) {
		t.Errorf("%v, %v, %v", b.Cause(one), b.Cause(two), b.Cause(beside))
	}
	before := b.Cause(two)
	fork := put(meta.Workspace{ID: "fork", Clone: "a/x", Phase: meta.Making, From: []string{"l"}})
	if b.Cause(two) == before {
		t.Errorf("%v, whether files are copied or not", before)
	}
	w.m.records.drop(fork)
	if b.Cause(two) != before {
		t.Errorf("%v, want %v", b.Cause(two), before)
	}
	if b.Subject(one) != b.Subject(two) || b.Subject(one) == b.Subject(beside) {
		t.Errorf("%q, %q, %q", b.Subject(one), b.Subject(two), b.Subject(beside))
	}
}

// removeAllBut removes the other checkpoints, each when nothing stands on it.
func (w *world) removeAllBut(id string) {
	w.t.Helper()
	wait.For(w.t, "the others are removed", func() error {
		list := w.m.Checkpoints()
		for _, c := range list {
			if c.ID != id && !c.Used {
				if err := w.m.EvictCheckpoint(c.ID); err != nil {
					w.t.Error(err)
				}
			}
		}
		return wait.Equal(len(list), 1)
	})
}

// TestFlattenAgain: what was merged again and again names nobody who is gone, and when the others are gone, what counts
// for it is what it takes.
func TestFlattenAgain(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	top := w.leave("v").ID
	for n := range 3 {
		var below []string
		for _, c := range w.m.Checkpoints() {
			below = append(below, c.ID)
		}
		ids := w.chain(top, n*flattenAt, flattenAt)
		top = ids[flattenAt-1]
		got, want := slices.Sorted(slices.Values(w.merged(top).Merged)), slices.Sorted(slices.Values(append(below, ids[:flattenAt-1]...)))
		if !slices.Equal(got, want) {
			t.Errorf("it has merged %v, want %v", got, want)
		}
		if n > 0 {
			w.removeAllBut(top)
			w.checkSize(top)
		}
	}
	// What was measured would count as freed, with all files that have other links.
	if s := w.trash.Stats(); s.Unmeasured > 0 {
		t.Errorf("of %d in the trash, nobody knows what %d free", s.Entries, s.Unmeasured)
	}
}

// TestInheritedSizes: in whatever order checkpoints go whose files others have too, what they took counts once, and for
// none that has less.
func TestInheritedSizes(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	began := time.Now()
	for _, most := range []int64{150, 1000} {
		orders(4, func(order []int) {
			for i, rec := range []meta.Workspace{
				{ID: "a", Size: meta.Measured{Size: disk.Size{Bytes: 100, Inodes: 10}}},
				{ID: "b", Size: meta.Measured{Size: disk.Size{Bytes: 50, Inodes: 5}}},
				{ID: "m1", Merged: []string{"a", "b"}, Size: meta.Measured{Size: disk.Size{Bytes: 10, Inodes: 1}}, Whole: disk.Size{Bytes: 120, Inodes: 100}},
				{ID: "m2", Merged: []string{"b", "a", "gone"}, Size: meta.Measured{Size: disk.Size{Bytes: 7, Inodes: 1}}, Whole: disk.Size{Bytes: 70, Inodes: 100}},
				{ID: "m3", Merged: []string{"m2", "m1", "a", "b"}, Size: meta.Measured{Size: disk.Size{Bytes: 3, Inodes: 1}}, Whole: disk.Size{Bytes: most, Inodes: 18}},
			} {
				rec.Phase, rec.MountedAt = meta.Checkpoint, began.Add(time.Duration(i)*time.Second)
				if err := w.db.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) }); err != nil {
					t.Fatal(err)
				}
				w.m.records.put(newWorkspace(rec.ID, nil), rec)
			}
			sum := int64(170)
			for _, i := range order {
				id := []string{"a", "b", "m1", "m2"}[i]
				if err := w.m.EvictCheckpoint(id); err != nil {
					t.Fatal(err)
				}
				left := int64(0)
				for _, rec := range w.m.Workspaces() {
					left += rec.Size.Bytes
					if whole := rec.Whole; len(rec.Merged) > 0 && (rec.Size.Bytes > whole.Bytes || rec.Size.Inodes > whole.Inodes) {
						t.Errorf("%v: %+v counts for %s, of %+v", order, rec.Size.Size, rec.ID, whole)
					}
				}
				if left > sum || most > sum && left != sum {
					t.Errorf("%v: %d bytes count, and before %s was removed %d", order, left, id, sum)
				}
				sum = left
			}
			want := meta.Measured{Size: disk.Size{Bytes: min(most, 170), Inodes: 18}}
			if got := w.m.Workspaces(); len(got) != 1 || got[0].Size != want {
				t.Errorf("%v: %+v is left, want %+v", order, got, want)
			}
		})
	}
	want, _ := w.m.Workspace("m3")
	if got := w.records(); len(got) != 1 || got["m3"].Size.Size != want.Size.Size {
		t.Errorf("the database has %+v, want %+v", got, want)
	}
}

// orders calls f with each order of the numbers below n.
func orders(n int, f func([]int)) {
	var add func([]int)
	add = func(order []int) {
		if len(order) == n {
			f(order)
		}
		for i := range n {
			if !slices.Contains(order, i) {
				add(append(slices.Clone(order), i))
			}
		}
	}
	add(nil)
}
