// Package project limits what directories hold, by the project quotas of ext4 and XFS.
//
// A directory that is given a project passes it on to all that is made in it. The kernel counts the bytes and inodes of
// a project, and refuses what would exceed its limit: with EDQUOT on ext4, with ENOSPC on XFS. Both filesystems
// understand the same system calls: FS_IOC_FSSETXATTR and, by descriptor, quotactl_fd with the commands of XFS.
//
// A file keeps its project when it is renamed. A directory with a project takes no file of another one: such a
// rename or link fails with EXDEV. A directory without one takes any.
//
// A symbolic link, a FIFO and a device get their project when they are made, and keep it, because it can't be changed
// before Linux 6.17. So an ID is free again only when the kernel counts nothing for it.
package project

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// Range has the IDs from First to Last. Nothing else on the filesystem may use them.
type Range struct{ First, Last uint32 }

// ParseRange parses "first-last".
func ParseRange(s string) (Range, error) {
	first, last, _ := strings.Cut(s, "-")
	a, errA := strconv.ParseUint(first, 10, 32)
	b, errB := strconv.ParseUint(last, 10, 32)
	// The highest ID means none, and 0 is that of all files without a project.
	if errA != nil || errB != nil || a == 0 || b < a || b == 1<<32-1 {
		return Range{}, fmt.Errorf("%q is no range of project IDs: it must be like 1200000000-1200065535, with IDs from 1 to 4294967294", s)
	}
	return Range{uint32(a), uint32(b)}, nil
}

// Quotas are the project quotas of a filesystem. Its methods may be called concurrently. Of a nil Quotas, and of a
// filesystem without, they return Supported's error.
type Quotas struct {
	dir *os.File // any directory of the filesystem
	off error    // Supported's
	ids Range
}

// Open returns the project quotas of the filesystem of dir.
func Open(dir string, ids Range) (*Quotas, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	q := &Quotas{dir: f, ids: ids}
	q.off = q.enforced()
	return q, nil
}

// Supported returns nil if limits hold. The error is an *UnsupportedError, unless the kernel did not answer.
func (q *Quotas) Supported() error {
	if q == nil {
		return &UnsupportedError{}
	}
	return q.off
}

// Close closes the directory.
func (q *Quotas) Close() error { return q.dir.Close() }

// enforced is Supported; it asks the kernel whether it counts projects, and enforces their limits.
func (q *Quotas) enforced() error {
	s := state{version: 1}
	err := q.control(getState, 0, unsafe.Pointer(&s))
	switch {
	case err == nil && s.flags&accounted != 0 && s.flags&enforced != 0:
		var a fileAttr
		if err := ioctl(int(q.dir.Fd()), getAttr, &a); err != nil {
			return fmt.Errorf("project of %q: %w", q.dir.Name(), err)
		}
		if a.project != 0 { // what leaves a workspace could not be renamed into it
			return &UnsupportedError{Project: a.project}
		}
		return nil
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("ask for the project quotas of %q: %w", q.dir.Name(), err)
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(q.dir.Fd()), &st); err != nil {
		return fmt.Errorf("filesystem of %q: %w", q.dir.Name(), err)
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC: // also of ext2 and ext3, which have no project quotas
		return &UnsupportedError{Filesystem: "ext4"}
	case unix.XFS_SUPER_MAGIC:
		return &UnsupportedError{Filesystem: "xfs"}
	}
	return &UnsupportedError{}
}

// UnsupportedError says that a filesystem does not limit what directories hold.
type UnsupportedError struct {
	// Filesystem is "ext4" or "xfs"; empty for one that has no project quotas.
	Filesystem string
	// Project is that of the data directory itself, if it has one.
	Project uint32
}

// Error says how project quotas are switched on.
func (e *UnsupportedError) Error() string {
	if e.Project != 0 {
		return fmt.Sprintf("the data directory itself has the project %d, so no workspace can have one of its own: "+
			"give it a filesystem of its own, or take it out (chattr -R -p 0)", e.Project)
	}
	switch e.Filesystem {
	case "ext4":
		return "the filesystem of the data directory has no project quotas: unmount it, run tune2fs -O project,quota on its device, " +
			"and mount it with the option prjquota (Linux 5.14 or newer)"
	case "xfs":
		return "the filesystem of the data directory has no project quotas: unmount it, and mount it with the option prjquota; " +
			"for the root filesystem, add rootflags=prjquota to the kernel's command line (Linux 5.14 or newer)"
	}
	return "the filesystem of the data directory has no project quotas: they need ext4 or XFS"
}

// Limit sets the most that a project may hold. Zero bytes or inodes mean any number of them. It has no effect on what
// the project holds already.
func (q *Quotas) Limit(id uint32, most disk.Size) error {
	if err := q.Supported(); err != nil {
		return err
	}
	d := quota{
		version: 1, kind: project, fields: hardBytes | hardInodes | softBytes | softInodes, id: id,
		hardBytes: uint64(most.Bytes) / block, hardInodes: uint64(most.Inodes),
	}
	if most.Bytes > 0 {
		d.hardBytes = max(d.hardBytes, 1) // 0 would be no limit
	}
	if err := q.control(setLimit, id, unsafe.Pointer(&d)); err != nil {
		return fmt.Errorf("limit project %d: %w", id, err)
	}
	return nil
}

// Use returns what a project holds.
func (q *Quotas) Use(id uint32) (disk.Size, error) {
	d, err := q.get(getQuota, id)
	return disk.Size{Bytes: int64(d.bytes * block), Inodes: int64(d.inodes)}, err
}

// get returns the kernel's record of a project, which is zero if there is none.
func (q *Quotas) get(command uint32, id uint32) (d quota, err error) {
	if err := q.Supported(); err != nil {
		return quota{}, err
	}
	err = q.control(command, id, unsafe.Pointer(&d))
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH):
		return quota{}, nil
	case err != nil:
		return quota{}, fmt.Errorf("look up project %d: %w", id, err)
	}
	return d, nil
}

// Take returns an ID of the range that no file has, and that used does not have. It is a random one, because a container
// may give files of its own a project that it guesses, and fill that.
func (q *Quotas) Take(used map[uint32]bool) (uint32, error) {
	if err := q.Supported(); err != nil {
		return 0, err
	}
	n := uint64(q.ids.Last-q.ids.First) + 1
	start := rand.Uint64N(n)
	for i := range n {
		id := q.ids.First + uint32((start+i)%n)
		if used[id] {
			continue
		}
		switch now, err := q.Use(id); {
		case err != nil:
			return 0, err
		case now == disk.Size{}:
			return id, nil
		}
	}
	return 0, fmt.Errorf("all project IDs from %d to %d are in use: set PROJECT_IDS to a larger range", q.ids.First, q.ids.Last)
}

// Records returns the IDs of the range that have a limit or hold something, lowest first.
func (q *Quotas) Records() (ids []uint32, err error) {
	for id := uint64(q.ids.First); id <= uint64(q.ids.Last); {
		d, err := q.get(getNext, uint32(id))
		if err != nil || d.version == 0 || d.id > q.ids.Last { // version 0: there is none from id on
			return ids, err
		}
		ids = append(ids, d.id)
		id = uint64(d.id) + 1
	}
	return ids, nil
}
