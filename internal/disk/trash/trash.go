package trash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
)

// errForeign is reported for a file in the directory that Put did not make.
var errForeign = errors.New("not a name that the trash gives: it is left alone")

// maxName is in bytes. A file name has at most 255: the rest is for the size and the
// random suffix.
const maxName = 200

// Report says what became of an entry.
type Report struct {
	// Entry is the path that Put returned.
	Entry string
	// Removed counts the files and directories that were deleted in its last turn.
	Removed int
	// Left counts those that could not be deleted, without what is below them.
	Left int
	// Err is nil if the entry is gone, else the first error. Another report follows an
	// ErrLater.
	Err error
}

// Trash is a directory of entries to be deleted. Its methods may be called
// concurrently.
type Trash struct {
	dir    string
	report func(Report)
	// reserve is released when deletion itself runs out of room, and filled again when
	// there is room; may be nil.
	reserve *disk.Reserve
	// wake makes the worker look at the queue again.
	wake chan struct{}
	pace *disk.Pace
	rest int64 // of pace, outside of Hurry
	turn time.Duration
	// pause is how long a postponed entry rests the first time.
	pause time.Duration

	mu    sync.Mutex
	queue []*entry
	// yield ends the turn of a postponed entry, while it has one.
	yield context.CancelFunc
	// idle is closed while nothing is pending.
	idle    chan struct{}
	hurries int
	// quicken ends a deletion at low priority, or a measurement; nil while there is none.
	quicken context.CancelFunc
	stuck   disk.Size
}

// entry is a file or directory to be deleted.
type entry struct {
	path string
	// size is nil until it is known; it is what counts as about to be freed.
	size *disk.Size
	// later is the size of a postponed entry when its last turn ended.
	later disk.Size
	// work is set while the entry is being deleted.
	work *remover
	// pause is how long it rests until it is due again; 0 if it was never postponed.
	pause time.Duration
	due   time.Time
}

// Open returns the trash in dir, which it makes with mode 0700 if it is missing, and
// queues what an earlier run left there. A name that Put does not give is reported and
// left alone. Run deletes the entries and calls report, which may be nil, for each. The
// reserve, which may be nil too, is for deletions on a full disk. Only one Trash may use
// a directory at a time.
func Open(dir string, reserve *disk.Reserve, report func(Report)) (*Trash, error) {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	if report == nil {
		report = func(Report) {}
	}
	t := &Trash{dir: dir, reserve: reserve, report: report, wake: make(chan struct{}, 1), pace: disk.NewPace(rest), rest: rest, turn: firstTurn, pause: firstPause}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		size, ours := parseName(e.Name())
		if !ours {
			report(Report{Entry: path, Left: 1, Err: errForeign})
			continue
		}
		t.add(&entry{path: path, size: size})
	}
	return t, nil
}

// Put renames path into the trash and queues its deletion. path must be on the same
// filesystem, and unused. Put does not sync: after a power loss path may be back. The
// name of the returned entry begins with name, one path element of at most 200 bytes. The
// size is measured in the background. If the disk has no room for the entry, Put deletes
// some of path first.
func (t *Trash) Put(path, name string) (entry string, err error) {
	return t.PutSized(path, name, disk.Size{})
}

// PutSized is Put with a known size, which the trash counts at once instead of measuring
// it. The zero Size means unknown.
func (t *Trash) PutSized(path, name string, known disk.Size) (string, error) {
	var size *disk.Size
	if known != (disk.Size{}) {
		size = &known
	}
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", fmt.Errorf("put %q into the trash: name %q is not one path element of at most %d bytes", path, name, maxName)
	}
	e := &entry{path: filepath.Join(t.dir, entryName(name, size)), size: size}
	rename := func() error { return durable.RenameVolatile(path, e.path) }
	err := t.Retry(rename)
	for disk.NoRoom(err) && deleteSome(path) {
		if err = rename(); errors.Is(err, unix.ENOENT) {
			return e.path, nil // nothing is left of it
		}
	}
	if err != nil {
		return "", fmt.Errorf("put into the trash: %w", err)
	}
	failpoint.Hit("trash/put/renamed")
	t.add(e)
	return e.path, nil
}

// Clear is PutSized, but a missing path is not an error.
func (t *Trash) Clear(path, name string, known disk.Size) error {
	_, err := t.PutSized(path, name, known)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Retry calls f, a step of a removal that may need a block. If the disk is full it
// releases the reserve and calls f again.
func (t *Trash) Retry(f func() error) error { return t.reserve.Retry(f) }

// add queues an entry and wakes the worker.
func (t *Trash) add(e *entry) {
	t.mu.Lock()
	if t.pending() == 0 {
		t.idle = make(chan struct{})
	}
	if t.yield != nil {
		t.yield()
	}
	t.queue = append(t.queue, e)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}
