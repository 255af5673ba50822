package meta

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdisk"
)

// On a full disk a database opens, and all of it can be deleted.
func TestFullDisk(t *testing.T) {
	for _, fs := range testdisk.Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			t.Parallel()
			dir := testdisk.Small(t, fs.Make)
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
				t.Fatalf("%d workspaces on the full disk", len(state.Workspaces))
			}
			for i, id := range ids[:1000] {
				if err := db.Update(func(tx *Tx) error {
					if i%2 == 0 {
						return tx.PutWorkspace(Workspace{ID: id, State: Discarded})
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
				t.Fatalf("all at once: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, state := open(t, path); len(state.Workspaces) != 0 {
				t.Errorf("%d workspaces are left", len(state.Workspaces))
			}
		})
	}
}

// A database whose reserve finds no room says so, and has it when there is room.
func TestReserveLater(t *testing.T) {
	t.Parallel()
	dir := testdisk.Small(t, testdisk.Filesystems[0].Make)
	db, _ := open(t, filepath.Join(dir, "meta.db"))
	db.allocated, db.reserve = 0, 1<<30
	if err := db.Reserve(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a reserve larger than the disk: %v", err)
	}
	if err := db.Update(func(tx *Tx) error { return tx.PutVolume(Volume{Name: "v"}) }); err != nil {
		t.Errorf("without a reserve: %v", err)
	}
	db.reserve = minReserve
	if err := db.Reserve(); err != nil || db.allocated < minReserve {
		t.Errorf("allocated %d: %v", db.allocated, err)
	}
}
