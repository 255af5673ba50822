package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
)

// keeping is a world whose workspaces leave discards.
func keeping(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.close()
	w.ttl = time.Hour
	w.start()
	return w
}

// discard opens a workspace, writes a file, and waits for its discard.
func (w *world) discard(name string) Discard {
	w.t.Helper()
	rec, dir := w.open(name, "d")
	write(w.t, filepath.Join(dir, "mine"), "x")
	w.release(name, "d")
	reaped(w.t, w)
	return w.discardOf(rec.ID)
}

// discardOf waits until a discard is counted.
func (w *world) discardOf(id string) (d Discard) {
	w.t.Helper()
	eventually(w.t, "the discard to be counted", func() bool {
		list := w.m.Discards()
		i := slices.IndexFunc(list, func(d Discard) bool { return d.ID == id && d.Changed != nil && !d.Size.At.IsZero() })
		if i >= 0 {
			d = list[i]
		}
		return i >= 0
	})
	return d
}

// restore makes a discard what a new volume keeps.
func (w *world) restore(id, name string) error {
	rec, err := w.m.Discarded(id)
	if err != nil {
		return err
	}
	o, err := volume.ParseRestored(map[string]string{"repo": rec.Options["repo"], "restore": id}, nil, rec.Options, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	return w.m.Restore(id, name, o, func(tx *meta.Tx) error {
		return tx.PutVolume(meta.Volume{Name: name, Options: o.Map()})
	})
}

// TestTouched: what leaves a discard, and what does not.
func TestTouched(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	path := func(names ...string) func(dir string) string {
		return func(dir string) string { return filepath.Join(append([]string{dir}, names...)...) }
	}
	writes := func(names ...string) func(string) error {
		return func(dir string) error { return os.WriteFile(path(names...)(dir), []byte("x"), 0o644) }
	}
	for _, tt := range []struct {
		name    string
		do      func(dir string) error
		want    bool
		changed int64
	}{
		{"nothing", func(string) error { return nil }, false, 0},
		{"git status", func(dir string) error {
			now := time.Now() // so that the index is written again
			err := os.Chtimes(filepath.Join(dir, "README.md"), now, now)
			gitIn(t, dir, "status")
			return errors.Join(err, os.Chtimes(filepath.Join(dir, ".git/index"), now, now))
		}, true, 1}, // the times of a file are the container's
		{"an index alone", writes(".git/index"), false, 0},
		{"the cache", writes(".hdcache/go-mod/x"), false, 0},
		{"helmdeck.json", writes(".git/helmdeck.json"), false, 0},
		{"an empty directory", func(dir string) error { return os.Mkdir(filepath.Join(dir, "new"), 0o755) }, false, 0},
		{"the times of a pack", func(dir string) error {
			packs, err := filepath.Glob(filepath.Join(dir, ".git/objects/pack/*.pack"))
			if err != nil || len(packs) == 0 {
				return errors.Join(err, errors.New("no pack"))
			}
			return os.Chtimes(packs[0], time.Now(), time.Now())
		}, false, 0},
		{"a new file", writes("mine"), true, 1},
		{"two files", func(dir string) error {
			return errors.Join(writes("a")(dir), writes("src/b")(dir), os.Symlink("a", filepath.Join(dir, "c")))
		}, true, 3},
		{"a changed file", writes("README.md"), true, 1},
		{"a removed file", func(dir string) error { return os.Remove(filepath.Join(dir, "README.md")) }, true, 1},
		{"a changed mode", func(dir string) error { return os.Chmod(filepath.Join(dir, "README.md"), 0o600) }, true, 1},
		{"a directory in its own place", func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "src")), os.Mkdir(filepath.Join(dir, "src"), 0o755))
		}, true, 0},
		{"a branch", writes(".git/refs/heads/mine"), true, 0},
		{"a configuration", writes(".git/config"), true, 0},
		{".git is gone", func(dir string) error {
			return errors.Join(unix.Unmount(filepath.Join(dir, ".git/hdcache"), unix.MNT_DETACH), os.RemoveAll(filepath.Join(dir, ".git")))
		}, true, 0},
		{"another .hdcache", func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, ".hdcache")), writes(".hdcache")(dir))
		}, true, 0},
		{"without the cache's mount", func(dir string) error {
			return errors.Join(unix.Unmount(filepath.Join(dir, ".git/hdcache"), unix.MNT_DETACH), writes(".git/hdcache/x")(dir))
		}, false, 0},
		{"what can't be opened", func(dir string) error {
			return errors.Join(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Mkdir(filepath.Join(dir, "closed"), 0))
		}, true, 1},
	} {
		rec, dir := w.open("v", tt.name)
		if err := tt.do(dir); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		w.release("v", tt.name)
		reaped(t, w)
		_, err := w.m.Discarded(rec.ID)
		if got := err == nil; got != tt.want {
			t.Errorf("%s: leaves a discard: %v, want %v", tt.name, got, tt.want)
		}
		if err == nil && tt.want {
			if d := w.discardOf(rec.ID); *d.Changed != tt.changed {
				t.Errorf("%s: %d changed, want %d", tt.name, *d.Changed, tt.changed)
			}
		}
	}
}

// TestDiscardLasts: through restarts, another boot and a lost database, with the
// layers that it stands on; it is restored whole.
func TestDiscardLasts(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	rec, dir := w.open("v", "1", "ref", "main")
	write(t, filepath.Join(dir, "mine"), "x")
	write(t, filepath.Join(dir, "README.md"), "changed")
	gitIn(t, dir, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qam", "mine")
	head := gitIn(t, dir, "rev-parse", "HEAD")
	if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
		t.Fatal(err)
	}
	w.release("v", "1")
	reaped(t, w)
	before := w.discardOf(rec.ID)
	if before.Volume != "v" || before.Subject != "default" || before.Repo != w.server.URL("r") || before.Commit != rec.Commit ||
		before.ExpiresAt.Sub(before.EndedAt) != time.Hour || before.Size.Bytes == 0 {
		t.Errorf("%+v", before)
	}
	if _, err := os.Lstat(filepath.Join(w.m.dir(rec), "work/work/incompat/volatile")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the mark of a volatile mount: %v", err)
	}
	w.push() // nothing but the discard needs the layers
	w.open("v", "2", "ref", "main", "refresh", "always")
	for _, again := range []func(){
		func() { w.restart() },
		func() { w.close(); testdir.Unmount(t, w.root); w.boot = "another"; w.restart() },
		func() { w.rebuild() },
	} {
		again()
		if got := w.discardOf(rec.ID); got.Volume != "v" || *got.Changed != *before.Changed || got.EndedAt.Unix() != before.EndedAt.Unix() {
			t.Errorf("%+v, want %+v", got, before)
		}
	}
	if err := w.restore(rec.ID, "again"); err != nil {
		t.Fatal(err)
	}
	w.restart()
	restored, dir := w.join("again", "1")
	if restored.ID != rec.ID || !slices.Equal(restored.Chain, rec.Chain) || restored.GitLayer != rec.GitLayer {
		t.Errorf("restored %+v, want the layers of %+v", restored, rec)
	}
	if content(t, filepath.Join(dir, "mine")) != "x" || content(t, filepath.Join(dir, "README.md")) != "changed" || gitIn(t, dir, "rev-parse", "HEAD") != head {
		t.Errorf("status %s", gitIn(t, dir, "status"))
	}
	if _, err := os.Lstat(filepath.Join(dir, "src")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was removed: %v", err)
	}
	gitIn(t, dir, "fsck", "--strict")
}

// rebuild is a start after the database was lost.
func (w *world) rebuild() {
	w.t.Helper()
	w.close()
	path := filepath.Join(w.root, "meta.db")
	db, state, err := meta.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := errors.Join(db.Close(), os.Remove(path)); err != nil {
		w.t.Fatal(err)
	}
	workspaces, trees, gitLayers, err := Rebuild(w.root, w.boot)
	if err != nil {
		w.t.Fatal(err)
	}
	if db, _, err = meta.Open(path); err != nil {
		w.t.Fatal(err)
	}
	err = db.Update(func(tx *meta.Tx) error {
		var errs []error
		for _, v := range state.Volumes { // which the driver rebuilds
			errs = append(errs, tx.PutVolume(v))
		}
		for _, c := range state.Clones { // which package clone does
			errs = append(errs, tx.PutClone(c))
		}
		for _, rec := range workspaces {
			errs = append(errs, tx.PutWorkspace(rec))
		}
		for _, l := range trees {
			errs = append(errs, tx.PutTree(l))
		}
		for _, l := range gitLayers {
			errs = append(errs, tx.PutGitLayer(l))
		}
		return errors.Join(errs...)
	})
	if err := errors.Join(err, db.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.restart()
}

// TestRebuildKept: a lost database costs neither what is kept, nor the leases of
// what is shared, nor what was restored.
func TestRebuildKept(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	kept, dir := w.open("kept", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "x")
	w.release("kept", "1")
	shared, _ := w.open("shared", "1", "mode", "shared")
	w.join("shared", "2")
	if _, _, err := w.m.Retain("shared", "2"); err != nil {
		t.Fatal(err)
	}
	d := w.discard("v")
	if err := w.restore(d.ID, "restored"); err != nil {
		t.Fatal(err)
	}
	w.rebuild()
	if rec, ok := w.m.Kept("kept"); !ok || rec.ID != kept.ID {
		t.Errorf("kept %+v, %v", rec, ok)
	}
	if rec, ok := w.m.Kept("restored"); !ok || rec.ID != d.ID {
		t.Errorf("restored %+v, %v", rec, ok)
	}
	if got := w.m.Leases("shared"); len(got) != 1 || got[0].ID != shared.ID || got[0].Leases["1"] != 1 || got[0].Leases["2"] != 2 {
		t.Errorf("shared %+v", got)
	}
	// Of a volume that is gone, or that has another one by now, nothing is kept.
	w.close()
	db, _, err := meta.Open(filepath.Join(w.root, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	kept.Leases = nil
	older := kept
	older.ID, older.MountedAt = "0000000000000000", kept.MountedAt.Add(-time.Hour)
	err = db.Update(func(tx *meta.Tx) error {
		return errors.Join(tx.DeleteVolume("restored"), tx.PutWorkspace(kept), tx.PutWorkspace(older))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	reaped(t, w)
	if rec, ok := w.m.Kept("kept"); !ok || rec.ID != kept.ID {
		t.Errorf("kept %+v, %v", rec, ok)
	}
	if _, ok := w.m.Kept("restored"); ok {
		t.Error("what a volume without a record kept is kept")
	}
	w.discardOf(d.ID)
}

// TestNoDiscard: of what is never synced, and where none are wanted.
func TestNoDiscard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		do    func(w *world)
		lasts bool
	}{
		{"the same boot", func(w *world) {}, true},
		{"another boot", func(w *world) { w.boot = "another" }, false},
		{"not wanted", func(w *world) { w.ttl = 0 }, false},
	} {
		w := keeping(t)
		rec, dir := w.open("v", "1")
		write(t, filepath.Join(dir, "mine"), "x")
		w.close()
		testdir.Unmount(t, w.root)
		tt.do(w)
		w.restart()
		reaped(t, w)
		if _, err := w.m.Discarded(rec.ID); (err == nil) != tt.lasts {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := len(w.workspaces()); (got > 0) != tt.lasts {
			t.Errorf("%s: %d directories", tt.name, got)
		}
	}
}

// TestEvictDiscard: with its layers, and once.
func TestEvictDiscard(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	live, _ := w.open("v", "1")
	d := w.discard("v")
	var missing *NoDiscardError
	for _, id := range []string{live.ID, "0123456789abcdef", ""} {
		if err := w.m.EvictDiscard(id); !errors.As(err, &missing) || missing.ID != id {
			t.Errorf("%q: %v, want that there is none", id, err)
		}
	}
	if err := w.m.EvictDiscard(d.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.m.EvictDiscard(d.ID); !errors.As(err, &missing) {
		t.Errorf("again: %v", err)
	}
	if got := w.m.Discards(); len(got) > 0 || len(w.workspaces()) != 1 {
		t.Errorf("left: %+v, %q", got, w.workspaces())
	}
	if _, ok := w.records()[d.ID]; ok {
		t.Error("its record is left")
	}
}

// TestRestoreOnce: of many at a time, with evictions among them, one gets it.
func TestRestoreOnce(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	for i := range 5 {
		d := w.discard("v")
		var wg sync.WaitGroup
		var mu sync.Mutex
		var won []string
		for _, name := range []string{"a", "b", "c", "evict", "evict"} {
			name += string(rune('0' + i))
			wg.Go(func() {
				err := error(nil)
				if name[0] == 'e' {
					err = w.m.EvictDiscard(d.ID)
				} else {
					err = w.restore(d.ID, name)
				}
				var missing *NoDiscardError
				var used *InUseError
				if err != nil && !errors.As(err, &missing) && !errors.As(err, &used) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, name)
				}
			})
		}
		wg.Wait()
		if len(won) != 1 {
			t.Fatalf("%q have it", won)
		}
		rec, ok := w.m.Kept(won[0])
		if evicted := won[0][0] == 'e'; ok == evicted || ok && rec.ID != d.ID {
			t.Errorf("%s won: kept %+v, %v", won[0], rec, ok)
		}
	}
}

// TestRestoreFails: it is a discard as before, on disk too.
func TestRestoreFails(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	d := w.discard("v")
	rec, err := w.m.Discarded(d.ID)
	if err != nil {
		t.Fatal(err)
	}
	o, err := volume.Parse(rec.Options, nil, volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	if err := w.m.Restore(d.ID, "new", o, func(*meta.Tx) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("Restore: %v", err)
	}
	for range 2 {
		if got := w.discardOf(d.ID); got.Volume != "v" || !got.EndedAt.Equal(d.EndedAt) {
			t.Errorf("%+v, want %+v", got, d)
		}
		if _, ok := w.m.Kept("new"); ok {
			t.Error("the new volume has it")
		}
		w.rebuild()
	}
	trees := filepath.Join(w.root, "clones", rec.Clone, "trees")
	if err := os.RemoveAll(trees); err != nil {
		t.Fatal(err)
	}
	refused(t, "Restore without the layers", w.restore(d.ID, "new"), trees, "no such file")
}

// TestRestoredIsLeftAlone: neither a sweep nor what has ended it before touches
// what was restored; when its volume goes it is a discard again.
func TestRestoredIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	d := w.discard("v")
	for range 3 {
		if err := w.restore(d.ID, "new"); err != nil {
			t.Fatal(err)
		}
		refused(t, "Evict", w.m.EvictDiscard(d.ID), d.ID, `volume "new" has it`)
		_, dir := w.join("new", "1")
		if err := w.m.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if content(t, filepath.Join(dir, "mine")) != "x" {
			t.Error("it is gone")
		}
		w.release("new", "1")
		if err := w.m.End(t.Context(), "new", func(tx *meta.Tx) error { return tx.DeleteVolume("new") }); err != nil {
			t.Fatal(err)
		}
		reaped(t, w)
		if got := w.discardOf(d.ID); got.Volume != "new" || !got.EndedAt.After(d.EndedAt) {
			t.Errorf("%+v", got)
		}
	}
}

// TestSweepDiscards: a discard without its directory is forgotten, and manifests
// are made to agree.
func TestSweepDiscards(t *testing.T) {
	t.Parallel()
	w := keeping(t)
	gone, stays := w.discard("v"), w.discard("v")
	rec, err := w.m.Discarded(stays.ID)
	if err != nil {
		t.Fatal(err)
	}
	manifest := filepath.Join(w.m.dir(rec), manifestName)
	lost := w.m.dir(meta.Workspace{ID: gone.ID, Clone: rec.Clone})
	if err := errors.Join(os.RemoveAll(lost), os.WriteFile(manifest, []byte("{}"), 0o600)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if got := w.m.Discards(); len(got) != 1 || got[0].ID != stays.ID {
		t.Errorf("%+v", got)
	}
	w.rebuild()
	w.discardOf(stays.ID)
}

// TestAdmit: mounts are counted by subject, also those at work.
func TestAdmit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.m.MaxLeases = 3
	rec, _ := w.open("v", "1")
	w.open("w", "1", "mode", "shared")
	w.join("w", "2")
	_, err := w.m.Admit(rec.Clone)
	refused(t, "Admit", err, "3 mounts", "SUBJECT_MAX_LEASES", "allows 3", `"v" (1), "w" (2)`, "end a container")
	done, err := w.m.Admit("other/clone")
	if err != nil {
		t.Fatal(err)
	}
	done()
	w.release("v", "1")
	if done, err = w.m.Admit(rec.Clone); err != nil {
		t.Fatal(err)
	}
	if _, err := w.m.Admit(rec.Clone); err == nil {
		t.Error("a mount at work does not count")
	}
	done()
	done()
	if done, err = w.m.Admit(rec.Clone); err != nil {
		t.Error(err)
	}
	done()
	if len(w.m.atWork) > 0 {
		t.Errorf("at work: %v", w.m.atWork)
	}
}
