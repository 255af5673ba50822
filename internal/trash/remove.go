package trash

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/failpoint"
)

// remover deletes one directory, top. It never goes deeper than its children:
// a grandchild that is not empty is hoisted, that is, renamed to be a child
// itself under a name that we choose. So the depth of the tree costs neither
// descriptors nor stack nor path length, and the children that are left to do
// are a range of numbers.
type remover struct {
	ctx    context.Context
	top    int
	prefix string // of the hoisted; random, for the names in the tree are the enemy's
	made   int    // hoisted so far
	next   int    // of these, the first that was not emptied yet
	// topBuf has names of top while buf has those of a child: some 2,000.
	topBuf, buf []byte

	removed  int
	left     int   // in this pass
	err      error // the first of this pass
	progress bool  // in this pass
}

// remove deletes the file or directory at path with all that is below. Report
// comes without the entry.
func remove(ctx context.Context, path string) Report {
	parent, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Report{Left: 1, Err: fmt.Errorf("open %q: %w", filepath.Dir(path), err)}
	}
	defer unix.Close(parent)
	name := filepath.Base(path)
	var unique [8]byte
	rand.Read(unique[:])
	r := &remover{
		ctx:    ctx,
		prefix: ".hoisted-" + hex.EncodeToString(unique[:]) + "-",
		topBuf: make([]byte, 64<<10),
		buf:    make([]byte, 64<<10),
	}
	if full := r.unlink(parent, name); full {
		r.top, err = openBelow(parent, name)
		if err != nil {
			r.fail(name, err)
		} else {
			defer unix.Close(r.top)
			r.run(parent, name)
		}
	}
	return Report{Removed: r.removed, Left: r.left, Err: r.err}
}

// run goes over the children until all are gone, or a pass changes nothing. A
// pass may leave some that the next can do: reading a directory while it
// changes may miss names, and a full disk or a limit on links may refuse to
// hoist until others are gone.
func (r *remover) run(parent int, name string) {
	for {
		r.left, r.err, r.progress = 0, nil, false
		r.clear(r.top, r.topBuf, func(child string) { r.child(child); r.hoisted() })
		r.hoisted()
		if err := r.ctx.Err(); err != nil {
			r.err = err
			return
		}
		if r.left == 0 && !r.unlink(parent, name) {
			return
		}
		if !r.progress {
			if r.left == 0 {
				r.fail(name, unix.ENOTEMPTY)
			}
			return
		}
	}
}

// hoisted empties the children that were made by hoisting, which may make
// more of them.
func (r *remover) hoisted() {
	for ; r.next < r.made && r.ctx.Err() == nil; r.next++ {
		r.child(r.name(r.next))
	}
}

func (r *remover) name(i int) string { return r.prefix + strconv.Itoa(i) }

// child empties a child of top and deletes it.
func (r *remover) child(name string) {
	fd, err := openBelow(r.top, name)
	if errors.Is(err, unix.ENOENT) {
		return // hoisted and done before its name was read
	}
	if err != nil {
		r.fail(name, err)
		return
	}
	defer unix.Close(fd)
	left := r.left
	r.clear(fd, r.buf, func(grandchild string) { r.hoist(fd, grandchild) })
	if r.left == left && r.ctx.Err() == nil && r.unlink(r.top, name) {
		r.fail(name, unix.ENOTEMPTY)
	}
}

// hoist makes a grandchild a child.
func (r *remover) hoist(dir int, name string) {
	if err := unix.Renameat(dir, name, r.top, r.name(r.made)); err != nil {
		r.fail(name, err)
		return
	}
	failpoint.Hit("trash/remove/hoisted")
	r.made++
	r.progress = true
}

// clear deletes what dir has but for directories that are not empty, which it
// hands to full.
func (r *remover) clear(dir int, buf []byte, full func(name string)) {
	var names []string
	// top is read once in each pass.
	if _, err := unix.Seek(dir, 0, unix.SEEK_SET); err != nil {
		r.fail("", fmt.Errorf("read directory: %w", err))
		return
	}
	for r.ctx.Err() == nil {
		n, err := unix.ReadDirent(dir, buf)
		if err != nil {
			r.fail("", fmt.Errorf("read directory: %w", err))
			return
		}
		if n == 0 {
			return
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names[:0])
		for _, name := range names {
			if r.unlink(dir, name) {
				full(name)
			}
		}
	}
}

// unlink deletes a file of any kind or an empty directory, without opening or
// following it, and says whether it is a directory that is not empty.
func (r *remover) unlink(dir int, name string) (full bool) {
	err := unix.Unlinkat(dir, name, 0)
	if errors.Is(err, unix.EISDIR) {
		err = unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	}
	switch {
	case err == nil:
		r.removed++
		r.progress = true
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return true
	case errors.Is(err, unix.ENOENT):
	default:
		r.fail(name, err)
	}
	return false
}

func (r *remover) fail(name string, err error) {
	r.left++
	if r.err == nil {
		r.err = fmt.Errorf("delete %q: %w", name, err)
	}
}

// openBelow opens the directory name of dir to be read, unless it is a link,
// or a mount point even of the same filesystem.
func openBelow(dir int, name string) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}
