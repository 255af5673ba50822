package replica

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testtree"
)

// twice runs a test with clones, where the filesystem can, and without.
func twice(t *testing.T, f func(t *testing.T, w *world, r *Replica)) {
	onEach(t, func(t *testing.T, dir string) {
		for name, noClone := range map[string]bool{"clone": false, "copy": true} {
			t.Run(name, func(t *testing.T) {
				w := newWorld(t, filepath.Join(dir, name))
				check(t, os.Mkdir(w.copy, 0o700))
				f(t, w, w.replica(generous, noClone))
			})
		}
	})
}

// TestSparse copies files that are mostly holes, the largest that the filesystem can have.
func TestSparse(t *testing.T) {
	twice(t, func(t *testing.T, w *world, r *Replica) {
		size := int64(math.MaxInt64)
		if os.Truncate(w.lower+"/f0", size) != nil {
			size = 1<<42 - 1024 // of ext4 with blocks of 1 KiB
			check(t, os.Truncate(w.lower+"/f0", size))
		}
		f, err := os.Create(w.merged + "/sparse")
		check(t, err)
		defer f.Close()
		for _, at := range []int64{0, 1 << 30, size - 10} {
			_, err := f.WriteAt([]byte("0123456789"), at)
			check(t, err)
		}
		check(t, os.Truncate(w.merged+"/f1", size)) // copies it up
		result, err := r.pass(t.Context(), true)
		check(t, err)
		if total := result.Copied + result.Cloned; total == 0 || total > 100_000 {
			t.Errorf("%+v", result)
		}
		for _, name := range []string{"sparse", "f1"} {
			var want, got unix.Stat_t
			check(t, unix.Stat(w.upper+"/"+name, &want))
			check(t, unix.Stat(w.copy+"/"+name, &got))
			if got.Size != want.Size || got.Size != size || got.Mtim != want.Mtim {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
		c, err := os.Open(w.copy + "/sparse")
		check(t, err)
		defer c.Close()
		for _, at := range []int64{0, 1 << 30, size - 10} {
			buf := make([]byte, 10)
			if _, err := c.ReadAt(buf, at); string(buf) != "0123456789" {
				t.Errorf("at %d: %q, %v", at, buf, err)
			}
		}
	})
}

// TestGrowing copies a file that grows as long as it is copied.
func TestGrowing(t *testing.T) {
	twice(t, func(t *testing.T, w *world, r *Replica) {
		const size = 8 << 20
		check(t, os.WriteFile(w.merged+"/log", make([]byte, size), 0o600))
		f, err := os.OpenFile(w.merged+"/log", os.O_WRONLY, 0)
		check(t, err)
		defer f.Close()
		var stop atomic.Bool
		var group sync.WaitGroup
		group.Go(func() { // up to 12 MiB, then in place
			for at := int64(size); !stop.Load(); at = min(at+4096, 12<<20) {
				_, _ = f.WriteAt(make([]byte, 4096), at)
			}
		})
		for range 5 {
			result, err := r.pass(t.Context(), true)
			check(t, err)
			if result.Copied > tries*(12<<20+4096) || result.Torn > 0 && result.Cloned > 0 {
				t.Errorf("%+v", result)
			}
		}
		stop.Store(true)
		group.Wait()
		_, err = r.Finish(t.Context())
		check(t, err)
		if d := w.compare(false); len(d) > 0 {
			t.Error(testtree.Show(d))
		}
	})
}

// TestChanging changes a file, as often as changes says, while it is copied.
func TestChanging(t *testing.T) {
	twice(t, func(t *testing.T, w *world, r *Replica) {
		for _, changes := range []int{0, 1, tries - 1, tries} {
			check(t, os.WriteFile(w.merged+"/f", []byte("0"), 0o600))
			n := 0
			r.afterData = func(path string) {
				if path == "f" && n < changes {
					n++
					check(t, os.WriteFile(w.merged+"/f", []byte{'0' + byte(n)}, 0o600))
				}
			}
			result, err := r.pass(t.Context(), true)
			check(t, err)
			want, torn := min(changes, tries-1), int64(0)
			if changes == tries && result.Cloned == 0 {
				torn = 1
			}
			if data, err := os.ReadFile(w.copy + "/f"); string(data) != string('0'+rune(want)) || result.Torn != torn || result.Changed != 1 {
				t.Errorf("%d changes: %q, %v, %+v", changes, data, err, result)
			}
			r.afterData = func(string) {}
			w.finish(r)
			if d := w.compare(false); len(d) > 0 {
				t.Errorf("%d changes: %s", changes, testtree.Show(d))
			}
		}
	})
}

// TestClone checks that a filesystem that can clones all data, also again.
func TestClone(t *testing.T) {
	w := newWorld(t, newDisk(t, testdisk.Filesystems[1].Make))
	check(t, os.WriteFile(w.merged+"/big", make([]byte, 10<<20), 0o600))
	r, result, err := w.start(Options{Limits: Limits{Bytes: 1, Entries: 10, Depth: 1}})
	check(t, err)
	if result.Cloned != 10<<20 || result.Copied != 0 {
		t.Errorf("%+v", result)
	}
	check(t, os.WriteFile(w.merged+"/big", []byte("small"), 0o600))
	if result := w.finish(r); result.Cloned != 5 || result.Copied != 0 || result.Changed != 1 {
		t.Errorf("%+v", result)
	}
}

func TestCancel(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		check(t, os.MkdirAll(w.upper+"/a/b", 0o755))
		check(t, os.WriteFile(w.upper+"/a/file", []byte("x"), 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		check(t, os.Mkdir(w.copy, 0o700))
		_, _, err := Start(ctx, open(t, w.upper), open(t, w.copy), Options{Limits: generous, Skip: func(path string) bool {
			if path == "a/b" {
				cancel()
			}
			return false
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if _, err := os.Lstat(w.copy + "/a/b"); err == nil {
			t.Error("the copy went on")
		}
	})
}
