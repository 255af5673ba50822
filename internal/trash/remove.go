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

// remover is the Visitor that deletes what it is shown.
type remover struct {
	removed  atomic.Int64
	left     int   // in this pass
	full     int   // directories that were not empty when they were left, likewise
	err      error // the first of this pass
	progress bool  // in this pass
	// enough, if it is not nil, is called after a bite.
	enough func()
}

// passes is how often one turn goes over an entry: what is left after so many was
// made meanwhile.
const passes = 3

// remove deletes the file or directory at path with all that is below. It goes
// over it until all is gone, or a pass changes nothing: one may leave some that
// the next can do, for reading a directory while it changes may miss names. After
// so many passes the error is ErrLater. Report comes without the entry.
func (r *remover) remove(ctx context.Context, path string, pace *disk.Pace) Report {
	return r.removeBy(ctx, path, r, pace)
}

// removeBy is remove with a visitor that tells r.
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

// deleted takes what a deletion returned, and says whether it is a directory that
// is not empty.
func (r *remover) deleted(e disk.Entry, err error) (full bool) {
	switch {
	case err == nil:
		if r.removed.Add(1) == bite && r.enough != nil {
			r.enough()
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

// bite is how many files nibble deletes.
const bite = 64

// nibble deletes some of what is at path, to have room for its new name, and
// reports whether there was anything.
func nibble(path string) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &remover{enough: cancel}
	return r.remove(ctx, path, nil).Removed > 0
}
