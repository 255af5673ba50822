package trash

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/durable"
)

// maxName leaves room for what is appended to a name; a file name has at most
// 255 bytes.
const maxName = 200

// checkedSuffix marks an entry whose check has passed. The check may lean on
// what lies in the entry, so it can't be asked again once deletion has begun.
const checkedSuffix = ".checked"

// Options are what the trash asks and tells its owner. Both functions are
// called by the worker, one at a time.
type Options struct {
	// Busy says whether somebody still uses the entry, given as the path that
	// Put returned. A busy entry is asked about again later, one second at
	// first, a minute at most; and so is one where the answer was an error,
	// which is reported once. Nil means that no entry is ever busy.
	Busy func(entry string) (bool, error)
	// Report is told what became of an entry. Nil means that nobody listens.
	Report func(Report)
}

// Report says what became of an entry.
type Report struct {
	// Entry is the path that Put returned.
	Entry string
	// Removed counts the files and directories that were deleted.
	Removed int
	// Left counts those that could not be, without what is below them.
	Left int
	// Err is nil when the entry is gone. Else it is the first reason why it
	// is not; with Left 0 it may be that of the check, which is asked again.
	Err error
}

// Trash is a directory of entries to be deleted. Its methods may be called
// concurrently.
type Trash struct {
	dir  string
	opts Options
	// wake has the worker look at the queue again.
	wake chan struct{}
	// releasing is held by the one `before` that runs.
	releasing sync.Mutex

	mu    sync.Mutex
	queue []*item
	// pending counts the entries that are queued, being released or being
	// deleted; idle is closed when it gets to 0.
	pending int
	idle    chan struct{}
}

// item is an entry on its way.
type item struct {
	entry    string // the path that Put returned
	checked  bool
	reported bool          // that the check failed
	due      time.Time     // when to ask, zero for now
	wait     time.Duration // before the last question
}

// Open uses dir, made with mode 0700 if it is missing, and queues what an
// earlier run left in it. Nothing is deleted before Run. Only one Trash may use
// a directory at a time.
func Open(dir string, opts Options) (*Trash, error) {
	if err := durable.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open trash: %w", err)
	}
	t := &Trash{dir: dir, opts: opts, wake: make(chan struct{}, 1)}
	for _, e := range entries {
		name, checked := strings.CutSuffix(e.Name(), checkedSuffix)
		if name == "" { // not one of ours, and never the directory itself
			name, checked = e.Name(), false
		}
		t.add()
		t.enqueue(&item{entry: filepath.Join(dir, name), checked: checked})
	}
	return t, nil
}

// Put renames path, which is on the same filesystem, into the trash and queues
// its deletion. It does not sync: after a loss of power path may be back. The
// entry that it returns begins with name, one path element of at most 200
// bytes.
func (t *Trash) Put(path, name string) (entry string, err error) {
	return t.PutAfter(path, name, nil)
}

// PutAfter is Put, and calls before in the background before the entry is
// checked: what holds on to the entry and takes its time to let go. It runs
// without waiting for deletions, and for Run, but for that of other entries.
// After an error it was not called.
func (t *Trash) PutAfter(path, name string, before func()) (entry string, err error) {
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", fmt.Errorf("put %q into the trash: name %q is not one path element of at most %d bytes", path, name, maxName)
	}
	var unique [8]byte
	rand.Read(unique[:])
	entry = filepath.Join(t.dir, name+"-"+hex.EncodeToString(unique[:]))
	if err := durable.RenameVolatile(path, entry); err != nil {
		return "", fmt.Errorf("put into the trash: %w", err)
	}
	it := &item{entry: entry}
	t.add()
	if before == nil {
		t.enqueue(it)
		return entry, nil
	}
	go func() {
		// One at a time: each may keep a thread in the kernel for seconds.
		t.releasing.Lock()
		before()
		t.releasing.Unlock()
		t.enqueue(it)
	}()
	return entry, nil
}

// Retry asks about the busy entries now instead of when their time comes.
func (t *Trash) Retry() {
	t.mu.Lock()
	for _, it := range t.queue {
		it.due = time.Time{}
	}
	t.mu.Unlock()
	t.poke()
}

// Idle waits until every entry is deleted or reported as impossible to delete.
// A busy entry is neither, so give the context a deadline. The error is the
// context's.
func (t *Trash) Idle(ctx context.Context) error {
	for {
		t.mu.Lock()
		pending, idle := t.pending, t.idle
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

// add counts one more entry that is not done with.
func (t *Trash) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pending == 0 {
		t.idle = make(chan struct{})
	}
	t.pending++
}

// done counts one less.
func (t *Trash) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if t.pending == 0 {
		close(t.idle)
	}
}

func (t *Trash) enqueue(it *item) {
	t.mu.Lock()
	t.queue = append(t.queue, it)
	t.mu.Unlock()
	t.poke()
}

func (t *Trash) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// next takes the first entry that is due out of the queue, or says when to
// look again: after wait, or when woken if it is 0.
func (t *Trash) next(now time.Time) (it *item, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, q := range t.queue {
		d := q.due.Sub(now)
		if d <= 0 {
			t.queue = append(t.queue[:i], t.queue[i+1:]...)
			return q, 0
		}
		if wait == 0 || d < wait {
			wait = d
		}
	}
	return nil, wait
}
