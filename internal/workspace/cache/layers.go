package cache

import (
	"errors"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
)

// below are the caches of published layers, topmost first. It holds open those that have the directory that was
// looked at last.
type below struct {
	tops upfile.Layers
	dir  string
	dirs upfile.Layers // nil before the first look
}

func openBelow(paths []string) (*below, error) {
	b := &below{}
	for _, path := range paths {
		dir, err := upfile.OpenDir(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			b.close()
			return nil, err
		}
		b.tops = append(b.tops, dir)
	}
	return b, nil
}

// find describes rel in the topmost layer that has it, and returns the directory that it is in, which is open until the
// next find. The error is fs.ErrNotExist if no layer has it.
func (b *below) find(rel string) (dir *os.File, st unix.Stat_t, err error) {
	if at := path.Dir(rel); b.dirs == nil || at != b.dir {
		b.dirs.Close()
		b.dir, b.dirs = at, make(upfile.Layers, 0, len(b.tops))
		for _, top := range b.tops {
			dir, err := disk.Open(top, at, unix.O_PATH|unix.O_DIRECTORY)
			switch {
			case err == nil:
				b.dirs = append(b.dirs, dir)
			case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
				b.dirs.Close()
				b.dirs = nil
				return nil, st, err
			}
		}
	}
	for _, dir := range b.dirs {
		st, err := upfile.Stat(int(dir.Fd()), path.Base(rel))
		if !errors.Is(err, fs.ErrNotExist) {
			return dir, st, err
		}
	}
	return nil, st, fs.ErrNotExist
}

func (b *below) close() {
	b.tops.Close()
	b.dirs.Close()
}

// target is the cache of a new layer, which only the plugin can change.
type target struct {
	top      *os.File
	uid, gid int
	path     string   // of the directory that was asked for last
	last     *os.File // nil before
}

func openTarget(path string, uid, gid int) (*target, error) {
	top, err := upfile.OpenDir(path)
	return &target{top: top, uid: uid, gid: gid}, err
}

// dir returns the directory rel, which it makes with its parents. It is open until the next call.
func (t *target) dir(rel string) (*os.File, error) {
	if rel == "." {
		return t.top, nil
	}
	if t.last != nil && t.path == rel {
		return t.last, nil
	}
	t.forget()
	dir, err := t.open(rel)
	if errors.Is(err, fs.ErrNotExist) {
		var parent *os.File
		if parent, err = t.dir(path.Dir(rel)); err != nil {
			return nil, err
		}
		fd, name := int(parent.Fd()), path.Base(rel)
		if err = unix.Mkdirat(fd, name, 0o755); err == nil {
			err = errors.Join(unix.Fchmodat(fd, name, 0o755, 0), unix.Fchownat(fd, name, t.uid, t.gid, unix.AT_SYMLINK_NOFOLLOW))
		}
		if err != nil {
			return nil, &fs.PathError{Op: "mkdir", Path: rel, Err: err}
		}
		t.forget()
		dir, err = t.open(rel)
	}
	if err != nil {
		return nil, err
	}
	t.path, t.last = rel, dir
	return dir, nil
}

func (t *target) open(rel string) (*os.File, error) {
	return disk.Open(t.top, rel, unix.O_PATH|unix.O_DIRECTORY)
}

func (t *target) forget() {
	if t.last != nil {
		t.last.Close()
		t.last = nil
	}
}

// remove removes the directory rel, and those above it that are empty then.
func (t *target) remove(rel string) error {
	t.forget()
	err := os.RemoveAll(upfile.Below(int(t.top.Fd()), rel))
	t.prune(path.Dir(rel))
	return err
}

// prune removes the directory rel, and those above it, as far as they are empty.
func (t *target) prune(rel string) {
	t.forget()
	for ; rel != "." && unix.Unlinkat(int(t.top.Fd()), rel, unix.AT_REMOVEDIR) == nil; rel = path.Dir(rel) {
	}
}

func (t *target) close() {
	t.forget()
	t.top.Close()
}
