package replica

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testtree"
)

// mapped maps a new file of the overlay.
func (w *world) mapped(name string) []byte {
	w.t.Helper()
	f, err := os.Create(w.merged + "/" + name)
	check(w.t, err)
	defer f.Close()
	check(w.t, f.Truncate(100_000))
	m, err := unix.Mmap(int(f.Fd()), 0, 100_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(w.t, err)
	w.t.Cleanup(func() { check(w.t, unix.Munmap(m)) })
	return m
}

// TestStoresBetweenPasses stores into shared mappings before, during and after the first pass, on the same page, so that
// only the first store after a write of the page changes the ctime.
func TestStoresBetweenPasses(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		before, during := w.mapped("before"), w.mapped("during")
		before[5] = 1
		during[5] = 1
		r, _, err := w.start(Options{Limits: generous, Skip: func(path string) bool {
			if path == "during" { // after the sync of the filesystem, and before the copy
				during[5] = 2
			}
			return false
		}})
		check(t, err)
		before[6], during[6] = 3, 3
		if result := w.finish(r); result.Changed == 0 {
			t.Errorf("%+v", result)
		}
		if d := w.compare(false); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
	})
}

// TestStoresAfterSettling is TestStoresBetweenPasses with ctimes that the first pass takes for good, because they are old.
func TestStoresAfterSettling(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		m := w.mapped("f")
		r, _ := w.mustStart()
		m[5] = 1 // dirty from now on
		w.finish(r)
		for r.find("f").ctime == 0 { // waits until the ctime of the last store is old
			if _, err := r.pass(t.Context(), true); err != nil {
				t.Fatal(err)
			}
		}
		if result := w.finish(r); result.Changed != 0 {
			t.Errorf("nothing changed, but %+v", result)
		}
		m[6] = 1
		if result := w.finish(r); result.Changed != 1 {
			t.Errorf("a store changed %+v", result)
		}
		if d := w.compare(false); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
	})
}

// TestStoresAfterFinish stores into a mapping after a last pass, which cleans no pages, and makes another one.
func TestStoresAfterFinish(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		m := w.mapped("f")
		r, _ := w.mustStart()
		m[5] = 1
		for start := time.Now(); time.Since(start) < 2*settled; { // the ctime gets old
			w.finish(r)
		}
		m[6] = 1
		w.finish(r)
		if d := w.compare(false); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
	})
}

// find returns the entry of a name at the top.
func (r *Replica) find(name string) *entry {
	for i := range r.top.table.entries {
		if e := &r.top.table.entries[i]; e.name == name {
			return e
		}
	}
	return &entry{}
}
