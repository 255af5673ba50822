package warm

import (
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
)

// TestHostile checks that a container can't promote anything that must not be a layer: the
// head does not move, what the container left stays in its upper, and nothing outside of that changes.
func TestHostile(t *testing.T) {
	t.Parallel()
	attr := func(s *session, rel, name, value string) {
		s.t.Helper()
		if err := unix.Lsetxattr(filepath.Join(s.Upper, rel), name, []byte(value), 0); err != nil {
			s.t.Fatal(err)
		}
	}
	must := func(s *session, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name   string
		inside func(s *session) // while it is mounted
		after  func(s *session)
		keeps  string // a file of the upper afterwards
	}{
		{name: "a link", keeps: "web/nm->/evil",
			inside: func(s *session) {
				must(s, os.RemoveAll(filepath.Join(s.dir, "web/nm")))
				must(s, os.Symlink("/evil", filepath.Join(s.dir, "web/nm")))
			}},
		{name: "a link to a directory of its own", keeps: "web/nm->../evil",
			inside: func(s *session) {
				s.write("evil/x", "x")
				s.remove("web/nm")
				must(s, os.Symlink("../evil", filepath.Join(s.dir, "web/nm")))
			}},
		{name: "its parent is a link", keeps: "web->evil",
			inside: func(s *session) {
				s.write("evil/nm/x", "x")
				s.remove("web")
				must(s, os.Symlink("evil", filepath.Join(s.dir, "web")))
			}},
		{name: "its parent is a link to the data", keeps: "evil/x=mine",
			inside: func(s *session) {
				s.remove("web")
				s.write("evil/x", "mine")
				must(s, os.Symlink(filepath.Join(s.root, "evil"), filepath.Join(s.dir, "web")))
			}},
		{name: "a file", keeps: "web/nm=file",
			inside: func(s *session) { s.remove("web/nm"); s.write("web/nm", "file") }},
		{name: "a FIFO", keeps: "web/nm",
			inside: func(s *session) { s.remove("web/nm"); must(s, unix.Mkfifo(filepath.Join(s.dir, "web/nm"), 0o600)) }},
		{name: "a hard link to the outside", keeps: "twin=x",
			inside: func(s *session) {
				s.write("web/nm/deep/x", "x")
				must(s, os.Link(filepath.Join(s.dir, "web/nm/deep/x"), filepath.Join(s.dir, "twin")))
			}},
		{name: "a hard link from a link", keeps: "twin->x",
			inside: func(s *session) {
				must(s, os.Symlink("x", filepath.Join(s.dir, "web/nm/link")))
				must(s, unix.Linkat(unix.AT_FDCWD, filepath.Join(s.dir, "web/nm/link"), unix.AT_FDCWD, filepath.Join(s.dir, "twin"), 0))
			}},
		{name: "a device",
			inside: func(s *session) {
				s.mkdir(filepath.Join(s.dir, "web/nm/dev"))
				must(s, unix.Mknod(filepath.Join(s.dir, "web/nm/dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
			}},
		{name: "a disk",
			inside: func(s *session) {
				must(s, unix.Mknod(filepath.Join(s.dir, "web/nm/disk"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 0))))
			}},
		{name: "too deep",
			inside: func(s *session) { s.write("web/nm"+strings.Repeat("/d", maxDepth+1)+"/x", "x") }},
		{name: "a directory that was renamed",
			inside: func(s *session) {
				must(s, os.Rename(filepath.Join(s.dir, "web/nm/pkg"), filepath.Join(s.dir, "web/nm/moved")))
			}},
		{name: "a directory of the tree",
			inside: func(s *session) {
				must(s, os.Rename(filepath.Join(s.dir, "src"), filepath.Join(s.dir, "web/nm/src")))
			}},
		{name: "a parent that was renamed to", keeps: "web/nm/x=evil",
			inside: func(s *session) {
				s.remove("web")
				must(s, os.Rename(filepath.Join(s.dir, "src"), filepath.Join(s.dir, "web")))
				s.write("web/nm/x", "evil")
			}},
		{name: "redirects by an attribute",
			inside: func(s *session) { s.write("web/nm/d/x", "x") },
			after:  func(s *session) { attr(s, "web/nm/d", upfile.RedirectAttr, "/.git") }},
		{name: "metacopy by an attribute",
			inside: func(s *session) { s.write("web/nm/x", "x") },
			after:  func(s *session) { attr(s, "web/nm/x", upfile.MetacopyAttr, "") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.write(filepath.Join(w.tree, "src/code"), "tree")
			w.write(filepath.Join(w.root, "evil/nm/x"), "x")
			nm := w.want("web/nm")
			w.run(nm, func(s *session) { s.write("web/nm/pkg/a", "good") })
			s := w.open(nm)
			tt.inside(s)
			detach(t, s.dir)
			if tt.after != nil {
				tt.after(s)
			}
			before := inodes(t, s.Upper)
			if err := w.m.Promote(t.Context(), s.Ended); err != nil {
				t.Error(err)
			}
			w.m.Drop(cloneKey, s.Paths)
			w.sees(nm, "web", "nm/pkg/a=good", "package.json=tree")
			if got := len(w.layers()); got != 1 {
				t.Errorf("%d layers", got)
			}
			if got := list(t, s.Upper); tt.keeps != "" && !slices.Contains(got, tt.keeps) {
				t.Errorf("the upper has %q, want %q among them", got, tt.keeps)
			}
			if got := inodes(t, s.Upper); !maps.Equal(got, before) {
				t.Errorf("the upper has %v, want what the container left, %v", got, before)
			}
			if got := list(t, filepath.Join(w.root, "evil")); !slices.Equal(got, []string{"nm/x=x"}) {
				t.Errorf("the directory outside has %q", got)
			}
		})
	}
}

// inodes returns all that a directory has, by path.
func inodes(t *testing.T, dir string) map[string]uint64 {
	t.Helper()
	found := make(map[string]uint64)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := upfile.Stat(unix.AT_FDCWD, path)
		found[path] = st.Ino
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestUnusualFiles checks that unusual but harmless files are carried over unchanged.
func TestUnusualFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w.run(nm, func(s *session) {
		s.write("nm/closed/inner/x", "x")
		must(os.Chmod(filepath.Join(s.dir, "nm/closed/inner"), 0))
		must(os.Chmod(filepath.Join(s.dir, "nm/closed"), 0))
		s.write("nm/suid", "s")
		must(os.Chown(filepath.Join(s.dir, "nm/suid"), user, user)) // or the layer has no setuid bit
		must(os.Chmod(filepath.Join(s.dir, "nm/suid"), 0o4755|os.ModeSetuid))
		s.write("nm/one", "linked")
		must(os.Link(filepath.Join(s.dir, "nm/one"), filepath.Join(s.dir, "nm/closed/two")))
		must(os.Symlink("/etc/passwd", filepath.Join(s.dir, "nm/link")))
		must(unix.Mkfifo(filepath.Join(s.dir, "nm/fifo"), 0o600))
		l, err := net.Listen("unix", filepath.Join(s.dir, "nm/sock"))
		must(err)
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		must(l.Close())
		s.write("nm"+strings.Repeat("/d", maxDepth-1)+"/deep", "d")
		must(os.Chown(filepath.Join(s.dir, "nm/one"), 7, 8))
		s.write(".hidden", "h")
	})
	w.run(nm, func(s *session) {
		deep := strings.Repeat("d/", maxDepth-1) + "deep=d"
		s.has("nm", "closed/inner/x=x", "closed/two=linked", deep, "fifo", "link->/etc/passwd", "one=linked", "sock", "suid=s")
		if info, err := os.Stat(filepath.Join(s.dir, "nm/closed")); err != nil || info.Mode().Perm() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		if st, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(s.dir, "nm/suid")); err != nil || st.Mode&unix.S_ISUID == 0 {
			t.Errorf("mode %o, %v", st.Mode, err)
		}
	})
}
