package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Busy asks the kernel whether an overlay, in any mount namespace, still has
// upper: ours, or one that only a container kept. Nothing is mounted by it.
//
// The kernel refuses the upper of another overlay only under index=on, which
// writes into upper's attributes which lower and work directory it is with.
// So these two are kept in scratch: a directory on upper's filesystem, made if
// it is missing, that belongs to this upper alone, as long as upper lives
// (with another one the error is ESTALE). Renaming either is harmless.
//
// EBUSY, and only that, is true. A kept upper can be mounted as before after
// it was asked about.
func Busy(upper, scratch string) (bool, error) {
	busy, err := probeBusy(upper, scratch)
	if err != nil {
		return false, fmt.Errorf("ask whether %q is in use: %w", upper, err)
	}
	return busy, nil
}

// PrepareBusy makes what Busy needs in scratch. Without it Busy does, and fails on
// a full disk; with it, it needs no room.
func PrepareBusy(scratch string) error {
	for _, dir := range []string{"", "lower", "work"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

func probeBusy(upper, scratch string) (bool, error) {
	lower, work := filepath.Join(scratch, "lower"), filepath.Join(scratch, "work")
	if err := PrepareBusy(scratch); err != nil {
		return false, err
	}
	dir, err := unix.Open(scratch, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("open %q: %w", scratch, err)
	}
	defer unix.Close(dir)
	// Two probes of one upper would take each other for a user of it.
	if err := unix.Flock(dir, unix.LOCK_EX); err != nil {
		return false, fmt.Errorf("flock %q: %w", scratch, err)
	}
	// Without volatile the end of the probe would sync the whole filesystem.
	// This is the mark that a volatile mount leaves, and stops at.
	if err := os.RemoveAll(filepath.Join(work, "work", "incompat")); err != nil {
		return false, err
	}

	c, err := openContext("busy")
	if err != nil {
		return false, err
	}
	defer c.close()
	// As strings, which every kernel takes here, and through /proc/self/fd,
	// for an option is limited to 255 bytes.
	for _, o := range []struct{ key, dir string }{{"lowerdir", lower}, {"upperdir", upper}, {"workdir", work}} {
		fd, err := openDir(o.dir)
		if err != nil {
			return false, err
		}
		// Open until create: older kernels look the path up only then.
		defer unix.Close(fd)
		if err := c.setOption(o.key + "=" + procPath(fd)); err != nil {
			return false, err
		}
	}
	for _, o := range []string{"index=on", "nfs_export=off", "metacopy=off", "redirect_dir=off", "volatile"} {
		if err := c.setOption(o); err != nil {
			return false, err
		}
	}
	err = c.create()
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		// The kernel looks at the upper before it writes anything: it is free.
		return false, nil
	}
	return false, err
}
