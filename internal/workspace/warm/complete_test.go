package warm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// small makes the disk, as far as promotions ask how much of it is free, one of so many bytes.
func (w *world) small(bytes int) {
	w.t.Helper()
	dir := filepath.Join(w.root, "small")
	w.mkdir(dir)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			w.t.Error(err)
		}
	})
	w.m.config.Root = dir
}

// chmodAll changes only the modes of the files in a directory of the workspace.
func (s *session) chmodAll(rel string) {
	s.t.Helper()
	for _, f := range list(s.t, filepath.Join(s.dir, rel)) {
		name, _, _ := strings.Cut(f, "=")
		if err := os.Chmod(filepath.Join(s.dir, rel, name), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
}

// copied returns how many files in a directory of the upper have data of their own.
func (s *session) copied(rel string) (n int) {
	s.t.Helper()
	for _, f := range list(s.t, filepath.Join(s.Upper, rel)) {
		name, _, _ := strings.Cut(f, "=")
		_, stub, err := upfile.Attribute(filepath.Join(s.Upper, rel, name), upfile.MetacopyAttr)
		if err != nil {
			s.t.Fatal(err)
		}
		if !stub {
			n++
		}
	}
	return n
}

// TestRoom checks that all paths of a promotion together copy no more than a quarter of what is free, and that a path for
// which that is too little is not carried over.
func TestRoom(t *testing.T) {
	t.Parallel()
	const size = 200 << 10
	w := newWorld(t)
	want := w.want("a", "b", "c")
	w.run(want, func(s *session) {
		for _, path := range want.Paths {
			s.write(path+"/big", strings.Repeat("x", size))
		}
	})
	w.small(4 * 2 * size) // a 64th of it is not to be used: there is room for one file
	s := w.open(want)
	for _, path := range want.Paths {
		s.chmodAll(path)
	}
	s.write("c/big", "c") // has data
	s.end()
	if got := s.copied("b"); got != 0 {
		t.Errorf("%d files of b were copied", got)
	}
	next := w.open(want)
	defer next.end()
	for i, layers := range []int{2, 1, 2} {
		if got := len(next.Paths[i].Chain); got != layers {
			t.Errorf("%s has %d layers, want %d", want.Paths[i], got, layers)
		}
	}
	next.has("a", "big="+strings.Repeat("x", size))
	next.has("c", "big=c")
}

// TestOneCopies checks that of workspaces that end together, of which one can move the head, one copies.
func TestOneCopies(t *testing.T) {
	t.Parallel()
	const files = 50
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) {
		for i := range files {
			s.write(fmt.Sprint("nm/", i), strings.Repeat("x", 100_000))
		}
	})
	var sessions []*session
	for range 8 {
		s := w.open(nm)
		s.chmodAll("nm")
		detach(t, s.dir)
		sessions = append(sessions, s)
	}
	var group sync.WaitGroup
	for _, s := range sessions {
		group.Go(func() {
			if err := w.m.Promote(t.Context(), s.Ended); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	lost := 0
	for _, s := range sessions {
		w.m.Drop(cloneKey, s.Paths)
		if _, err := os.Stat(filepath.Join(s.Upper, "nm")); err != nil {
			continue // it is a layer
		}
		lost++
		if got := s.copied("nm"); got != 0 {
			t.Errorf("%d files were copied for a workspace that did not move the head", got)
		}
	}
	if got := len(w.chain()); got != 2 || lost != len(sessions)-1 {
		t.Errorf("%d layers, %d workspaces were too late", got, lost)
	}
}
