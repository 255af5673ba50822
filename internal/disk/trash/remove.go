package trash

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
)

// remover is a disk.Visitor that deletes what it visits.
type remover struct {
	removed  atomic.Int64
	left     int   // in this pass
	full     int   // directories of this pass that were not empty at the end
	err      error // the first of this pass
	progress bool  // in this pass
	// some, if it is not nil, is called whenever someFiles more are deleted, on the same thread.
	some func()
}

// passes is how many passes one turn makes over an entry: files that are left then were
// added meanwhile.
const passes = 3

// remove deletes the file or directory at path with all that is below. It makes several
// passes, because reading a directory while it changes can miss names, until all is gone
// or a pass deletes nothing. After the last pass the error is ErrLater. The Report does
// not name the entry.
func (r *remover) remove(ctx context.Context, path string, pace *disk.Pace) Report {
	return r.removeBy(ctx, path, r, pace)
}

// removeBy is remove with a visitor that reports to r.
func (r *remover) removeBy(ctx context.Context, path string, v disk.Visitor, pace *disk.Pace) Report {
	for pass := 1; ; pass++ {
		r.left, r.full, r.err, r.progress = 0, 0, nil, false
		if err := disk.Walk(ctx, path, v, pace); err != nil {
			r.fail(path, err)
			r.progress = false
		}
		switch {
		case r.left+r.full == 0:
		case r.progress && pass < passes:
			continue
		case r.progress:
			r.err = later(r.err)
		case r.left == 0:
			r.fail(path, unix.ENOTEMPTY)
		}
		return Report{Removed: int(r.removed.Load()), Left: r.left, Err: r.err}
	}
}

// Visit deletes a file of any kind or an empty directory, without opening or
// following it.
func (r *remover) Visit(e disk.Entry) (enter bool) {
	var flags int
	if e.Type == unix.DT_DIR {
		flags = unix.AT_REMOVEDIR
	}
	err := unix.Unlinkat(e.Dir, e.Name, flags)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(e.Dir, e.Name, unix.AT_REMOVEDIR)
	}
	return r.deleted(e, err)
}

func (r *remover) Leave(e disk.Entry) {
	if r.deleted(e, unix.Unlinkat(e.Dir, e.Name, unix.AT_REMOVEDIR)) {
		r.full++
	}
	failpoint.Hit("trash/remove/emptied")
}

func (r *remover) Skip(e disk.Entry, err error) {
	if !errors.Is(err, unix.ENOENT) {
		r.fail(e.Name, err)
	}
}

// deleted records the result of a deletion, and reports whether e is a directory that is
// not empty.
func (r *remover) deleted(e disk.Entry, err error) (full bool) {
	switch {
	case err == nil:
		if r.removed.Add(1)%someFiles == 0 && r.some != nil {
			r.some()
		}
		r.progress = true
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return true
	case errors.Is(err, unix.ENOENT):
	default:
		r.fail(e.Name, err)
	}
	return false
}

func (r *remover) fail(name string, err error) {
	r.left++
	if r.err == nil {
		r.err = fmt.Errorf("delete %q: %w", name, err)
	}
}

// someFiles is the approximate number of files that deleteSome deletes.
const someFiles = 64

// deleteSome deletes some files of path, to make room for its new name, and reports
// whether it deleted any.
func deleteSome(path string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &remover{some: cancel}
	return r.remove(ctx, path, nil).Removed > 0
}
