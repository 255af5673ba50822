package replica

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testtree"
)

// TestMetadata has each kind of metadata once, by name.
func TestMetadata(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		acl := testtree.NewWriter("", "", 1).ACL()
		in := func(name string) string { return filepath.Join(w.upper, name) }
		check(t, os.Mkdir(in("acl"), 0o700))
		check(t, os.Mkdir(in("acl/plain"), 0o700)) // made before, so it inherits nothing
		check(t, os.WriteFile(in("acl/file"), []byte("x"), 0o600))
		check(t, os.Symlink("x", in("acl/link")))
		check(t, unix.Setxattr(in("acl"), "system.posix_acl_default", acl, 0))
		check(t, os.WriteFile(in("setuid"), []byte("x"), 0o600))
		check(t, os.Chown(in("setuid"), 1000, 1001))
		check(t, unix.Setxattr(in("setuid"), capabilityAttr, testtree.Capability, 0))
		check(t, unix.Chmod(in("setuid"), 0o6711))
		check(t, unix.Lsetxattr(in("acl/link"), "trusted.x", []byte("of a link"), 0))
		check(t, unix.Mknod(in("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
		check(t, unix.Mknod(in("whiteout"), unix.S_IFCHR, 0))
		check(t, unix.Mkfifo(in("new\nline \xff"), 0o640))
		check(t, unix.Setxattr(w.upper, "trusted.overlay.opaque", []byte("y"), 0))
		check(t, unix.Setxattr(w.upper, "system.posix_acl_access", acl, 0))
		check(t, unix.Setxattr(w.upper, "system.posix_acl_default", acl, 0))
		check(t, unix.Setxattr(w.upper, "user.large", bytes.Repeat([]byte{1}, 200), 0))
		check(t, os.Chown(w.upper, 7, 8))
		check(t, unix.Chmod(w.upper, 0o3751))
		check(t, os.Symlink("x", in("dir-later")))
		times := []unix.Timespec{{Sec: 1, Nsec: 23}, {Sec: 4_000_000_000, Nsec: 567_890_123}}
		for _, name := range []string{"acl/link", "acl", "setuid", "."} {
			check(t, unix.UtimesNanoAt(unix.AT_FDCWD, in(name), times, unix.AT_SYMLINK_NOFOLLOW))
		}
		r, _ := w.mustStart()
		same := func(when string) {
			t.Helper()
			if d := testtree.Differ(testtree.Describe(t, w.upper, true), testtree.Describe(t, w.copy, true)); len(d) > 0 {
				t.Errorf("%s: %s", when, testtree.Show(d))
			}
		}
		for _, name := range []string{"acl/link", "setuid", "."} {
			var st unix.Stat_t
			check(t, unix.Lstat(filepath.Join(w.copy, name), &st))
			if st.Atim != times[0] || st.Mtim != times[1] {
				t.Errorf("%s: times %v %v", name, st.Atim, st.Mtim)
			}
		}
		same("first pass")
		// Now the copy has directories from which new files inherit.
		check(t, os.WriteFile(in("acl/file"), []byte("y"), 0o600))
		check(t, os.Mkdir(in("acl/sub"), 0o700))
		check(t, unix.Removexattr(in("acl/sub"), "system.posix_acl_default"))
		check(t, unix.Removexattr(w.upper, "user.large"))
		check(t, os.Remove(in("dir-later")))
		check(t, os.MkdirAll(in("dir-later/x"), 0o700))
		check(t, os.Remove(in("acl/plain")))
		check(t, os.WriteFile(in("acl/plain"), nil, 0o600))
		w.finish(r)
		same("second pass")
	})
}

func TestOptions(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		check(t, os.MkdirAll(w.upper+"/.git/hdcache/x", 0o755))
		check(t, os.WriteFile(w.upper+"/.git/HEAD", []byte("x"), 0o600))
		check(t, unix.Setxattr(w.upper, uuidAttr, make([]byte, 16), 0))
		check(t, unix.Setxattr(w.upper, originAttr, make([]byte, 16), 0))
		check(t, unix.Setxattr(w.upper+"/.git/HEAD", originAttr, make([]byte, 16), 0)) // of a file that was copied up
		r, result, err := w.start(Options{Limits: generous, Untied: true, Skip: func(path string) bool { return path == ".git/hdcache" }})
		check(t, err)
		for range 2 {
			if result.Skipped != 1 || result.Files != 1 || result.Dirs != 1 {
				t.Errorf("%+v", result)
			}
			if _, err := os.Lstat(w.copy + "/.git/hdcache"); !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
			for _, name := range []string{uuidAttr, originAttr} {
				if _, err := unix.Getxattr(w.copy, name, nil); !errors.Is(err, unix.ENODATA) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if _, err := unix.Getxattr(w.copy+"/.git/HEAD", originAttr, nil); err != nil {
				t.Error(err)
			}
			check(t, os.WriteFile(w.upper+"/.git/HEAD", []byte("y"), 0o600))
			check(t, os.Chmod(w.upper, 0o700))
			result = w.finish(r)
		}
		if _, _, err := Start(context.Background(), open(t, w.upper), open(t, w.copy), Options{Limits: generous}); !errors.Is(err, unix.ENOTEMPTY) {
			t.Errorf("a copy into a directory with files: %v", err)
		}
	})
}

// TestLinks checks that an inode stays one, also if its names change between the passes and are in directories that were
// renamed, which does not change it.
func TestLinks(t *testing.T) {
	onEach(t, func(t *testing.T, dir string) {
		w := newWorld(t, dir)
		in := func(name string) string { return filepath.Join(w.upper, name) }
		for _, d := range []string{"a", "b/c", "m"} {
			check(t, os.MkdirAll(in(d), 0o755))
		}
		check(t, os.WriteFile(in("m/1"), []byte("linked"), 0o600))
		for _, name := range []string{"a/1", "b/2", "b/c/3", "z"} {
			check(t, os.Link(in("m/1"), in(name)))
		}
		check(t, os.Symlink("x", in("m/link")))
		check(t, os.Link(in("m/link"), in("a/link")))
		r, result := w.mustStart()
		if result.Copied+result.Cloned != 6 {
			t.Errorf("%+v", result)
		}
		for _, step := range []func() error{
			func() error { return nil },
			func() error { return os.Rename(in("b/c"), in("0")) },
			func() error { return os.Rename(in("m"), in("a/m")) },
			func() error { return os.WriteFile(in("z"), []byte("changed"), 0o600) },
			func() error { return os.Remove(in("z")) },
			func() error { return os.Rename(in("a/1"), in("zz")) },
			func() error { return os.RemoveAll(in("a")) },
			func() error { return os.Remove(in("zz")) },
			func() error { return os.Remove(in("b/2")) },
		} {
			check(t, step())
			w.finish(r)
			if d := testtree.Differ(testtree.Describe(t, w.upper, true), testtree.Describe(t, w.copy, true)); len(d) > 0 {
				t.Fatal(testtree.Show(d))
			}
		}
	})
}
