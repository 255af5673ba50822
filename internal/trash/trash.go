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
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
)

// errForeign is reported of what is in the directory and was not put there.
var errForeign = errors.New("its name is none that the trash gives: it is left alone")

// maxName leaves room for what is appended to a name; a file name has at most
// 255 bytes.
const maxName = 200

// Report says what became of an entry.
type Report struct {
	// Entry is the path that Put returned.
	Entry string
	// Removed counts the files and directories that were deleted in its turn.
	Removed int
	// Left counts those that could not be, without what is below them.
	Left int
	// Err is nil when the entry is gone, else the first reason why it is not; an
	// ErrLater is followed by another report.
	Err error
}

// Trash is a directory of entries to be deleted. Its methods may be called
// concurrently.
type Trash struct {
	dir    string
	report func(Report)
	// reserve is given up when there is no room for what deletion takes; nil for
	// none.
	reserve *disk.Reserve
	// wake has the worker look at the queue again.
	wake chan struct{}
	pace *disk.Pace
	rest int64 // of pace, while nobody hurries
	turn time.Duration
	// pause is how long an entry that was put back rests the first time.
	pause time.Duration

	mu    sync.Mutex
	queue []*entry
	// yield ends the turn of an entry that was put back, while it has one.
	yield context.CancelFunc
	// idle is closed when nothing is pending.
	idle    chan struct{}
	hurries int
	stuck   disk.Size
}

// entry is what is to be deleted.
type entry struct {
	path string
	// size is nil until it is known.
	size *disk.Size
	// work is set while it is deleted.
	work *remover
	// pause is how long it rests before it is due again; 0 until it was put back.
	pause time.Duration
	due   time.Time
}

// Open uses dir, made with mode 0700 if it is missing, and queues what an
// earlier run left in it. What Put did not name is reported and left alone.
// Nothing is deleted before Run, which tells report, if it is not nil, what
// became of each entry. Only one Trash may use a directory at a time.
func Open(dir string, report func(Report)) (*Trash, error) {
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
	t := &Trash{dir: dir, report: report, wake: make(chan struct{}, 1), pace: disk.NewPace(rest), rest: rest, turn: firstTurn, pause: firstPause}
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

// Put renames path, which is on the same filesystem and which nobody uses any
// more, into the trash and queues its deletion. It does not sync: after a loss
// of power path may be back. The entry that it returns begins with name, one
// path element of at most 200 bytes. What path takes is measured in the
// background. On a disk that has no room for the entry, some of path is deleted
// first.
func (t *Trash) Put(path, name string) (entry string, err error) {
	return t.PutSized(path, name, disk.Size{})
}

// PutSized is Put of something whose size is known already: the trash counts it at
// once, and does not measure it. Zero is not known.
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
	for errors.Is(err, unix.ENOSPC) && nibble(path) {
		if err = rename(); errors.Is(err, unix.ENOENT) {
			return e.path, nil // there was no more of it
		}
	}
	if err != nil {
		return "", fmt.Errorf("put into the trash: %w", err)
	}
	failpoint.Hit("trash/put/renamed")
	t.add(e)
	return e.path, nil
}

// Clear is PutSized of what may be gone already, which is no error.
func (t *Trash) Clear(path, name string, known disk.Size) error {
	_, err := t.PutSized(path, name, known)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Use has r given up when the disk is full, and filled again once there is room. It
// is to be called before Run.
func (t *Trash) Use(r *disk.Reserve) { t.reserve = r }

// Retry calls f, a step of a removal that may need a block, and on a full disk
// once more with the reserve given up.
func (t *Trash) Retry(f func() error) error { return t.reserve.Retry(f) }

// Idle waits until every entry is deleted or reported as impossible to delete,
// for now or for good. The error is the context's.
func (t *Trash) Idle(ctx context.Context) error {
	for {
		t.mu.Lock()
		pending, idle := t.pending(), t.idle
		t.mu.Unlock()
		if pending == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-idle:
		}
	}
}

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
