package checkout

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testgit"
)

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
