package upper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// ofOverlay begins the attributes of overlayfs, which are about the directory that has them.
const ofOverlay = "trusted.overlay."

// MakeOn makes the empty directory dir the upper of a workspace that stands on another upper, which nobody writes to
// any more. It begins with the owner, mode and attributes of the other's top directory: an overlay shows those of its upper.
func MakeOn(dir, other string) error {
	if err := overlay.Mark(dir); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(other, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: other, Err: err}
	}
	if err := errors.Join(os.Lchown(dir, int(st.Uid), int(st.Gid)), unix.Chmod(dir, st.Mode&^unix.S_IFMT)); err != nil {
		return err
	}
	return copyAttributes(other, dir)
}

// copyAttributes copies the extended attributes of a directory, with its ACLs and without those of overlayfs.
func copyAttributes(from, to string) error {
	const most = 64 << 10 // the kernel's limit, of a value and of all names
	names, value := make([]byte, most), make([]byte, most)
	n, err := unix.Llistxattr(from, names)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "listxattr", Path: from, Err: err}
	}
	for name := range strings.SplitSeq(string(names[:n]), "\x00") {
		if name == "" || strings.HasPrefix(name, ofOverlay) {
			continue
		}
		n, err := unix.Lgetxattr(from, name, value)
		if err != nil {
			return &fs.PathError{Op: "getxattr", Path: from, Err: err}
		}
		if err := unix.Lsetxattr(to, name, value[:n], 0); err != nil {
			return &fs.PathError{Op: "setxattr", Path: to, Err: err}
		}
	}
	return nil
}

// SetTimes gives the top directory of a mounted workspace the times of the upper that it stands on.
func SetTimes(root, other string) error {
	var st unix.Stat_t
	if err := unix.Lstat(other, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: other, Err: err}
	}
	err := unix.UtimesNanoAt(unix.AT_FDCWD, root, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return &fs.PathError{Op: "utimensat", Path: root, Err: err}
	}
	return nil
}

const (
	lockSuffix = ".lock" // of the locks of git
	// maxLocks bounds how many locks Unlock removes. git makes one at a time for each ref, and a few others.
	maxLocks = 1000
	// maxLockDepth and maxLockLooks bound where and for how long it looks for them.
	maxLockDepth = 16
	maxLockLooks = 100_000
)

// looseObjects matches the directories of loose objects, and of those of git-lfs. They may have many files, and no locks.
var looseObjects = regexp.MustCompile(`^\.git/(modules/.+/)?(lfs/)?objects/[0-9a-f]{2}$`)

// Unlock removes the locks that git left below .git in uppers, because its process did not live to remove them, from a
// mounted workspace that stands on these uppers and that no container has yet. It returns their paths. Beyond some
// bounds locks stay.
func Unlock(ctx context.Context, root string, uppers []string) (removed []string, err error) {
	var found []string
	for _, dir := range uppers {
		top, err := upfile.OpenDir(dir)
		if err != nil {
			return nil, err
		}
		err = disk.WalkBelow(ctx, top, ".git", &lockFinder{found: &found}, nil)
		top.Close()
		if err != nil && !isNoDirectory(err) {
			return nil, err
		}
	}
	slices.Sort(found)
	top, err := upfile.OpenDir(root)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	for _, name := range slices.Compact(found) {
		ok, err := unlink(int(top.Fd()), name)
		if err != nil {
			return removed, err
		}
		if ok {
			removed = append(removed, name)
		}
	}
	return removed, nil
}

// unlink removes a regular file below a directory, if there is one at that path.
func unlink(top int, name string) (ok bool, err error) {
	dir, err := disk.OpenAt(top, path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		defer unix.Close(dir)
		var st unix.Stat_t
		if st, err = upfile.Stat(dir, path.Base(name)); err == nil && upfile.Kind(&st) == unix.S_IFREG {
			return true, unix.Unlinkat(dir, path.Base(name), 0)
		}
	}
	if isNoDirectory(err) {
		err = nil
	}
	return false, err
}

// isNoDirectory reports whether an error says that there is no such directory.
func isNoDirectory(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// lockFinder is a disk.Visitor that finds git's locks below .git.
type lockFinder struct {
	found *[]string
	names []string
	looks int
}

func (v *lockFinder) Visit(e disk.Entry) (enter bool) {
	if e.Depth == 0 {
		return true
	}
	if v.looks++; e.Depth > maxLockDepth || v.looks > maxLockLooks || len(*v.found) >= maxLocks {
		return false
	}
	v.names = append(v.names[:e.Depth-1], e.Name)
	at := ".git/" + path.Join(v.names...)
	switch e.Kind() {
	case unix.DT_DIR:
		return at != cache.Mount && !looseObjects.MatchString(at)
	case unix.DT_REG:
		if strings.HasSuffix(e.Name, lockSuffix) {
			*v.found = append(*v.found, at)
		}
	}
	return false
}

func (v *lockFinder) Leave(disk.Entry) {}

func (v *lockFinder) Skip(disk.Entry, error) {}
