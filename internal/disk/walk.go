package disk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// ErrMoved means that a directory was moved while it was read: the walk skipped the rest
// of it.
var ErrMoved = errors.New("a directory was moved while it was read")

// Entry is a name in a directory.
type Entry struct {
	// Dir is a descriptor of the directory, good until the visitor returns.
	Dir  int
	Name string
	// Type is unix.DT_DIR and the like, or DT_UNKNOWN.
	Type uint8
	// Depth is 0 for the path that Walk was given.
	Depth int
}

// Kind is Type, but asks for one that the directory did not tell.
func (e Entry) Kind() uint8 {
	if e.Type != unix.DT_UNKNOWN {
		return e.Type
	}
	var st unix.Stat_t
	if unix.Fstatat(e.Dir, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return unix.DT_UNKNOWN
	}
	return uint8(st.Mode & unix.S_IFMT >> 12) // the types are defined so
}

// HasAttribute reports whether the entry itself has an extended attribute.
func (e Entry) HasAttribute(name string) bool {
	_, err := unix.Lgetxattr(fmt.Sprintf("/proc/self/fd/%d/%s", e.Dir, e.Name), name, nil)
	return err == nil
}

// Visitor is called by Walk, from one goroutine. It may delete what it visits.
type Visitor interface {
	// Visit reports whether to enter e, which should be a directory then.
	Visit(e Entry) (enter bool)
	// Leave is called after all entries of a directory were visited, unless the directory
	// vanished or was moved meanwhile.
	Leave(e Entry)
	// Skip is called for a directory that can't be opened, or, with an entry that has
	// only its depth, for one that can't be read on.
	Skip(e Entry, err error)
}

const (
	// window is how many directories, the deepest ones, are open besides the top.
	window = 4
	// batch is how many bytes of a directory are read at once: some 400 names. After
	// going more than window directories down, so much is read again on the way up.
	batch = 16 << 10
)

// walk goes down by descriptor and up by "..", so that depth costs neither descriptors
// nor path length. A directory that was closed on the way down is opened again from its
// child, and must be the same inode: a program that moves directories can hide files, but
// not lead the walk elsewhere.
type walk struct {
	v   Visitor
	dev uint64
	// levels are the directories from the top to where we are.
	levels []level
}

// level is one directory on the way down.
type level struct {
	ino uint64
	// at and next are the positions of the entry that was entered, and of the one after
	// it.
	at, next int64
	*reader  // nil while the directory is closed
}

// reader is an open directory.
type reader struct {
	fd   int
	buf  *[batch]byte
	rest []byte // of buf, not parsed yet
	pos  int64  // of rest
	name string // of the entry that was entered
}

// dirent is a directory entry as the kernel returns it.
type dirent struct {
	ino      uint64
	at, next int64
	kind     uint8
	name     string
}

// Walk visits path and all that is below it, in no particular order. It follows no
// symbolic link, enters no mount, opens nothing but directories, and needs a constant
// number of descriptors and 32 bytes for each level. It may or may not visit entries that
// appear or vanish meanwhile. The error is the context's, or that of opening the parent
// of path. pace may be nil.
func Walk(ctx context.Context, path string, v Visitor, pace *Pace) error {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", filepath.Dir(path), err)
	}
	defer unix.Close(parent)
	return walkIn(ctx, parent, filepath.Base(path), v, pace)
}

// walkIn is Walk for the entry name of the directory parent.
func walkIn(ctx context.Context, parent int, name string, v Visitor, pace *Pace) error {
	top := Entry{Dir: parent, Name: name}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !v.Visit(top) {
		return nil
	}
	if pace != nil { // it looks at the time of the thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	defer pace.stop()
	w := &walk{v: v}
	defer w.close()
	w.enter(top, 0, 0)
	if len(w.levels) == 0 {
		return nil
	}
	for {
		if err := pace.pause(ctx); err != nil {
			return err
		}
		l := &w.levels[len(w.levels)-1]
		d, ok, err := l.read()
		switch {
		case err != nil:
			v.Skip(Entry{Depth: len(w.levels) - 1}, fmt.Errorf("read directory: %w", err))
			fallthrough
		case !ok:
			if len(w.levels) == 1 {
				v.Leave(top)
				return nil
			}
			w.leave()
		default:
			e := Entry{Dir: l.fd, Name: d.name, Type: d.kind, Depth: len(w.levels)}
			if v.Visit(e) {
				w.enter(e, d.at, d.next)
			}
		}
	}
}

// enter opens the directory e, and closes the one that falls out of the window.
func (w *walk) enter(e Entry, at, next int64) {
	fd, err := openBelow(e.Dir, e.Name)
	if err != nil {
		w.v.Skip(e, err)
		return
	}
	dev, ino, err := identity(fd)
	if err != nil || len(w.levels) > 0 && dev != w.dev {
		unix.Close(fd)
		w.v.Skip(e, errors.Join(err, unix.EXDEV))
		return
	}
	w.dev = dev
	if n := len(w.levels); n > 0 {
		l := &w.levels[n-1]
		l.at, l.next, l.name = at, next, e.Name
	}
	w.levels = append(w.levels, level{ino: ino, reader: newReader(fd)})
	if out := len(w.levels) - 1 - window; out > 0 { // the top stays open
		w.drop(&w.levels[out])
	}
}

// leave returns from a finished directory to its parent.
func (w *walk) leave() {
	n := len(w.levels) - 1
	child := w.levels[n]
	w.levels = w.levels[:n]
	defer w.drop(&child)
	l := &w.levels[n-1]
	if l.reader != nil {
		w.v.Leave(Entry{Dir: l.fd, Name: l.name, Type: unix.DT_DIR, Depth: n})
		return
	}
	fd, err := unix.Openat(child.fd, "..", openFlags, 0)
	if err == nil {
		var dev, ino uint64
		if dev, ino, err = identity(fd); err == nil && (dev != w.dev || ino != l.ino) {
			err = ErrMoved
		}
		if err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		// All directories between here and the top are closed.
		w.levels = w.levels[:1]
		w.v.Skip(Entry{Depth: n - 1}, err)
		return
	}
	l.reader = newReader(fd)
	// The child's name was dropped when the directory was closed. It is the first one at
	// this position, or near it if others were made meanwhile.
	l.seek(l.at)
	for d, ok, err := l.read(); ok && err == nil; d, ok, err = l.read() {
		if d.ino == child.ino {
			w.v.Leave(Entry{Dir: l.fd, Name: d.name, Type: unix.DT_DIR, Depth: n})
			break
		}
		if len(l.rest) == 0 {
			break
		}
	}
	l.seek(l.next)
}

// buffers has the buffers of readers. Most walks are over a few directories, and many begin and end with each Mount.
var buffers = sync.Pool{New: func() any { return new([batch]byte) }}

func newReader(fd int) *reader { return &reader{fd: fd, buf: buffers.Get().(*[batch]byte)} }

// drop closes a directory.
func (w *walk) drop(l *level) {
	if l.reader != nil {
		unix.Close(l.fd)
		buffers.Put(l.buf)
		l.reader = nil
	}
}

func (w *walk) close() {
	for i := range w.levels {
		w.drop(&w.levels[i])
	}
}

// seek makes read continue at the position of an entry.
func (r *reader) seek(at int64) {
	r.rest, r.pos = nil, at
	// read will return an error too.
	_, _ = unix.Seek(r.fd, at, unix.SEEK_SET)
}

// read returns the next entry; ok is false after the last one.
func (r *reader) read() (d dirent, ok bool, err error) {
	for {
		if len(r.rest) == 0 {
			n, err := unix.Getdents(r.fd, r.buf[:])
			if err != nil || n == 0 {
				return dirent{}, false, err
			}
			r.rest = r.buf[:n]
		}
		// struct linux_dirent64: ino, off, reclen, type, name with a zero.
		e := r.rest
		size := binary.NativeEndian.Uint16(e[16:])
		d.ino, d.at, d.next = binary.NativeEndian.Uint64(e), r.pos, int64(binary.NativeEndian.Uint64(e[8:]))
		d.kind = e[18]
		name, _, _ := bytes.Cut(e[19:size], []byte{0})
		r.rest, r.pos = e[size:], d.next
		if string(name) != "." && string(name) != ".." {
			d.name = string(name)
			return d, true, nil
		}
	}
}

func identity(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	return st.Dev, st.Ino, err
}

// openFlags leave access times alone, so that measuring writes nothing.
const openFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_NOATIME | unix.O_CLOEXEC

// openBelow opens the directory name in dir for reading, unless it is a link or a mount
// point, even one of the same filesystem.
func openBelow(dir int, name string) (int, error) { return OpenAt(dir, name, openFlags) }

// WalkBelow is Walk for a path below dir, which is found as Open does.
func WalkBelow(ctx context.Context, dir *os.File, path string, v Visitor, pace *Pace) error {
	parent, err := Open(dir, filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer parent.Close()
	return walkIn(ctx, int(parent.Fd()), filepath.Base(path), v, pace)
}
