package replica

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testtree"
	"github.com/helmdeck/repos/tests/wait"
)

var generous = Limits{Bytes: 1 << 30, Entries: 1 << 20, Depth: 256}

// onEach runs a test on each filesystem, whose image is in memory, because each copy syncs it.
func onEach(t *testing.T, f func(t *testing.T, dir string)) {
	for _, fs := range testdisk.Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			t.Parallel()
			f(t, newDisk(t, fs.Make))
		})
	}
}

func newDisk(t testing.TB, make func(dir string) error) string {
	t.Helper()
	base, err := os.MkdirTemp("/dev/shm", "replica")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, os.RemoveAll(base)) })
	dir := filepath.Join(base, "disk")
	check(t, make(dir))
	t.Cleanup(func() { check(t, testdisk.Eject(wait.Of(t), dir)) })
	return dir
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// world is an overlay of the kind that workspaces are.
type world struct {
	t                               *testing.T
	dir, lower, upper, merged, copy string
}

// newWorld mounts an overlay in the new directory dir.
func newWorld(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{t: t, dir: dir, lower: dir + "/lower", upper: dir + "/upper", merged: dir + "/merged", copy: dir + "/copy"}
	for _, d := range []string{w.lower, w.upper, dir + "/work", w.merged} {
		check(t, os.MkdirAll(d, 0o755))
	}
	w.fill()
	w.mount(overlay.Spec{Lower: []string{w.lower}, Upper: w.upper, Work: dir + "/work", Target: w.merged})
	return w
}

// fill makes the lower layer.
func (w *world) fill() {
	for i := range 3 {
		for j := range 3 {
			dir := filepath.Join(w.lower, fmt.Sprintf("d%d/d%d", i, j))
			check(w.t, os.MkdirAll(dir, 0o755))
			for k := range 4 {
				path := filepath.Join(dir, fmt.Sprintf("f%d", k))
				check(w.t, os.WriteFile(path, make([]byte, 100+3000*k), 0o644))
				check(w.t, os.WriteFile(path, []byte(path), 0o644))
			}
		}
		check(w.t, os.Symlink("target", filepath.Join(w.lower, fmt.Sprintf("l%d", i))))
		check(w.t, os.WriteFile(filepath.Join(w.lower, fmt.Sprintf("f%d", i)), make([]byte, 9000), 0o644))
	}
}

// mount mounts an overlay as the plugin does, and returns a function that unmounts it, at the latest called at the end.
func (w *world) mount(s overlay.Spec) (unmount func()) {
	w.t.Helper()
	s.Source, s.Volatile, s.Metacopy = "test", true, true
	check(w.t, overlay.Mount(s))
	mounted := true
	unmount = func() {
		if !mounted {
			return
		}
		mounted = false
		release, err := overlay.Detach(s.Target)
		if err == nil {
			err = release()
		}
		if err != nil {
			w.t.Errorf("unmount: %v", err)
		}
	}
	w.t.Cleanup(unmount)
	return unmount
}

// start starts a copy, into a new directory.
func (w *world) start(o Options) (*Replica, Result, error) {
	w.t.Helper()
	check(w.t, os.RemoveAll(w.copy))
	check(w.t, os.Mkdir(w.copy, 0o700))
	return Start(context.Background(), open(w.t, w.upper), open(w.t, w.copy), o)
}

// mustStart is start with generous limits.
func (w *world) mustStart() (*Replica, Result) {
	w.t.Helper()
	r, result, err := w.start(Options{Limits: generous})
	check(w.t, err)
	return r, result
}

// replica returns a Replica that has not made its first pass. Its destination exists.
func (w *world) replica(limits Limits, noClone bool) *Replica {
	r := &Replica{src: open(w.t, w.upper), dst: open(w.t, w.copy), options: Options{Limits: limits}, afterData: func(string) {}}
	r.noClone.Store(noClone)
	return r
}

func (w *world) finish(r *Replica) Result {
	w.t.Helper()
	result, err := r.Finish(context.Background())
	check(w.t, err)
	return result
}

// open opens a directory as a path only, until the end of the test.
func open(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// compare compares the copy with the upper, and then mounts it, as a lower layer or as an upper, and compares that with
// the overlay. Nobody may write meanwhile.
func (w *world) compare(asUpper bool) (differences []string) {
	w.t.Helper()
	if d := testtree.Differ(testtree.Describe(w.t, w.upper, true), testtree.Describe(w.t, w.copy, true)); len(d) > 0 {
		return append([]string{"upper:"}, d...)
	}
	fork := filepath.Join(w.dir, "fork")
	check(w.t, os.RemoveAll(fork))
	s := overlay.Spec{Lower: []string{w.copy, w.lower}, Upper: fork + "/upper", Work: fork + "/work", Target: fork + "/merged"}
	for _, d := range []string{s.Upper, s.Work, s.Target} {
		check(w.t, os.MkdirAll(d, 0o755))
	}
	if asUpper {
		s.Lower, s.Upper = s.Lower[1:], w.copy
	}
	defer w.mount(s)()
	want, got := testtree.Describe(w.t, w.merged, false), testtree.Describe(w.t, s.Target, false)
	if !asUpper { // the root that is shown is that of the fork's own upper
		delete(want, ".")
		delete(got, ".")
	}
	return testtree.Differ(want, got)
}
