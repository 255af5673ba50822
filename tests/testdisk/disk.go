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
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/testdir"
)

// Ext4 mounts a fresh ext4 of so many bytes on dir, which it makes; more are arguments of mkfs.ext4. It has a journal:
// without one the inodes of files that were deleted in the last minutes are skipped one by one. Its mount is shared, as
// that of a plugin's data is. The image is dir.img.
func Ext4(dir string, bytes int64, more ...string) error {
	return newDisk(dir, bytes, "noinit_itable", append([]string{"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "has_journal"}, more...))
}

// XFS is Ext4 with xfs, which takes 300 MiB at least.
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
		[]string{"mount", "-o", "loop," + options, image, dir}, // the loop device goes with the mount
		[]string{"mount", "--make-shared", dir},
	)
	if err != nil {
		return errors.Join(err, os.Remove(image))
	}
	return nil
}

// Directory makes dir, and a shared mount of it: a part of the disk that it is on, for Eject like a disk.
func Directory(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return run([]string{"mount", "--bind", dir, dir}, []string{"mount", "--make-shared", dir})
}

// run runs commands one after the other, until one fails.
func run(commands ...[]string) error {
	for _, command := range commands {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
	}
	return nil
}

// unmountWait is how long the kernel may take to give up a filesystem whose users have ended.
const unmountWait = 2 * time.Minute

// Eject unmounts what is mounted below dir, and then dir, and deletes the image if it has one. That dir stays in use is an
// error: a process or a mount was left behind somewhere.
func Eject(dir string) error {
	errs := []error{testdir.DetachBelow(dir)}
	err := unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	for deadline := time.Now().Add(unmountWait); errors.Is(err, unix.EBUSY) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		err = unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
	}
	if err != nil {
		errs = append(errs, fmt.Errorf("unmount %s: %w", dir, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	if err := os.Remove(dir + ".img"); !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Fill takes every block that is left on a filesystem with a file at path, which must not be there. Where there is not
// even room for the file, none is made.
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
	for again := true; again; { // what the filesystem had set aside for others comes back with a sync
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

// Filesystems are those that the plugin's data is most likely on, as small as they can be filled in a test.
var Filesystems = []struct {
	Name string
	Make func(dir string) error
}{
	{"ext4", func(dir string) error { return Ext4(dir, 256<<20) }},
	{"xfs", func(dir string) error { return XFS(dir, 320<<20) }},
}

// OnEach runs a test on each of Filesystems, Small and side by side.
func OnEach(t *testing.T, f func(t *testing.T, dir string)) {
	for _, fs := range Filesystems {
		t.Run(fs.Name, func(t *testing.T) {
			t.Parallel()
			f(t, Small(t, fs.Make))
		})
	}
}

// Small mounts one of Filesystems for a test, and returns its directory; with the test it goes.
func Small(t *testing.T, fs func(dir string) error) string {
	t.Helper()
	dir := filepath.Join(testdir.New(t, "disk"), "disk")
	if err := fs(dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Eject(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
