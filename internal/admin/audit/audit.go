package audit

import (
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/origin"
)

const (
	// Files is how many files there are at most.
	Files = 8
	// MinSize is the least Config.Size: a file then has room for one record at least.
	MinSize = Files * maxLine
	// SyncAfter is how long a record may wait until it is synced.
	SyncAfter = time.Second
	// maxWaiting and maxWeight bound the records that wait while the files can't be written:
	// their number, and about the bytes of their texts.
	maxWaiting = 4096
	maxWeight  = 4 << 20
	// retryFirst and retryMost bound the wait before another try.
	retryFirst = time.Second
	retryMost  = 30 * time.Second
)

// The results of a record.
const (
	OK     = "ok"
	Failed = "failed"
)

// The actions that this package records itself.
const (
	Started  = "start"
	Stopped  = "stop"
	Settings = "settings"
	Lost     = "lost"
)

// Config configures Open.
type Config struct {
	Dir  string // of the files; it is made
	Size int64  // of all files together, in bytes; MinSize at least
	Log  *logrus.Logger
	Now  func() time.Time
	// Settings are those of this start, by name, without secrets. Those that differ from the
	// last start's are recorded.
	Settings map[string]string
	// Defaults are what the settings are compared with at the first start.
	Defaults map[string]string
}

// Trail is the audit log. It is safe for concurrent use. A nil Trail records nothing.
type Trail struct {
	config Config
	began  time.Time
	wake   chan struct{} // has an element if the writer has something to do
	end    chan struct{} // closed by Close
	done   chan struct{} // closed when the writer has ended

	// files is held while files get other names, and while a reader opens one.
	files sync.Mutex

	mu      sync.Mutex // never held during I/O
	waiting []api.AuditRecord
	weight  int   // of waiting, in bytes
	lost    int64 // the number of records that were lost after those that wait
	missed  int64 // the number of all records that were lost since the start
	closed  bool
	// The rest is about the files. Only the writer changes it.
	first   int64         // the number of the first record in the current file; 0: it is not open
	size    int64         // of the complete lines in the current file
	failure error         // why the log can't be written now, or nil
	changed chan struct{} // closed at the next write
	readers int
}

// Open starts the log. It does no I/O: a log that can't be opened is tried again. Close ends
// it.
func Open(c Config) *Trail {
	l := &Trail{config: c, began: c.Now().UTC(), wake: make(chan struct{}, 1), end: make(chan struct{}), done: make(chan struct{}), changed: make(chan struct{})}
	go l.write()
	return l
}

// Close writes what waits, if that is possible, and ends the log.
func (l *Trail) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if !closed {
		close(l.end)
	}
	select {
	case <-l.done:
	case <-time.After(closeMost):
	}
}

// closeMost bounds Close: an engine waits ten seconds for the plugin's end.
const closeMost = 2 * time.Second

// Record adds a record. It sets Time and Result, and from the origin in ctx Request, Pod, VolumeID
// and, unless the record has one, Actor.
func (l *Trail) Record(ctx context.Context, r api.AuditRecord, err error) {
	if l == nil {
		return
	}
	o := origin.Of(ctx)
	r.Request, r.Pod, r.Result = o.Request, o.Pod, OK
	if r.VolumeID == "" {
		r.VolumeID = o.VolumeID
	}
	if r.Actor.Kind == "" {
		r.Actor = actorOf(o)
	}
	if err != nil {
		r.Result, r.Error = Failed, err.Error()
	}
	clip(&r)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return
	case len(l.waiting) >= maxWaiting || l.weight > maxWeight || l.lost > 0: // in order: the lost ones come after those that wait
		l.lost++
		l.missed++
	default:
		r.Time = l.config.Now().UTC() // with mu held, so that the times are in order
		l.waiting, l.weight = append(l.waiting, r), l.weight+weigh(r)
	}
	l.nudge()
}

// State returns how many records were lost since the start, and why the log can't be written
// now, or nil. It does no I/O.
func (l *Trail) State() (lost int64, failure error) {
	if l == nil {
		return 0, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed, l.failure
}

// Own is the actor of what the plugin did on its own.
var Own = api.Actor{Kind: "plugin"}

func actorOf(o origin.Origin) api.Actor {
	switch o.Actor.Kind {
	case origin.Engine:
		return api.Actor{Kind: "engine"}
	case origin.Kubelet:
		return api.Actor{Kind: "kubelet"}
	case origin.User:
		a := api.Actor{Kind: "user", Claim: o.Actor.Claim}
		if o.Actor.UID != origin.Unknown {
			a.UID = &o.Actor.UID
		}
		return a
	}
	return Own
}

// nudge wakes the writer.
func (l *Trail) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// take returns all records that wait, and how many were lost after them.
func (l *Trail) take() (list []api.AuditRecord, lost int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, lost = l.waiting, l.lost
	l.waiting, l.weight, l.lost = nil, 0, 0
	return list, lost
}
