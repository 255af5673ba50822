package replica

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testtree"
)

// TestMergeLinks: files become links, also links, FIFOs, sockets and devices. Only what has its data in another upper is
// copied, its names once.
func TestMergeLinks(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		s := newStack(t, filepath.Join(dir, "s"))
		big := strings.Repeat("x", 1<<20)
		uppers := []string{s.add(nil, func(dir string) {
			check(t, os.WriteFile(dir+"/big", []byte(big), 0o644))
			check(t, os.WriteFile(dir+"/changed", []byte(big), 0o644))
			check(t, os.Symlink("target", dir+"/link"))
			check(t, unix.Mkfifo(dir+"/fifo", 0o600))
			check(t, unix.Mknod(dir+"/socket", unix.S_IFSOCK|0o600, 0))
			check(t, unix.Mknod(dir+"/device", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		})}
		uppers = append([]string{s.add(uppers, func(dir string) {
			check(t, os.Chmod(dir+"/changed", 0o4755))
			check(t, unix.Setxattr(dir+"/changed", capabilityAttr, testtree.Capability, 0))
			check(t, os.Link(dir+"/changed", dir+"/another"))
			check(t, os.Rename(dir+"/changed", dir+"/d0/moved"))
			check(t, os.Chmod(dir+"/f0", 0o600)) // its data is below all uppers
			check(t, os.Rename(dir+"/d1", dir+"/d3"))
		})}, uppers...)
		uppers = append([]string{s.add(uppers, func(dir string) {
			check(t, os.Rename(dir+"/f0", dir+"/d3/d0/moved"))
			check(t, os.Rename(dir+"/d3", dir+"/d4"))
			check(t, os.Rename(dir+"/d4/d1", dir+"/d0/d5"))
			check(t, os.RemoveAll(dir+"/d2"))
		})}, uppers...)
		layer, result, err := s.merge(uppers, generous)
		check(t, err)
		if n := result.Copied + result.Cloned; n != int64(len(big)) {
			t.Errorf("%+v, want one copy of %d bytes", result, len(big))
		}
		if d := testtree.Differ(s.shows(uppers), s.shows([]string{layer})); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
		for _, name := range []string{"big", "link", "fifo", "socket", "device"} {
			from, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(uppers[2], name))
			check(t, err)
			to, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(layer, name))
			check(t, err)
			if from.Ino != to.Ino {
				t.Errorf("%s is no link", name)
			}
		}
		a, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(layer, "another"))
		check(t, err)
		b, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(layer, "d0/moved"))
		check(t, err)
		if a.Ino != b.Ino {
			t.Error("two names of a file are two files")
		}
	})
}

// TestMergeCopies: what can't be linked is copied: a file that may not be, and one with all links that it can have.
func TestMergeCopies(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		s := newStack(t, filepath.Join(dir, "s"))
		lower := s.add(nil, func(dir string) {
			check(t, os.WriteFile(dir+"/fixed", []byte("fixed"), 0o644))
			check(t, os.Symlink("target", dir+"/linked"))
		})
		upper := s.add([]string{lower}, func(string) {})
		s.n++
		for i := range 65_000 { // ext4 allows no more
			if err := os.Link(lower+"/linked", filepath.Join(s.dir, fmt.Sprint("x", i))); errors.Is(err, unix.EMLINK) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
		setFlags(t, lower+"/fixed", unix.STATX_ATTR_IMMUTABLE)
		defer setFlags(t, lower+"/fixed", 0)
		uppers := []string{upper, lower}
		layer, _, err := s.merge(uppers, generous)
		check(t, err)
		if d := testtree.Differ(s.shows(uppers), s.shows([]string{layer})); len(d) > 0 {
			t.Fatal(testtree.Show(d))
		}
		_, result, err := s.merge(uppers, Limits{Bytes: 3, Entries: 1000, Depth: 10})
		if limit, ok := errors.AsType[*LimitError](err); (!ok || limit.Kind != Bytes) && result.Cloned == 0 {
			t.Errorf("with 3 bytes: %v", err)
		}
	})
}

func setFlags(t *testing.T, path string, flags int) {
	t.Helper()
	f, err := os.Open(path)
	check(t, err)
	defer f.Close()
	check(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags))
}

// TestMergeRefuses: what it can't merge for sure, and what is too much.
func TestMergeRefuses(t *testing.T) {
	s := newStack(t, testdir.New(t, "merge"))
	deep := strings.TrimSuffix(strings.Repeat("d/", 20), "/")
	set := func(path, name, value string) func(dir string) error {
		return func(dir string) error { return unix.Lsetxattr(filepath.Join(dir, path), name, []byte(value), 0) }
	}
	for _, tt := range []struct {
		name   string
		do     func(upper string) error
		limits Limits
		want   string
	}{
		{"whiteouts that are attributes", set("a", upfile.OpaqueAttr, "x"), generous, "whiteouts that are attributes"},
		{"a redirect with a slash", set("a", upfile.RedirectAttr, "b/c"), generous, `redirect "b/c" is none`},
		{"a redirect to the top", set("a", upfile.RedirectAttr, "/"), generous, `redirect "/" is none`},
		{"an empty name in a redirect", set("a", upfile.RedirectAttr, "/b//c"), generous, "is none"},
		{"no data", func(dir string) error {
			return errors.Join(set("file", upfile.MetacopyAttr, "")(dir), set("file", upfile.RedirectAttr, "/gone/x")(dir))
		}, generous, "no layer has its data"},
		{"names", nil, Limits{Bytes: 1, Entries: 3, Depth: 100}, "at most 3 files and directories"},
		{"levels", nil, Limits{Bytes: 1, Entries: 100, Depth: 19}, "at most 19 levels"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lower := s.add(nil, func(dir string) { check(t, os.Mkdir(dir+"/gone", 0o755)) })
			check(t, unix.Lsetxattr(lower+"/gone", upfile.OpaqueAttr, []byte("y"), 0))
			upper := s.add([]string{lower}, func(dir string) {
				check(t, os.MkdirAll(filepath.Join(dir, deep), 0o755))
				check(t, os.Mkdir(dir+"/a", 0o755))
				check(t, os.WriteFile(dir+"/file", nil, 0o644))
			})
			if tt.do != nil {
				check(t, unix.Lremovexattr(upper+"/a", upfile.OpaqueAttr))
				check(t, tt.do(upper))
			}
			_, _, err := s.merge([]string{upper, lower}, tt.limits)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
