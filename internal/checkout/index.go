package checkout

import (
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitindex"
)

// indexMemory is how many bytes a process takes for each of an index that it reads, at
// most, with what it took before.
const indexMemory = 3

// maxIndex bounds what is read of an index: two million files or more, several times
// those of the largest repositories that are not one company's everything.
const maxIndex = 256 << 20

// index is the index of a checkout: what it is of, and which of its files were written.
// It is not safe for concurrent use.
type index struct {
	*gitindex.Index
	checkout Spec
	written  map[string]bool // nil: all
	// unencoded are the first of the files that git could not encode.
	unencoded []Unencoded
}

// errFormat is why an index can't be read here that git may well read.
var errFormat = errors.New("the index has another format")

// idSize returns how many bytes an object ID of the repository has.
func (c Spec) idSize() int {
	if git.Format(c.Commit) == git.SHA256 {
		return sha256.Size
	}
	return sha1.Size
}

// indexSize returns how many bytes the index of a checkout has, zero if there is none.
func (c Spec) indexSize() (int64, error) {
	info, err := os.Lstat(filepath.Join(c.gitDir(), IndexFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readIndex reads an index of a checkout's repository.
func (c Spec) readIndex(name string) (*index, error) {
	path := filepath.Join(c.gitDir(), name)
	info, err := os.Lstat(path)
	if err == nil && info.Size() > maxIndex {
		err = fmt.Errorf("the commit %s has too many files: their index takes %d MiB, allowed are %d", c.Commit, info.Size()>>20, maxIndex>>20)
	}
	if err == nil && info.Size() > memoryLimit()/indexMemory {
		err = errMemory
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ix, err := gitindex.Parse(data, c.idSize())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errFormat, path, err)
	}
	return &index{Index: ix, checkout: c}, nil
}

// write makes the file of the index, a new one: what is there may be another layer's.
// Nobody has seen this tree yet, and it is built again when this does not come to
// its end.
func (ix *index) write() error {
	c := ix.checkout
	path := filepath.Join(c.gitDir(), IndexFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(ix.Encode(&steadyFile{File: f}), f.Close())
}

// wrote reports whether an entry's file was written by the checkout.
func (ix *index) wrote(e gitindex.Entry) bool {
	return e.IsFile() && (ix.written == nil || ix.written[e.Name()])
}

const (
	// setBack is how far the times of a tree's files are set back: git compares
	// whole seconds, and the clock may be read at the end of one.
	setBack = 2 * time.Second
	// clockTick is how far the time that the kernel gives a file may be behind the
	// clock: less than a tick, of which there are at least 100 a second.
	clockTick = 20 * time.Millisecond
)

// settle gives the files that the checkout has written the times that their entries
// have already, sets those two seconds back that are of the current second then, and
// writes the index, with what lstat says of all that were written.
//
// No file of a tree may carry the current second: git compares whole seconds, so
// a same-size edit in the second of the checkout would be invisible to git
// status, and an index as old as its files makes every container read them all
// at its first one. git itself could refresh the index, by reading every file
// once more, through every filter; here nothing but the times has changed.
func (ix *index) settle() error {
	c := ix.checkout
	dir, err := os.OpenFile(c.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	now := time.Now()
	var g errgroup.Group
	workers := max(1, min(runtime.NumCPU(), 8))
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(ix.Entries); i += workers {
				if !ix.wrote(ix.Entries[i]) {
					continue
				}
				if err := settleFile(int(dir.Fd()), ix.Entries[i], now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ix.write()
}

// settleFile notes what lstat says of an entry's file, which is older than now then.
func settleFile(dir int, e gitindex.Entry, now time.Time) error {
	var st unix.Stat_t
	stat := func() error {
		if err := unix.Fstatat(dir, e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("fstatat %q: %w", e.Name(), err)
		}
		return nil
	}
	current := now.Add(-clockTick).Unix()
	to := e.Mtime()
	// One that is not in the past is of a clock that was wrong.
	has := to != 0 && to/int64(time.Second) < current
	if !has {
		to = now.Add(-setBack).UnixNano()
		if err := stat(); err != nil {
			return err
		}
	}
	if has || st.Mtim.Sec >= current {
		t := unix.NsecToTimespec(to)
		if err := unix.UtimesNanoAt(dir, e.Name(), []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("utimensat %q: %w", e.Name(), err)
		}
		if err := stat(); err != nil {
			return err
		}
	}
	e.SetStat(&st)
	return nil
}
