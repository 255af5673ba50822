package meta

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdisk"
)

// TestFullDisk checks that a database on a full disk can be opened, and all its records deleted.
func TestFullDisk(t *testing.T) {
	testdisk.OnEach(t, func(t *testing.T, dir string) {
		path := filepath.Join(dir, "meta.db")
		db, _ := open(t, path)
		const n = 3000
		ids := make([]string, n)
		if err := db.Update(func(tx *Tx) (err error) {
			for i := range n {
				ids[i] = fmt.Sprintf("%016x", i)
				err = errors.Join(err, tx.PutWorkspace(Workspace{ID: ids[i], Volume: strings.Repeat("v", 500)}))
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if err := testdisk.Fill(filepath.Join(dir, "fill")); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db, state := open(t, path)
		if len(state.Workspaces) != n {
			t.Fatalf("%d workspaces on the full disk, want all", len(state.Workspaces))
		}
		for i, id := range ids[:1000] {
			if err := db.Update(func(tx *Tx) error {
				if i%2 == 0 {
					return tx.PutWorkspace(Workspace{ID: id, Phase: Checkpoint})
				}
				return tx.DeleteWorkspace(id)
			}); err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
		}
		if err := db.Update(func(tx *Tx) (err error) {
			for _, id := range ids {
				err = errors.Join(err, tx.DeleteWorkspace(id))
			}
			return err
		}); err != nil {
			t.Fatalf("delete all in one transaction: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if _, state := open(t, path); len(state.Workspaces) != 0 {
			t.Errorf("%d workspaces are left", len(state.Workspaces))
		}
	})
}

// TestReserveIsTriedAgain checks that a database works without its reserve if the disk has no room, and
// allocates the reserve later.
func TestReserveIsTriedAgain(t *testing.T) {
	t.Parallel()
	dir := testdisk.Small(t, testdisk.Filesystems[0].Make)
	db, _ := open(t, filepath.Join(dir, "meta.db"))
	db.allocated, db.reserve = 0, 1<<30
	update := func() {
		t.Helper()
		if err := db.Update(func(tx *Tx) error { return tx.PutVolume(Volume{Name: "v"}) }); err != nil {
			t.Error(err)
		}
	}
	update()
	if db.refused.IsZero() || db.allocated != 0 {
		t.Error("a reserve larger than the disk was allocated")
	}
	db.reserve = 1 << 20
	update()
	if db.allocated != 0 {
		t.Error("the reserve was tried again at once")
	}
	db.refused = db.refused.Add(-reserveRetry)
	update()
	if db.allocated < db.reserve {
		t.Errorf("allocated %d bytes, want at least the reserve", db.allocated)
	}
}
