package upper

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
)

// TestChangedPoint: the empty file that a runtime makes to mount a file on it is no change, and every
// file is one that a process of the container may have made.
func TestChangedPoint(t *testing.T) {
	t.Parallel()
	lower := testdir.New(t, "upper")
	if err := os.WriteFile(filepath.Join(lower, "tracked"), []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	user, root := meta.Workspace{UID: 1000, GID: 1000, MountedAt: now}, meta.Workspace{MountedAt: now}
	// mknod makes an empty file as runc does: version 1.1 with the mode 0755, and newer ones with 0644.
	mknod := func(mode uint32) func(string) error {
		return func(path string) error {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				return err
			}
			return unix.Mknod(path, unix.S_IFREG|mode, 0)
		}
	}
	and := func(mode uint32, then func(path string) error) func(string) error {
		return func(path string) error {
			if err := mknod(mode)(path); err != nil {
				return err
			}
			return then(path)
		}
	}
	for _, tt := range []struct {
		name, path string
		rec        meta.Workspace
		made       func(path string) error
		want       bool
	}{
		{"of runc 1.1", ".env", root, mknod(0o755), false},
		{"of runc 1.1, for a user", ".env", user, mknod(0o755), false},
		{"of runc 1.2, for a user", ".env", user, mknod(0o644), false},
		{"below new directories", "a/b/c/d/e/f/config.json", root, mknod(0o755), false},
		{"touched by root", "empty", root, mknod(0o644), true},
		{"touched by root long after the mount", "empty", meta.Workspace{UID: 1000, MountedAt: now.Add(-time.Minute)}, mknod(0o644), true},
		{"touched by root long before the mount", "empty", meta.Workspace{UID: 1000, MountedAt: now.Add(time.Minute)}, mknod(0o644), true},
		{"of the user", "empty", user, and(0o755, func(path string) error { return os.Chown(path, 1000, 1000) }), true},
		{"of the user's group", "empty", user, and(0o644, func(path string) error { return os.Chown(path, 0, 1000) }), true},
		{"of another mode", "empty", root, mknod(0o700), true},
		{"setuid", "empty", root, and(0o755, func(path string) error { return os.Chmod(path, 0o755|os.ModeSetuid) }), true},
		{"with content", "run", root, and(0o755, func(path string) error { return os.WriteFile(path, []byte("x"), 0) }), true},
		{"emptied", "tracked", root, mknod(0o755), true},
		{"with two names", "a", root, and(0o755, func(path string) error { return os.Link(path, path+"2") }), true},
		{"with another time", "a", root, and(0o755, func(path string) error { return os.Chtimes(path, now, now) }), true},
		{"made executable", "run", root, and(0o644, func(path string) error {
			var st unix.Statx_t
			for { // as chmod does, but until the clock has moved on
				if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st); err != nil || st.Ctime != st.Btime {
					return err
				}
				if err := os.Chmod(path, 0o755); err != nil {
					return err
				}
			}
		}), true},
		{"a ref", ".git/refs/heads/a/b/c", root, mknod(0o755), true},
		{"a lock of git", ".git/index.lock", root, mknod(0o755), true},
		{"a FIFO", "fifo", root, func(path string) error { return unix.Mkfifo(path, 0o755) }, true},
		{"a whiteout", "tracked", root, func(path string) error { return unix.Mknod(path, unix.S_IFCHR, 0) }, true},
		{"a link", "link", root, func(path string) error { return os.Symlink("x", path) }, true},
	} {
		dir := testdir.New(t, "upper")
		if err := overlay.Mark(dir); err != nil {
			t.Fatal(err)
		}
		if err := tt.made(filepath.Join(dir, tt.path)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if changed, err := Changed(t.Context(), dir, tt.rec, []string{lower}, nil); err != nil || changed != tt.want {
			t.Errorf("%s: changed is %v, want %v; %v", tt.name, changed, tt.want, err)
		}
	}
}

// TestChangedCopied: a copy without extended attributes may have lost any change.
func TestChangedCopied(t *testing.T) {
	t.Parallel()
	if changed, err := Changed(t.Context(), t.TempDir(), meta.Workspace{}, nil, nil); err != nil || !changed {
		t.Errorf("changed is %v, want true; %v", changed, err)
	}
}
