package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

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
