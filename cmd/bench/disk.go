package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdisk"
)

// filesystem is what all is measured on. The journal is named because a machine's
// own filesystem may lack one, and an ext4 without it creates files ten times
// slower for minutes after others were deleted.
const filesystem = "ext4 with journal on a loop device with direct I/O"

// disk is a fresh filesystem in a sparse file.
type disk struct {
	dir  string // where it is mounted
	file string
}

// newDisk makes and mounts a filesystem below base with room for this many files
// and bytes.
func newDisk(ctx context.Context, base string, files, bytes int64) (*disk, error) {
	var host unix.Statfs_t
	if err := unix.Statfs(base, &host); err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if free := int64(host.Bavail) * host.Frsize; free < bytes {
		return nil, fmt.Errorf("%s has %d MB free, %d are needed: use another -dir, or fewer -files", base, free>>20, bytes>>20)
	}
	// Under the names that testdisk.Eject wants.
	d := &disk{dir: filepath.Join(base, "disk"), file: filepath.Join(base, "disk.img")}
	if err := d.make(ctx, files, bytes); err != nil {
		if mountErr := unix.Unmount(d.dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); mountErr == nil {
			err = fmt.Errorf("%w; it was mounted", err)
		}
		return nil, errors.Join(err, os.RemoveAll(d.dir), os.RemoveAll(d.file))
	}
	return d, nil
}

func (d *disk) make(ctx context.Context, files, bytes int64) error {
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(d.file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(bytes), f.Close()); err != nil {
		return err
	}
	if _, err := tool(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-O", "has_journal", "-N", fmt.Sprint(files), d.file); err != nil {
		return err
	}
	// What follows takes milliseconds, and half of it could not be undone.
	ctx = context.WithoutCancel(ctx)
	// Without direct I/O every flush of the disk would write all that is dirty in
	// the file below it, and an fdatasync of one page take 40 ms beside 50,000 new
	// files instead of 3. Sectors of 4096 bytes suit whatever disk is below.
	loop, err := tool(ctx, "losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", d.file)
	if err != nil {
		return err
	}
	// noinit_itable: else the kernel writes inode tables while we measure.
	_, err = tool(ctx, "mount", "-t", "ext4", "-o", "noinit_itable", loop, d.dir)
	// One that is in use stays until it is unmounted.
	_, detached := tool(ctx, "losetup", "--detach", loop)
	return errors.Join(err, detached)
}

// tool runs a program of the system and returns its output.
func tool(ctx context.Context, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	// A terminal's SIGINT is for us, who take it away again.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// used writes what is dirty and is how many bytes the filesystem has given away.
func (d *disk) used() (int64, error) {
	if err := d.sync(); err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", d.dir, err)
	}
	return int64(st.Blocks-st.Bfree) * st.Frsize, nil
}

// inodes is how many the filesystem has given away.
func (d *disk) inodes() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", d.dir, err)
	}
	return int64(st.Files - st.Ffree), nil
}

func toMiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// sync writes what is dirty, so that it does not slow down what is measured next.
func (d *disk) sync() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// mounted says whether anything is mounted at dir, or below it, on this disk.
func (d *disk) mounted(dir string) (bool, error) {
	points, err := overlay.Mounts(d.dir)
	if err != nil {
		return false, err
	}
	for _, p := range points {
		if p.Path == dir || strings.HasPrefix(p.Path, dir+"/") {
			return true, nil
		}
	}
	return false, nil
}

// close unmounts all that is mounted on the disk, then the disk, and deletes it.
func (d *disk) close() error {
	if err := testdisk.Eject(d.dir); err != nil {
		return err
	}
	return os.Remove(d.dir)
}
