package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
)

// Disk mounts a fresh ext4 of so many bytes on dir, which it makes; more are arguments of mkfs.ext4. It has a journal:
// without one the inodes of files that were deleted in the last minutes are skipped one by one. Its mount is shared, as
// that of a plugin's data is. The image is dir.img.
func Disk(dir string, bytes int64, more ...string) error {
	image := dir + ".img"
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes)); err != nil {
		return err
	}
	for _, command := range [][]string{
		append(append([]string{"mkfs.ext4", "-q", "-F", "-m", "0", "-O", "has_journal"}, more...), image),
		{"mount", "-o", "loop,noinit_itable", image, dir},
		{"mount", "--make-shared", dir},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return errors.Join(fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out), os.Remove(image))
		}
	}
	return nil
}

// Eject unmounts what is mounted below dir, and then dir, and deletes the image. That dir stays in use is an error: a
// process or a mount was left behind somewhere.
func Eject(dir string) error {
	errs := []error{DetachBelow(dir)}
	if err := Poll(func() error { return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW) }); err != nil {
		errs = append(errs, fmt.Errorf("unmount %s: %w", dir, err), unix.Unmount(dir, unix.MNT_DETACH))
	}
	return errors.Join(append(errs, os.Remove(dir+".img"))...)
}

// DetachBelow unmounts what is mounted below dir, but not at it.
func DetachBelow(dir string) error {
	points, err := overlay.Mounts(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		if p.Path == filepath.Clean(dir) {
			continue
		}
		release, err := overlay.Detach(p.Path)
		if err == nil {
			err = release()
		}
		if !errors.Is(err, overlay.ErrNotMounted) { // gone with another one
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
