package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Busy asks the kernel whether any overlay, in any mount namespace, still uses upper:
// ours, or one that only a container holds. It mounts nothing.
//
// The kernel refuses an upper that is in use only with index=on, which records upper's
// lower directory and work directory in its attributes. Busy keeps these two in scratch,
// a directory on upper's filesystem that it makes if it is missing. Use a scratch for no other
// upper. Renaming either is harmless, and so is copying both with their attributes.
//
// The result is true only if the kernel answers EBUSY. Asking does not change how upper
// can be mounted.
func Busy(upper, scratch string) (busy bool, err error) {
	defer wrap(&err, "ask whether %q is in use", upper)
	lower, work := filepath.Join(scratch, "lower"), filepath.Join(scratch, "work")
	for _, dir := range BusyDirs(scratch) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	dir, err := unix.Open(scratch, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open %q: %w", scratch, err)
	}
	defer unix.Close(dir)
	// Two probes of one upper would each report the other as a user.
	if err := unix.Flock(dir, unix.LOCK_EX); err != nil {
		return false, fmt.Errorf("flock %q: %w", scratch, err)
	}
	// The probe is volatile, because its end would otherwise sync the whole filesystem. A
	// volatile mount leaves this mark, and the next one fails if it exists.
	if err := os.RemoveAll(filepath.Join(work, "work", "incompat")); err != nil {
		return false, err
	}

	// As strings, which every kernel accepts here, and through openDirs, because an option
	// has at most 255 bytes. They stay open until the end, because older kernels look the names up late.
	var dirs openDirs
	defer dirs.close()
	names, err := dirs.open(lower, upper, work)
	if err != nil {
		return false, err
	}
	filesystem, err := newFilesystem("overlay", []string{
		"source=busy", "lowerdir=" + names[0], "upperdir=" + names[1], "workdir=" + names[2],
		"index=on", "nfs_export=off", "metacopy=off", "redirect_dir=off", "volatile",
	})
	switch {
	case err == nil:
		return false, unix.Close(filesystem)
	case errors.Is(err, unix.EBUSY):
		return true, nil
	case disk.NoRoom(err):
		// The kernel checks the upper before it writes anything, so it is free on a full disk too.
		return false, nil
	case errors.Is(err, unix.ESTALE):
		// The attributes name directories by their place on a disk from which they were copied. The
		// kernel compares them after it has found the upper free.
		return false, nil
	}
	return false, err
}

// BusyDirs returns the directories that Busy makes for scratch, parents first. Make them in advance, and
// Busy also works on a full disk.
func BusyDirs(scratch string) []string {
	return []string{scratch, filepath.Join(scratch, "lower"), filepath.Join(scratch, "work")}
}
