package project

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// What linux/fs.h has for FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR.
const (
	getAttr = 0x801c581f
	setAttr = 0x401c5820
	inherit = 0x200 // FS_XFLAG_PROJINHERIT
)

// fileAttr is struct fsxattr.
type fileAttr struct {
	flags, extentSize, extents, project, copyExtentSize uint32

	_ [8]byte
}

// What linux/dqblk_xfs.h has: commands, of projects, and what they mean.
const (
	getQuota = 'X'<<8 + 3
	setLimit = 'X'<<8 + 4
	getState = 'X'<<8 + 8
	getNext  = 'X'<<8 + 9
	ofKind   = 2 // PRJQUOTA

	accounted = 1 << 4 // FS_QUOTA_PDQ_ACCT
	enforced  = 1 << 5 // FS_QUOTA_PDQ_ENFD

	project                                      = 2 // FS_PROJ_QUOTA
	softInodes, hardInodes, softBytes, hardBytes = 1, 2, 4, 8
	block                                        = 512 // the unit of quota's bytes
)

// quota is struct fs_disk_quota.
type quota struct {
	version, kind                                int8
	fields                                       uint16
	id                                           uint32
	hardBytes, softBytes, hardInodes, softInodes uint64
	bytes, inodes                                uint64

	_ [56]byte // times, warnings and real-time blocks
}

// state is struct fs_quota_statv.
type state struct {
	version int8
	_       uint8
	flags   uint16

	_ [156]byte
}

// control calls quotactl_fd (Linux 5.14).
func (q *Quotas) control(command, id uint32, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, q.dir.Fd(), uintptr(command<<8|ofKind), uintptr(id), uintptr(arg), 0, 0)
	return cause(errno)
}

func ioctl(fd int, request uintptr, a *fileAttr) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a)))
	return cause(errno)
}

// cause returns an error of a system call; nil for none.
func cause(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
