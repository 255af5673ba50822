package checkout

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testgit"
)

// TestOneTime checks that files without a time in their entry get one time, whenever they were written, and that it is
// later than the times of the others.
func TestOneTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testgit.Git(t, dir, "init", "-q", "-b", "main")
	began, kept := time.Now(), time.Now().Add(-time.Hour)
	for i, name := range []string{"grammar.y", "kept", "later.y", "parser.c", "to-come"} {
		path := filepath.Join(dir, name)
		written := began.Add(-time.Duration(i) * time.Second)
		if err := errors.Join(os.WriteFile(path, []byte(name), 0o644), os.Chtimes(path, written, written)); err != nil {
			t.Fatal(err)
		}
	}
	testgit.Git(t, dir, "add", ".")
	testgit.Git(t, dir, "commit", "-qm", "m")
	ix, err := Spec{Dir: dir, Commit: testgit.Git(t, dir, "rev-parse", "HEAD")}.readIndex(IndexFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ix.Entries {
		switch e.Name() {
		case "kept":
			e.SetStat(&unix.Stat_t{Mtim: unix.NsecToTimespec(kept.UnixNano())})
		case "to-come": // of a wrong clock
			e.SetStat(&unix.Stat_t{Mtim: unix.NsecToTimespec(began.Add(time.Hour).UnixNano())})
		default:
			e.ClearStat()
		}
	}
	if err := ix.complete(); err != nil {
		t.Fatal(err)
	}
	at := make(map[string]time.Time)
	for _, e := range ix.Entries {
		info, err := os.Lstat(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		at[e.Name()] = info.ModTime()
	}
	one := at["grammar.y"]
	if !at["later.y"].Equal(one) || !at["parser.c"].Equal(one) || !at["to-come"].Equal(one) || !at["kept"].Equal(kept) || !one.After(kept) || one.After(time.Now()) {
		t.Errorf("the files have the times %v", at)
	}
}

// TestComplete checks that after complete, git finds every file unchanged by lstat alone,
// sees a same-size edit in the same second, and finds no damage in the index.
func TestComplete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		return testgit.Git(t, dir, args...)
	}
	git("init", "-q", "-b", "main")
	for i := range 300 { // names of every length modulo 8
		name := filepath.Join(dir, "d", strings.Repeat("x", i%200+1)+fmt.Sprint(i))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(fmt.Sprint("content ", i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	// A submodule is an empty directory, whose times do not matter.
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("add", ".")
	git("update-index", "--add", "--cacheinfo", "160000,"+strings.Repeat("1", 40)+",sub")
	git("commit", "-qm", "m")
	// Not in the work tree: an entry with extended flags, version 3.
	gone := "d/x0"
	git("update-index", "--skip-worktree", gone)
	if err := os.Remove(filepath.Join(dir, gone)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, ".git", IndexFile))
	if err != nil {
		t.Fatal(err)
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != 3 {
		t.Fatalf("index version %d, want 3 for this test", v)
	}
	now := time.Now()
	ix, err := Spec{Dir: dir, Commit: git("rev-parse", "HEAD")}.readIndex(IndexFile)
	if err != nil {
		t.Fatal(err)
	}
	later, err := unix.TimeToTimespec(now.Add(time.Hour)) // even if a second ends meanwhile
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range ix.Entries {
		path := filepath.Join(dir, e.Name())
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{later, later}, unix.AT_SYMLINK_NOFOLLOW); err != nil && e.IsFile() {
			t.Fatal(err)
		}
	}
	if err := ix.complete(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "d/xx1"} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if info.ModTime().Unix() >= now.Unix() {
			t.Errorf("%s has the time %v, which is not before the second of %v", name, info.ModTime(), now)
		}
	}
	git("fsck", "--strict") // which checks the index's hash
	if got := git("diff-files", "--name-only"); got != "" {
		t.Errorf("git diff-files lists %s", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "d/xx1"), []byte("CONTENT 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := git("status", "--porcelain"); got != " M d/xx1" {
		t.Errorf("status %q after a same-size edit", got)
	}
}
