package clone

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// TestStoreLostAndRefsChanged checks that a Mount clones a store again whose directory is gone, or whose refs and packs
// are damaged, also if the remote has deleted another branch, so that the store's refs are looked at first.
func TestStoreLostAndRefsChanged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(store string) error{
		"gone": os.RemoveAll,
		"damaged": func(store string) error {
			packs, err := filepath.Glob(filepath.Join(store, "objects/pack/*"))
			for _, path := range append(packs, filepath.Join(store, "packed-refs")) {
				if err == nil {
					err = os.Truncate(path, 0)
				}
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main")
			w.prepare(s).Release()
			c := w.clone(s)
			w.idle(c)
			if err := damage(c.remote.StoreDir("full")); err != nil {
				t.Fatal(err)
			}
			w.remote("update-ref", "-d", "refs/heads/feature/x")
			for range 2 {
				w.prepare(s).Release()
			}
		})
	}
}

// TestDeletedDuringFetch checks that a Mount does not wait for a fetch of other refs, which holds the store's lock, if
// another branch is deleted meanwhile.
func TestDeletedDuringFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	g := w.fetchingOthers(s)
	defer close(g.open)
	w.remote("update-ref", "-d", "refs/heads/feature/x")
	ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t)) // it ends at once or never
	defer cancel()
	co, err := w.clone(s).Prepare(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	co.Release()
}
