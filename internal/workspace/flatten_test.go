package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// generation changes a workspace that begins with the last of n checkpoints, and checks that it has the changes of all.
func generation(t *testing.T, dir string, n int) {
	t.Helper()
	for i := range n {
		if got := content(t, filepath.Join(dir, fmt.Sprint("f", i))); got != fmt.Sprint(i) {
			t.Fatalf("generation %d: f%d is %q", n, i, got)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "d")); n%2 == 1 != (err == nil) {
		t.Fatalf("generation %d: d: %v", n, err)
	}
	write(t, filepath.Join(dir, fmt.Sprint("f", n)), fmt.Sprint(n))
	if n%2 == 1 {
		if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "d/x"), "")
}

// chain makes n checkpoints, each of a workspace that began with the one before, which was of a chain of from
// checkpoints, and returns their IDs.
func (w *world) chain(id string, from, n int) (ids []string) {
	w.t.Helper()
	for i := range n {
		rec, dir := w.forked(id, "chain", "1")
		generation(w.t, dir, from+i)
		w.end("chain", "1")
		w.checkpointOf(rec.ID)
		id = rec.ID
		ids = append(ids, id)
	}
	return ids
}

// stopped are the merges of a world.
type stopped struct {
	begun, goOn, ended chan struct{} // the first one begins; closed by resume; all that waited were tried
}

// newChain makes a world with a checkpoint and a chain of n on it, of which none is merged until resume.
func newChain(t *testing.T, n int) (w *world, merges *stopped, ids []string) {
	t.Helper()
	w = newCheckpointWorld(t)
	first := w.leave("v")
	merges = w.stopMerges()
	return w, merges, w.chain(first.ID, 0, n)
}

// stopMerges keeps checkpoints from being merged until resume, or a restart. None may have been merged yet.
func (w *world) stopMerges() *stopped {
	b, m := w.m.reaper.toFlatten, &stopped{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	do, start := b.Do, b.Go
	begin, end := sync.OnceFunc(func() { close(m.begun) }), sync.OnceFunc(func() { close(m.ended) })
	b.Go = func(f func(context.Context)) {
		start(func(ctx context.Context) { defer end(); f(ctx) })
	}
	b.Do = func(ctx context.Context, of *workspace) error {
		begin()
		select {
		case <-m.goOn:
		case <-ctx.Done():
		}
		return do(ctx, of)
	}
	return m
}

func (m *stopped) resume() { close(m.goOn) }

// record returns the record of a checkpoint.
func (w *world) record(id string) meta.Workspace {
	w.t.Helper()
	rec, err := w.m.Checkpoint(id, volume.DefaultSubject)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// merged waits until a checkpoint is merged with those below it.
func (w *world) merged(id string) meta.Workspace {
	w.t.Helper()
	wait.For(w.t, "the checkpoint is merged", func() error { return wait.Check(len(w.record(id).Merged) > 0, "%+v", w.record(id)) })
	return w.record(id)
}

// TestFlatten: chains of checkpoints have no end, because each that stands on many others is merged with these.
// The user sees no difference but that the others can be removed, and what stood on them goes on.
func TestFlatten(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	first := w.leave("v")
	ids := append([]string{first.ID}, w.chain(first.ID, 0, 100)...)
	top := ids[len(ids)-1]
	_, dir := w.forked(top, "again", "1")
	generation(t, dir, 100)
	if content(t, filepath.Join(dir, "mine")) != "x" {
		t.Error("the first one's change is missing")
	}
	testgit.GitAny(t, dir, "fsck", "--strict")
	w.end("again", "1")
	reaped(t, w)
	for _, id := range ids {
		if rec := w.record(id); len(rec.From) > maxFrom || len(rec.From) >= flattenAt && len(rec.Merged) > 0 {
			t.Errorf("checkpoint %s stands on %d", id, len(rec.From))
		}
	}
	// What is not below anything goes, the oldest first, and the last one stays whole.
	for removed := true; removed; {
		removed = false
		for _, c := range w.m.Checkpoints() {
			if c.ID != top && !c.Used {
				if err := w.m.EvictCheckpoint(c.ID); err != nil {
					t.Error(err)
				}
				removed = true
			}
		}
	}
	if n := len(w.m.Checkpoints()); n > flattenAt+2 {
		t.Errorf("%d checkpoints are left", n)
	}
	_, dir = w.forked(top, "again", "1")
	generation(t, dir, 100)
	w.restart()
	w.boot = "another"
	w.restart()
	_, dir = w.forked(top, "later", "1")
	generation(t, dir, 100)
}

// TestFlattenKeeps: a checkpoint that is merged with others looks as before, and those that stood on it keep what they had
// until they end. Then that is removed, and what was merged can be.
func TestFlattenKeeps(t *testing.T) {
	t.Parallel()
	w, merges, ids := newChain(t, flattenAnyway-1)
	last, dir := w.forked(ids[len(ids)-1], "last", "1")
	generation(t, dir, flattenAnyway-1)
	if err := os.Chmod(filepath.Join(dir, "f0"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.end("last", "1")
	wait.For(t, "it is a checkpoint", func() error { rec, _ := w.m.Workspace(last.ID); return wait.Equal(rec.Phase, meta.Checkpoint) })
	before := w.record(last.ID)
	kept, keptDir := w.forked(last.ID, "kept", "1", "mode", "keep")
	generation(t, keptDir, flattenAnyway)
	merges.resume()
	after := w.merged(last.ID)
	if !slices.Equal(after.Merged, before.From) || len(after.From) > 0 {
		t.Errorf("it has merged %v and stands on %v", after.Merged, after.From)
	}
	fresh, freshDir := w.forked(last.ID, "fresh", "1")
	if !slices.Equal(fresh.From, []string{last.ID}) || !fresh.OnMerged {
		t.Errorf("a new workspace stands on %v", fresh.From)
	}
	if info, err := os.Stat(filepath.Join(freshDir, "f0")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("f0: %v, %v", info, err)
	}
	generation(t, freshDir, flattenAnyway)
	unmerged := filepath.Join(w.m.mounter.Dir(after), "upper")
	if _, err := os.Lstat(unmerged); err != nil {
		t.Errorf("something stands on what the checkpoint was before: %v", err)
	}
	if got := content(t, filepath.Join(keptDir, "f2")); got != "2" {
		t.Errorf("a workspace of before has %q", got)
	}
	w.release("kept", "1")
	published(t, w, kept)
	w.restart()
	if _, dir := w.join("kept", "2"); content(t, filepath.Join(dir, "f2")) != "2" {
		t.Error("a kept workspace of before lost something")
	}
	w.release("kept", "2")
	published(t, w, kept)
	if err := w.m.End(t.Context(), "kept", func(*meta.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "what it was before is removed", func() error {
		_, err := os.Lstat(unmerged)
		return wait.Check(errors.Is(err, os.ErrNotExist), "it is there, %v", err)
	})
	w.release("fresh", "1")
	reaped(t, w)
	for _, id := range before.From {
		if rec := w.record(id); rec.Size.At.IsZero() {
			t.Errorf("%+v", rec)
		}
		for _, c := range w.m.Checkpoints() {
			if slices.Contains(c.Below, id) { // of kept or fresh
				if err := w.m.EvictCheckpoint(c.ID); err != nil {
					t.Error(err)
				}
			}
		}
		if err := w.m.EvictCheckpoint(id); err != nil {
			t.Error(err)
		}
	}
	w.checkSize(last.ID)
	_, dir = w.forked(last.ID, "fresh", "2")
	generation(t, dir, flattenAnyway)
}

// TestFlattenHeld: whoever looks at a checkpoint while it is merged sees what they see, and keeps what that needs.
func TestFlattenHeld(t *testing.T) {
	t.Parallel()
	w, merges, ids := newChain(t, flattenAt)
	top, below := ids[flattenAt-1], ids[flattenAt-2]
	held, err := w.m.Hold(t.Context(), top)
	if err != nil {
		t.Fatal(err)
	}
	merges.resume()
	rec := w.merged(top)
	refused(t, "Evict", w.m.EvictCheckpoint(top), "somebody looks at", top)
	refused(t, "Evict below", w.m.EvictCheckpoint(below), "somebody looks at", top, below)
	view, err := held.View()
	if err != nil {
		t.Fatal(err)
	}
	if got := content(t, fmt.Sprintf("/proc/self/fd/%d/f3", view.Fd())); got != "3" {
		t.Errorf("a view of before has %q", got)
	}
	unmerged := filepath.Join(w.m.mounter.Dir(rec), "upper")
	if _, err := os.Lstat(unmerged); err != nil {
		t.Error(err)
	}
	if err := view.Close(); err != nil {
		t.Fatal(err)
	}
	held.Release()
	if _, err := os.Lstat(unmerged); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what it was before is not removed: %v", err)
	}
	if err := w.m.EvictCheckpoint(below); err != nil {
		t.Error(err)
	}
}

// TestFlattenWhileForked: of workspaces that begin with a checkpoint while that is merged, each has all of it.
func TestFlattenWhileForked(t *testing.T) {
	t.Parallel()
	w, merges, ids := newChain(t, flattenAnyway)
	top := ids[len(ids)-1]
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					if n > 3 {
						return
					}
				default:
				}
				name := fmt.Sprintf("w%d-%d", i, n)
				r, err := w.requestFrom(top, name, "1")
				var rec meta.Workspace
				if err == nil {
					rec, err = w.m.Open(t.Context(), r)
				}
				if err != nil {
					t.Error(err)
					return
				}
				for f := range flattenAnyway {
					data, err := os.ReadFile(filepath.Join(w.m.Mountpoint(rec), fmt.Sprint("f", f)))
					if err != nil || string(data) != fmt.Sprint(f) {
						t.Errorf("%s: f%d is %q, %v", name, f, data, err)
					}
				}
				if _, err := w.m.Release(t.Context(), Lease{name, "1"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	merges.resume()
	rec := w.merged(top)
	close(done)
	all.Wait()
	reaped(t, w)
	unmerged := filepath.Join(w.m.mounter.Dir(rec), "upper")
	wait.For(t, "what it was before is removed", func() error {
		_, err := os.Lstat(unmerged)
		return wait.Check(errors.Is(err, os.ErrNotExist), "it is there, %v", err)
	})
}
