package meta

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"go.etcd.io/bbolt"
)

// commits returns the number of the last commit.
func commits(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.bolt.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// behind runs fs as updates that all wait while another change is committed, and returns their
// errors.
func behind(t *testing.T, db *DB, fs ...func(*Tx) error) []error {
	t.Helper()
	var wg sync.WaitGroup
	begun, release := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		if err := db.Update(func(*Tx) error { close(begun); <-release; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-begun
	errs := make([]error, len(fs))
	for i, f := range fs {
		wg.Go(func() {
			defer func() {
				if r := recover(); r != nil {
					errs[i] = fmt.Errorf("panic: %v", r)
				}
			}()
			errs[i] = db.Update(f)
		})
	}
	for waiting := 0; waiting < len(fs); {
		db.mu.Lock()
		waiting = len(db.waiting)
		db.mu.Unlock()
	}
	close(release)
	wg.Wait()
	return errs
}

func TestUpdatesShareACommit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "meta.db")
	db, _ := open(t, path)
	before := commits(t, db)
	var fs []func(*Tx) error
	for i := range 64 {
		fs = append(fs, func(tx *Tx) error { return tx.PutVolume(Volume{Name: fmt.Sprint(i)}) })
	}
	for i, err := range behind(t, db, fs...) {
		if err != nil {
			t.Errorf("update %d: %v", i, err)
		}
	}
	if got := commits(t, db) - before; got != 2 {
		t.Errorf("%d commits for 65 changes, want 2", got)
	}
	db.Close()
	if _, state := open(t, path); len(state.Volumes) != 64 {
		t.Errorf("%d volumes, want 64", len(state.Volumes))
	}
}

// TestUpdateFailsAlone checks that a failed update does not affect others in the same commit.
func TestUpdateFailsAlone(t *testing.T) {
	t.Parallel()
	db, _ := open(t, filepath.Join(t.TempDir(), "meta.db"))
	refused := errors.New("refused")
	put := func(name string, err error) func(*Tx) error {
		return func(tx *Tx) error { return errors.Join(tx.PutVolume(Volume{Name: name}), err) }
	}
	errs := behind(t, db, put("a", nil), put("b", refused), put("c", nil), func(tx *Tx) error { panic("of its own") })
	if errs[0] != nil || !errors.Is(errs[1], refused) || errs[2] != nil || errs[3] == nil || errs[3].Error() != "panic: of its own" {
		t.Errorf("errors %v", errs)
	}
	state, err := db.load()
	if _, b := state.Volumes["b"]; err != nil || len(state.Volumes) != 2 || b {
		t.Errorf("volumes %v, %v", state.Volumes, err)
	}
	if err := db.Update(put("d", refused)); !errors.Is(err, refused) {
		t.Errorf("an update that fails alone: %v", err)
	}
}

func BenchmarkUpdate(b *testing.B) {
	for _, n := range []int{1, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			db, _, err := Open(filepath.Join(b.TempDir(), "meta.db"))
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			for b.Loop() {
				var wg sync.WaitGroup
				for i := range n {
					wg.Go(func() {
						if err := db.Update(func(tx *Tx) error { return tx.PutWorkspace(Workspace{ID: fmt.Sprint(i)}) }); err != nil {
							b.Error(err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}
