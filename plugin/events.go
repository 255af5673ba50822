package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/janitor"
)

// eventLog keeps the janitor's events in the database, so that they survive a restart.
type eventLog struct {
	db  *meta.DB
	log *logrus.Logger

	mu      sync.Mutex
	kept    []meta.Event // in the database, oldest first
	pending []meta.Event
	changed chan struct{}
}

// eventDelay is how long an event waits for others, because a sweep may have thousands, and a
// transaction takes milliseconds. A crash loses those that wait.
const eventDelay = time.Second

func newEventLog(db *meta.DB, state meta.State, log *logrus.Logger) *eventLog {
	return &eventLog{
		db: db, log: log, changed: make(chan struct{}, 1),
		kept: slices.SortedFunc(maps.Values(state.Events), func(a, b meta.Event) int { return cmp.Compare(a.Seq, b.Seq) }),
	}
}

// earlier returns the events of earlier processes, oldest first.
func (l *eventLog) earlier() []janitor.Event {
	var list []janitor.Event
	for _, e := range l.kept {
		out := janitor.Event{
			Seq: e.Seq, Time: e.Time, Type: janitor.EventType(e.Type), Reason: janitor.Reason(e.Reason), Subject: e.Subject, Clone: e.Clone,
			ID: e.ID, Volume: e.Volume, Size: e.Size, Text: e.Text,
		}
		if k, ok := janitor.ParseKind(e.Kind); ok {
			out.Kind = &k
		}
		list = append(list, out)
	}
	return list
}

// record is janitor.Config.Recorded.
func (l *eventLog) record(e janitor.Event) {
	rec := meta.Event{
		Seq: e.Seq, Time: e.Time, Type: string(e.Type), Reason: string(e.Reason), Subject: e.Subject, Clone: e.Clone, ID: e.ID, Volume: e.Volume,
		Size: e.Size, Text: e.Text,
	}
	if e.Kind != nil {
		rec.Kind = e.Kind.String()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(l.pending, rec)
	if n := len(l.pending) - janitor.EventsKept; n > 0 {
		l.pending = l.pending[n:]
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// run saves events until ctx ends, and then those that are left.
func (l *eventLog) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.changed:
			select {
			case <-ctx.Done():
			case <-time.After(eventDelay):
			}
			l.save(ctx)
		}
	}
	l.save(ctx)
}

// save writes the events that wait, and deletes the oldest ones. If it fails, as on a full disk,
// the next event tries again.
func (l *eventLog) save(ctx context.Context) {
	l.mu.Lock()
	fresh := l.pending
	l.pending = nil
	l.mu.Unlock()
	if len(fresh) == 0 {
		return
	}
	all := slices.Concat(l.kept, fresh)
	old := all[:max(len(all)-janitor.EventsKept, 0)]
	err := l.db.Update(func(tx *meta.Tx) error {
		var errs []error
		for _, e := range fresh {
			errs = append(errs, tx.PutEvent(e))
		}
		for _, e := range old {
			errs = append(errs, tx.DeleteEvent(e))
		}
		return errors.Join(errs...)
	})
	if err == nil {
		l.kept = all[len(old):]
		return
	}
	l.log.WithContext(ctx).WithError(err).Warn("the events could not be saved")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = append(fresh, l.pending...)
	l.pending = l.pending[max(len(l.pending)-janitor.EventsKept, 0):]
}
