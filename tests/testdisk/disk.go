package testdisk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// Ext4 creates dir and mounts a new ext4 on it; its size is in bytes, and more are arguments for
// mkfs.ext4. The filesystem has a journal, because without one ext4 skips the inodes of recently
// deleted files one by one, for minutes. The mount is shared, as the mount of a plugin's data is.
// The image is dir.img.
func Ext4(dir string, bytes int64, more ...string) error {
	return newDisk(dir, bytes, "noinit_itable", append([]string{"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "has_journal"}, more...))
}

// XFS is Ext4 with xfs, which needs 300 MiB at least.
func XFS(dir string, bytes int64) error {
	return newDisk(dir, bytes, "nouuid", []string{"mkfs.xfs", "-q", "-f"})
}

func newDisk(dir string, bytes int64, options string, mkfs []string) error {
	image := dir + ".img"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes)); err != nil {
		return err
	}
	err := run(
		append(mkfs, image),
		[]string{"mount", "-o", "loop," + options, image, dir}, // unmounting frees the loop device
		[]string{"mount", "--make-shared", dir},
	)
	if err != nil {
		return errors.Join(err, os.Remove(image))
	}
	return nil
}

// Directory creates dir and makes it a shared mount on the filesystem that it is on. Eject accepts
// it like a disk.
func Directory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return run([]string{"mount", "--bind", dir, dir}, []string{"mount", "--make-shared", dir})
}

// run runs commands one after the other and stops at the first that fails.
func run(commands ...[]string) error {
	for _, command := range commands {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
	}
	return nil
}

// Eject unmounts everything below dir, and then dir, and deletes the image if one exists. It
// returns an error if dir stays busy, because then some process or mount was left behind.
func Eject(l wait.Limit, dir string) error {
	errs := []error{testdir.DetachBelow(dir)}
	// The kernel may keep a filesystem busy after its last user has ended.
	err := wait.Until(l, func() error {
		err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EBUSY) {
			err = wait.Final(err)
		}
		return err
	})
	if err != nil {
		errs = append(errs, fmt.Errorf("unmount %s: %w", dir, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	if err := os.Remove(dir + ".img"); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Fill creates a file at path, which must not exist, and gives it every free block of the
// filesystem. If the filesystem has no room even for an empty file, Fill creates none and returns
// nil.
func Fill(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, unix.ENOSPC) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	const block = 4096
	var size int64
	for again := true; again; { // a sync frees the blocks that the filesystem had reserved for other files
		again = false
		for chunk := int64(1 << 30); chunk >= block; {
			switch err := unix.Fallocate(int(f.Fd()), 0, size, chunk); {
			case err == nil:
				size += chunk
				again = true
			case errors.Is(err, unix.ENOSPC):
				chunk /= 2
			case !errors.Is(err, unix.EINTR):
				return fmt.Errorf("fill %s: %w", path, err)
			}
		}
		if err := f.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// Filesystems are those that most likely hold the plugin's data, small enough to be filled in a
// test.
var Filesystems = []struct {
	Name string
	Make func(dir string) error
}{
	{"ext4", func(dir string) error { return Ext4(dir, 256<<20) }},
	{"xfs", func(dir string) error { return XFS(dir, 320<<20) }},
}

// OnEach runs a test on each of Filesystems, in parallel.
func OnEach(t *testing.T, f func(t *testing.T, dir string)) {
	for _, fs := range Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			t.Parallel()
			f(t, Small(t, fs.Make))
		})
	}
}

// Small mounts one of Filesystems and returns its directory. The end of the test ejects it.
func Small(t *testing.T, fs func(dir string) error) string {
	t.Helper()
	dir := filepath.Join(testdir.New(t, "disk"), "disk")
	if err := fs(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Eject(t, dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
