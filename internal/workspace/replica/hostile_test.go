package replica

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"

	"github.com/helmdeck/repos/tests/testtree"
)

// watch returns a function that reports whether anything opened the path since.
func watch(t *testing.T, path string) (opened func() bool) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	_, err = unix.InotifyAddWatch(fd, path, unix.IN_OPEN|unix.IN_DONT_FOLLOW)
	check(t, err)
	return func() bool {
		var buf [4096]byte
		n, _ := unix.Read(fd, buf[:])
		return n > 0
	}
}

// swapping exchanges two paths, again and again, until stop is called.
func swapping(a, b string) (stop func()) {
	var group sync.WaitGroup
	var done atomic.Bool
	group.Go(func() {
		for !done.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
		}
	})
	return func() { done.Store(true); group.Wait() }
}

// TestSwaps copies while names change their kind: what is outside, FIFOs and devices are never opened.
func TestSwaps(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		outside := filepath.Join(dir, "outside")
		check(t, os.Mkdir(outside, 0o755))
		check(t, os.WriteFile(outside+"/secret", []byte("secret"), 0o600))
		up := func(name string) string { return filepath.Join(w.upper, name) }
		check(t, os.Mkdir(up("dir"), 0o755))
		check(t, os.WriteFile(up("dir/secret"), []byte("own"), 0o600))
		check(t, os.Symlink(outside, up("link")))
		check(t, os.WriteFile(up("file"), []byte("own"), 0o600))
		check(t, os.Symlink(outside+"/secret", up("secret")))
		check(t, os.WriteFile(up("other"), []byte("own"), 0o600))
		check(t, unix.Mkfifo(up("fifo"), 0o600))
		opened := []func() bool{watch(t, outside), watch(t, outside+"/secret"), watch(t, up("fifo"))}
		for _, pair := range [][2]string{{"dir", "link"}, {"file", "secret"}, {"other", "fifo"}} {
			defer swapping(up(pair[0]), up(pair[1]))()
		}
		seen := make(map[string]bool)
		for range 20 {
			r, _ := w.mustStart()
			for range 3 {
				w.finish(r)
				for _, name := range []string{"dir", "file", "other"} {
					if st, err := os.Lstat(filepath.Join(w.copy, name)); err == nil {
						seen[name+st.Mode().Type().String()] = true
					}
				}
				for _, path := range []string{"dir/secret", "link/secret", "file", "secret", "other", "fifo"} {
					if got := readOwn(t, w.copy, path); got != "" && got != "own" {
						t.Fatalf("%s has %q", path, got)
					}
				}
			}
		}
		for i, f := range opened {
			if f() {
				t.Errorf("watch %d: it was opened", i)
			}
		}
		if len(seen) < 4 {
			t.Errorf("no swap was seen: %v", seen)
		}
	})
}

// readOwn returns the content of a regular file below dir that is not behind a link.
func readOwn(t *testing.T, dir, path string) string {
	t.Helper()
	top := open(t, dir)
	defer top.Close()
	f, err := disk.Open(top, path, unix.O_RDONLY)
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	data, err := io.ReadAll(f)
	check(t, err)
	return string(data)
}

// TestLinkDuringWalk replaces a directory by a link after its parent was read.
func TestLinkDuringWalk(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		outside := filepath.Join(dir, "outside")
		check(t, os.MkdirAll(outside+"/in", 0o755))
		check(t, os.MkdirAll(w.upper+"/a/b/in", 0o755))
		opened := watch(t, outside)
		_, result, err := w.start(Options{Limits: generous, Skip: func(path string) bool {
			switch path {
			case "a/b":
				check(t, os.Rename(w.upper+"/a/b", w.upper+"/a/c"))
				check(t, os.Symlink(outside, w.upper+"/a/b"))
			case "a":
				check(t, os.WriteFile(w.upper+"/later", nil, 0o600))
			}
			return false
		}})
		check(t, err)
		if target, err := os.Readlink(w.copy + "/a/b"); target != outside || err != nil {
			t.Errorf("link to %q, %v", target, err)
		}
		if opened() {
			t.Errorf("the walk was led outside: %+v", result)
		}
	})
}

// TestMovedDirectory moves a directory out of the source while it is read: its content is read, by descriptor, and nothing
// beside it.
func TestMovedDirectory(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		outside := filepath.Join(dir, "outside")
		check(t, os.MkdirAll(outside, 0o755))
		check(t, os.WriteFile(outside+"/secret", nil, 0o600))
		check(t, os.MkdirAll(w.upper+"/a/b/c", 0o755))
		check(t, os.WriteFile(w.upper+"/a/z", []byte("z"), 0o600))
		opened := watch(t, outside+"/secret")
		r, result, err := w.start(Options{Limits: generous, Skip: func(path string) bool {
			if path == "a/b/c" {
				check(t, os.Rename(w.upper+"/a", outside+"/a"))
			}
			return false
		}})
		check(t, err)
		if _, err := os.Lstat(w.copy + "/secret"); err == nil || opened() {
			t.Error("the walk was led outside")
		}
		if result.Dirs != 3 || result.Files != 1 {
			t.Errorf("%+v", result)
		}
		w.finish(r)
		if d := w.compare(false); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
	})
}

func TestLimits(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		check(t, os.MkdirAll(w.upper+"/a/b/c", 0o755))
		for i := range 1000 {
			check(t, os.WriteFile(fmt.Sprintf("%s/a/b/%d", w.upper, i), nil, 0o600))
		}
		for i := range 3 {
			check(t, os.WriteFile(fmt.Sprintf("%s/a/big%d", w.upper, i), make([]byte, 1<<20), 0o600))
		}
		for _, tt := range []struct {
			limits Limits
			want   *LimitError
		}{
			{Limits{Bytes: 3 << 20, Entries: 1006, Depth: 3}, nil},
			{Limits{Bytes: 3<<20 - 1, Entries: 1006, Depth: 3}, &LimitError{Bytes, 3<<20 - 1}},
			{Limits{Bytes: 3 << 20, Entries: 1005, Depth: 3}, &LimitError{Entries, 1005}},
			{Limits{Bytes: 3 << 20, Entries: 10, Depth: 3}, &LimitError{Entries, 10}},
			{Limits{Bytes: 3 << 20, Entries: 1006, Depth: 2}, &LimitError{Levels, 2}},
		} {
			check(t, os.RemoveAll(w.copy))
			check(t, os.Mkdir(w.copy, 0o700))
			r := w.replica(tt.limits, true) // clones do not count
			_, err := r.pass(t.Context(), true)
			var got *LimitError
			if errors.As(err, &got); tt.want == nil && err != nil || tt.want != nil && (got == nil || *got != *tt.want) {
				t.Errorf("%+v: %v, want %v", tt.limits, err, tt.want)
			}
			if tt.want == nil {
				// A file that is copied again takes the place of its copy.
				check(t, os.WriteFile(w.upper+"/a/big0", make([]byte, 1<<20), 0o600))
				if _, err := r.Finish(t.Context()); err != nil {
					t.Error(err)
				}
				check(t, os.WriteFile(w.upper+"/a/b/0", []byte("x"), 0o600))
				if _, err := r.Finish(t.Context()); !errors.As(err, &got) || got.Kind != Bytes {
					t.Errorf("a byte more: %v", err)
				}
			}
		}
	})
}

// TestDeepAndLong copies paths that are longer than the kernel takes, with a hard link at both ends.
func TestDeepAndLong(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		name := strings.Repeat("n", 255)
		at := open(t, w.upper)
		check(t, os.WriteFile(w.upper+"/zz", []byte("linked"), 0o600))
		fd, err := unix.Dup(int(at.Fd()))
		check(t, err)
		for range 60 {
			check(t, unix.Mkdirat(fd, name, 0o755))
			next, err := unix.Openat(fd, name, unix.O_PATH, 0)
			check(t, err)
			unix.Close(fd)
			fd = next
		}
		check(t, unix.Linkat(int(at.Fd()), "zz", fd, "a", 0))
		unix.Close(fd)
		r, result := w.mustStart()
		if result.Dirs != 60 || result.Files != 2 {
			t.Errorf("%+v", result)
		}
		st, err := os.Lstat(w.copy + "/zz")
		check(t, err)
		var raw unix.Stat_t
		check(t, unix.Lstat(w.copy+"/zz", &raw))
		if raw.Nlink != 2 || st.Size() != 6 {
			t.Errorf("%d links, %d bytes", raw.Nlink, st.Size())
		}
		check(t, os.Rename(w.upper+"/"+name, w.upper+"/short"))
		if result := w.finish(r); result.Dirs != 60 {
			t.Errorf("%+v", result)
		}
	})
}
