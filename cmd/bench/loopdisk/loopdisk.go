// Package loopdisk makes filesystems for measurements.
package loopdisk

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

// About describes Ext4. It mentions the journal because a
// machine's own filesystem may have none, and ext4 without a journal creates files ten times
// slower for minutes after deletions.
const About = "ext4 with journal on a loop device with direct I/O"

// Type is a type of filesystem, as mount names it.
type Type string

const (
	Ext4 Type = "ext4" // see About
	XFS  Type = "xfs"  // with reflinks: copies share blocks
)

// Disk is a new filesystem in a sparse file.
type Disk struct {
	Dir  string // its mount point
	file string
}

// New makes and mounts a filesystem below base with room for this many files
// and bytes.
func New(ctx context.Context, kind Type, base string, files, bytes int64) (*Disk, error) {
	var host unix.Statfs_t
	if err := unix.Statfs(base, &host); err != nil {
		return nil, fmt.Errorf("%s: %w", base, err)
	}
	if free := int64(host.Bavail) * host.Frsize; free < bytes {
		return nil, fmt.Errorf("%s has %d MB free and needs %d: use another -dir, or fewer -files", base, free>>20, bytes>>20)
	}
	// testdisk.Eject expects these names.
	d := &Disk{Dir: filepath.Join(base, "disk"), file: filepath.Join(base, "disk.img")}
	if err := d.format(ctx, kind, files, bytes); err != nil {
		if mountErr := unix.Unmount(d.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); mountErr == nil {
			err = fmt.Errorf("%w; it was mounted", err)
		}
		return nil, errors.Join(err, os.RemoveAll(d.Dir), os.RemoveAll(d.file))
	}
	return d, nil
}

// format makes the file, makes a filesystem in it, and mounts that.
func (d *Disk) format(ctx context.Context, kind Type, files, bytes int64) error {
	if err := os.Mkdir(d.Dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(d.file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(bytes), f.Close()); err != nil {
		return err
	}
	mkfs := []string{"mkfs.ext4", "-q", "-F", "-m", "0", "-b", "4096", "-O", "has_journal", "-N", fmt.Sprint(files), d.file}
	// Otherwise the kernel writes inode tables during the measurement.
	option := "noinit_itable"
	if kind == XFS {
		mkfs, option = []string{"mkfs.xfs", "-q", "-m", "reflink=1", "-s", "size=4096", d.file}, "noatime"
	}
	if _, err := Tool(ctx, mkfs[0], mkfs[1:]...); err != nil {
		return err
	}
	// The rest takes milliseconds, and must not be interrupted halfway.
	ctx = context.WithoutCancel(ctx)
	// Without direct I/O every flush of the disk would write all dirty pages of the file, and
	// an fdatasync of one page beside 50,000 new files would take 40 ms instead of 3. Sectors
	// of 4096 bytes work on any underlying disk.
	loop, err := Tool(ctx, "losetup", "--find", "--show", "--direct-io=on", "--sector-size", "4096", d.file)
	if err != nil {
		return err
	}
	_, err = Tool(ctx, "mount", "-t", string(kind), "-o", option, loop, d.Dir)
	// The kernel detaches a loop device in use when it is unmounted.
	_, detached := Tool(ctx, "losetup", "--detach", loop)
	return errors.Join(err, detached)
}

// Tool runs a program of the system and returns its output.
func Tool(ctx context.Context, name string, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = &stderr
	// A terminal's SIGINT must not reach the program, because run handles it and cleans up.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimSpace(string(out)), nil
}

// Used syncs, and returns how many bytes of the filesystem are in use.
func (d *Disk) Used() (int64, error) {
	if err := d.Sync(); err != nil {
		return 0, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", d.Dir, err)
	}
	return int64(st.Blocks-st.Bfree) * st.Frsize, nil
}

// Inodes returns how many inodes are in use.
func (d *Disk) Inodes() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Dir, &st); err != nil {
		return 0, fmt.Errorf("%s: %w", d.Dir, err)
	}
	return int64(st.Files - st.Ffree), nil
}

func MiB(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Sync syncs the filesystem, so that dirty pages do not slow down the next measurement.
func (d *Disk) Sync() error {
	f, err := os.Open(d.Dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// Mounted reports whether anything is mounted at dir or below it.
func (d *Disk) Mounted(dir string) (bool, error) {
	points, err := overlay.Mounts(d.Dir)
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

// Close unmounts everything on the disk, then the disk, and deletes it.
func (d *Disk) Close() error {
	if err := testdisk.Eject(context.Background(), d.Dir); err != nil {
		return err
	}
	return os.Remove(d.Dir)
}
