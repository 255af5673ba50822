package warm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/sirupsen/logrus/hooks/test"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// owned lists the files and directories below dir that do not belong to user and group user, with their owner.
func owned(t *testing.T, dir string) (list []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeCharDevice != 0 {
			return err
		}
		if uid, gid := testdir.Owner(t, path); uid != user || gid != user {
			list = append(list, fmt.Sprintf("%s %d:%d", strings.TrimPrefix(path, dir+"/"), uid, gid))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestRootsFiles: what root has written into a warm directory belongs to the volume's user in the layer, and nothing else of
// it changes.
func TestRootsFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := w.want("nm")
	old := time.Unix(1_500_000_000, 5)
	w.run(want, func(s *session) { // as root, like all of this test
		s.write("nm/a/x", "x")
		s.write("nm/gone", "x")
		s.write("nm/setuid", "x")
		s.write("nm/secret", "x")
		nm := filepath.Join(s.dir, "nm")
		for _, err := range []error{
			os.Chmod(nm+"/setuid", 0o755|os.ModeSetuid), os.Chmod(nm+"/secret", 0o600),
			os.Link(nm+"/a/x", nm+"/twin"), os.Symlink("/etc/passwd", nm+"/link"), unix.Mkfifo(nm+"/fifo", 0o600),
			os.Chtimes(nm+"/a/x", old, old),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	w.run(want, func(s *session) { s.remove("nm/gone"); s.write("nm/b", "x") })
	chain := w.chain()
	if len(chain) != 2 {
		t.Fatalf("chain %q", chain)
	}
	for _, id := range chain {
		if got := owned(t, filepath.Join(w.filesOf(id), "nm")); len(got) > 0 {
			t.Errorf("in layer %s these belong to others: %q", id, got)
		}
	}
	if uid, gid := testdir.Owner(t, "/etc/passwd"); uid != 0 || gid != 0 {
		t.Errorf("/etc/passwd belongs to %d:%d", uid, gid)
	}
	w.run(want, func(s *session) {
		s.has("nm", "a/x=x", "b=x", "fifo", "link->/etc/passwd", "secret=x", "setuid=x", "twin=x")
		for name, mode := range map[string]fs.FileMode{"setuid": 0o755, "secret": 0o600, "a/x": 0o644} {
			info, err := os.Lstat(filepath.Join(s.dir, "nm", name))
			if err != nil || info.Mode() != mode {
				t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, mode)
			}
			if name == "a/x" && !info.ModTime().Equal(old) {
				t.Errorf("%s: its time is %v", name, info.ModTime())
			}
		}
	})
	if uid := w.m.Foreign(cloneKey, w.chain()); uid != nil {
		t.Errorf("files of uid %d are known", *uid)
	}
}

// TestRootsLinkOutside: a directory that can't be a layer keeps its owners, and so does the file outside that is linked.
func TestRootsLinkOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.open(w.want("nm"))
	s.write("nm/x", "x")
	if err := os.Link(filepath.Join(s.dir, "nm/x"), filepath.Join(s.dir, "twin")); err != nil {
		t.Fatal(err)
	}
	s.end()
	if heads := w.m.Heads(cloneKey); len(heads) > 0 {
		t.Errorf("it was promoted: %+v", heads)
	}
	if uid, gid := testdir.Owner(t, filepath.Join(s.Upper, "twin")); uid != 0 || gid != 0 {
		t.Errorf("the file outside belongs to %d:%d", uid, gid)
	}
}

// TestForeign: a user who is neither root nor the volume's is known and logged once, until the directory is replaced.
func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	logged := test.NewLocal(w.m.config.Log)
	want := w.want("nm")
	write := func(name string, uid int) {
		t.Helper()
		w.run(want, func(s *session) {
			path := filepath.Join(s.dir, "nm", name)
			s.write("nm/"+name, "x")
			if err := os.Lchown(path, uid, uid); err != nil {
				t.Fatal(err)
			}
		})
	}
	knows := func(when string, want uint32, lines int) {
		t.Helper()
		got := uint32(0)
		if uid := w.m.Foreign(cloneKey, w.chain()); uid != nil {
			got = *uid
		}
		entries := slices.DeleteFunc(logged.AllEntries(), func(e *logrus.Entry) bool { return !strings.Contains(e.Message, "files of uid") })
		if got != want || len(entries) != lines {
			t.Errorf("%s: uid %d, want %d; %d lines, want %d", when, got, want, len(entries), lines)
		}
	}
	write("own", user)
	knows("the volume's", 0, 0)
	write("root", 0)
	knows("root's", 0, 0)
	write("other", 77)
	knows("another's", 77, 1)
	write("own", user)
	knows("a layer on it", 77, 1)
	write("again", 77)
	knows("again", 77, 1)
	write("third", 78)
	knows("a third one's", 78, 2)
	for i := range flattenAt {
		write(fmt.Sprint(i), user)
	}
	knows("flattened", 78, 2)
	w.restart("boot 1")
	knows("after a start", 78, 2)
	w.run(want, func(s *session) { s.remove("nm") })
	knows("after it was removed", 0, 2)

	// Root can change everything.
	want.UID, want.GID = 0, 0
	want.Paths = []string{"web/nm"}
	w.run(want, func(s *session) {
		s.write("web/nm/x", "x")
		if err := os.Lchown(filepath.Join(s.dir, "web/nm/x"), 77, 77); err != nil {
			t.Fatal(err)
		}
	})
	for _, h := range w.m.Heads(cloneKey) {
		if uid := w.m.Foreign(cloneKey, h.Chain); h.UID == 0 && uid != nil {
			t.Errorf("in a volume of root files of uid %d are named", *uid)
		}
	}
}

// TestRepairEnds: the end of the context ends it.
func TestRepairEnds(t *testing.T) {
	t.Parallel()
	dir := testdir.New(t, "repair")
	if err := os.WriteFile(filepath.Join(dir, "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := owners{want: owner{user, user}, roots: true}
	if err := o.repair(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
