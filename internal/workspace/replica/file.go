package replica

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// tries is how often a file that changes while it is copied is copied.
const tries = 3

// copy makes the entry a copy, instead of what the name is now. It copies a file that changes meanwhile again.
func (w *worker) copy(j job) error {
	for try := 1; ; try++ {
		if err := w.remove(j.dir, &j.old); err != nil {
			return err
		}
		changed, err := w.copyOnce(j, try == tries)
		if err != nil {
			return err
		}
		if !changed || try == tries {
			w.result.changed.Add(1)
			return nil
		}
		j.old = *j.entry
	}
}

// copyOnce copies the entry's file, and reports whether it changed meanwhile, so that the copy may be wrong. For the
// last try it counts that.
func (w *worker) copyOnce(j job, last bool) (changed bool, err error) {
	d, e := j.dir, j.entry
	*e = entry{name: e.name}
	now := time.Now()
	fd, err := disk.OpenAt(d.in, e.name, unix.O_PATH)
	if isGone(err) || errors.Is(err, unix.EXDEV) {
		w.lose(err)
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	st, err := statFile(fd)
	switch {
	case err != nil:
		return false, err
	case [2]uint32{st.Dev_major, st.Dev_minor} != w.dev:
		w.lose(unix.EXDEV)
		return false, nil
	case kindOf(&st) == unix.S_IFDIR:
		w.lose(unix.ENOENT) // the walk saw something else
		return false, nil
	}
	if err := w.write(inodeCost); err != nil {
		return false, err
	}
	d.stale.Store(true)
	cloned, err := w.create(d, e, fd, &st)
	if err != nil || e.kind == 0 {
		return false, err
	}
	e.record(&st, now)
	if !w.live {
		e.ctime = 0 // its pages may be dirty, and stores would not change the ctime
	}
	after, err := statFile(fd)
	if err != nil {
		return false, err
	}
	if changed = after.Ctime != st.Ctime && kindOf(&st) != upfile.Whiteout; changed && last && !cloned {
		w.result.torn.Add(1)
	}
	return changed, nil
}

// lose counts a file that the walk has seen and that can't be opened.
func (w *worker) lose(err error) {
	w.leftOut(err)
	w.result.files.Add(-1)
}

// create makes the copy of an inode, which is open as a path only. The kind of e is set if there is one.
func (w *worker) create(d *dir, e *entry, fd int, st *unix.Statx_t) (cloned bool, err error) {
	var in, out *os.File
	switch kind := kindOf(st); kind {
	case unix.S_IFREG:
		if in, err = os.OpenFile(ofFile(fd), unix.O_RDONLY|unix.O_NOATIME, 0); err != nil {
			return false, err
		}
		defer in.Close()
		o, err := unix.Openat(d.out, e.name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return false, err
		}
		out = os.NewFile(uintptr(o), e.name)
		defer out.Close()
	case unix.S_IFLNK:
		target, err := readLink(fd)
		if err == nil {
			err = unix.Symlinkat(target, d.out, e.name)
		}
		if err != nil {
			return false, err
		}
	default:
		err := unix.Mknodat(d.out, e.name, uint32(st.Mode)&unix.S_IFMT|0o600, int(unix.Mkdev(st.Rdev_major, st.Rdev_minor)))
		if errors.Is(err, unix.EPERM) && (kind == unix.S_IFCHR || kind == unix.S_IFBLK) {
			w.result.refused.Add(1)
			w.result.files.Add(-1)
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	e.kind = kindOf(st)
	m := meta{from: ofFile(fd), to: upfile.Below(d.out, e.name), st: st}
	// Attributes are read before the data: overlayfs copies the data of a metacopy before it removes the attribute.
	if err := m.before(); err != nil {
		return false, err
	}
	if in != nil {
		if cloned, err = w.copyData(e, in, out, int64(st.Size)); err != nil {
			return false, err
		}
		w.afterData(d.below(e.name))
	}
	return cloned, m.after()
}

// readLink returns the target of a link that is open as a path.
func readLink(fd int) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(fd, "", buf[:])
	return string(buf[:max(n, 0)]), err
}
