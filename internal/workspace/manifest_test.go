package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/mounter"
)

// rebuild restarts the world after its database was lost.
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
	rebuilt, err := mounter.Rebuild(w.root, w.boot)
	if err != nil {
		w.t.Fatal(err)
	}
	rebuilt.Volumes, rebuilt.Clones = state.Volumes, state.Clones // as others rebuild them
	if db, _, err = meta.Open(path); err != nil {
		w.t.Fatal(err)
	}
	err = db.Update(func(tx *meta.Tx) error { return tx.Put(rebuilt) })
	if err := errors.Join(err, db.Close()); err != nil {
		w.t.Fatal(err)
	}
	w.restart()
}

// TestRebuildKept: kept workspaces, one of which began with a checkpoint, and the leases of shared ones, survive the
// loss of the database.
func TestRebuildKept(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	kept, dir := w.open("kept", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "x")
	w.release("kept", "1")
	shared, _ := w.open("shared", "1", "mode", "shared")
	w.join("shared", "2")
	d := w.leave("v")
	forked, _ := w.forked(d.ID, "forked", "1", "mode", "keep")
	w.release("forked", "1")
	w.rebuild()
	if rec, ok := w.m.Kept("kept"); !ok || rec.ID != kept.ID {
		t.Errorf("kept %+v, %v", rec, ok)
	}
	if rec, ok := w.m.Kept("forked"); !ok || rec.ID != forked.ID || !slices.Equal(rec.From, []string{d.ID}) {
		t.Errorf("forked %+v, %v", rec, ok)
	}
	if got := w.m.Leases("shared"); len(got) != 1 || got[0].ID != shared.ID || !slices.Equal(got[0].Leases, meta.Leases{"1", "2"}) {
		t.Errorf("shared %+v", got)
	}
	// A workspace has ended if its volume is gone, or keeps another one by now.
	w.close()
	db, _, err := meta.Open(filepath.Join(w.root, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	kept.Leases = nil
	older := kept
	older.ID, older.MountedAt = "0000000000000000", kept.MountedAt.Add(-time.Hour)
	err = db.Update(func(tx *meta.Tx) error {
		return errors.Join(tx.DeleteVolume("forked"), tx.PutWorkspace(kept), tx.PutWorkspace(older))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	reaped(t, w)
	if rec, ok := w.m.Kept("kept"); !ok || rec.ID != kept.ID {
		t.Errorf("kept %+v, %v", rec, ok)
	}
	if _, ok := w.m.Kept("forked"); ok {
		t.Error("what a volume without a record kept is kept")
	}
	w.checkpointOf(d.ID)
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: ".hdcache", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	rec, _ := w.open("v", "1")
	// A power loss leaves empty manifests.
	broken := filepath.Join(w.root, "clones", rec.Clone, "workspaces", "broken")
	if err := os.Mkdir(broken, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(broken, mounter.ManifestName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		boot   string
		layers int
	}{{"boot", 1}, {"another", 0}} {
		state, err := mounter.Rebuild(w.root, tt.boot)
		if err != nil {
			t.Fatal(err)
		}
		got := state.Workspaces[rec.ID]
		if len(state.Workspaces) != 1 || !slices.Equal(got.Leases, meta.Leases{"1"}) || got.Tree != rec.Tree || !got.MountedAt.Equal(rec.MountedAt) {
			t.Errorf("%s: %+v, want %+v", tt.boot, state.Workspaces, rec)
		}
		if len(state.Trees) != tt.layers || len(state.GitLayers) != tt.layers {
			t.Errorf("%s: %d trees and %d git layers, want %d", tt.boot, len(state.Trees), len(state.GitLayers), tt.layers)
		}
		for _, l := range state.Trees {
			if l.ID != rec.Tree || !l.TracksCache || l.Boot != "boot" || l.Durable || !slices.Equal(l.Chain, rec.Chain) {
				t.Errorf("tree %+v", l)
			}
		}
	}
}
