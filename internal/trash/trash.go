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

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
)

// maxName leaves room for what is appended to a name; a file name has at most
// 255 bytes.
const maxName = 200

// Report says what became of an entry.
type Report struct {
	// Entry is the path that Put returned.
	Entry string
	// Removed counts the files and directories that were deleted.
	Removed int
	// Left counts those that could not be, without what is below them.
	Left int
	// Err is nil when the entry is gone, else the first reason why it is not.
	Err error
}

// Trash is a directory of entries to be deleted. Its methods may be called
// concurrently.
type Trash struct {
	dir    string
	report func(Report)
	// wake has the worker look at the queue again.
	wake chan struct{}

	mu    sync.Mutex
	queue []string
	// pending counts the entries that are queued or being deleted; idle is
	// closed when it gets to 0.
	pending int
	idle    chan struct{}
}

// Open uses dir, made with mode 0700 if it is missing, and queues what an
// earlier run left in it. Nothing is deleted before Run, which tells report, if
// it is not nil, what became of each entry. Only one Trash may use a directory
// at a time.
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
	t := &Trash{dir: dir, report: report, wake: make(chan struct{}, 1)}
	for _, e := range entries {
		t.add(filepath.Join(dir, e.Name()))
	}
	return t, nil
}

// Put renames path, which is on the same filesystem and which nobody uses any
// more, into the trash and queues its deletion. It does not sync: after a loss
// of power path may be back. The entry that it returns begins with name, one
// path element of at most 200 bytes.
func (t *Trash) Put(path, name string) (entry string, err error) {
	if name == "" || len(name) > maxName || name == "." || name == ".." || strings.Contains(name, "/") {
		return "", fmt.Errorf("put %q into the trash: name %q is not one path element of at most %d bytes", path, name, maxName)
	}
	var unique [8]byte
	rand.Read(unique[:])
	entry = filepath.Join(t.dir, name+"-"+hex.EncodeToString(unique[:]))
	if err := durable.RenameVolatile(path, entry); err != nil {
		return "", fmt.Errorf("put into the trash: %w", err)
	}
	failpoint.Hit("trash/put/renamed")
	t.add(entry)
	return entry, nil
}

// Idle waits until every entry is deleted or reported as impossible to delete.
// The error is the context's.
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

// add queues an entry and wakes the worker.
func (t *Trash) add(entry string) {
	t.mu.Lock()
	if t.pending == 0 {
		t.idle = make(chan struct{})
	}
	t.pending++
	t.queue = append(t.queue, entry)
	t.mu.Unlock()
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// done counts one entry less.
func (t *Trash) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pending--
	if t.pending == 0 {
		close(t.idle)
	}
}

// next takes the first entry out of the queue; "" when it is empty.
func (t *Trash) next() (entry string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.queue) > 0 {
		entry, t.queue = t.queue[0], t.queue[1:]
	}
	return entry
}

// unfinished puts an entry back to where next took it from.
func (t *Trash) unfinished(entry string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.queue = append([]string{entry}, t.queue...)
}
