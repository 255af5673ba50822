package layer

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// syncSoon has the layers that were just made synced in the background.
func (s *Store) syncSoon() {
	select {
	case s.syncs <- struct{}{}:
	default:
	}
}

// syncAfter is how long after they were made layers are synced: the Mount that had
// them made commits some records still, each of which would wait behind the sync.
const syncAfter = time.Second

// Run makes layers durable until ctx ends: one syncfs for all that wait, and then
// their records say so.
func (s *Store) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.syncs:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(syncAfter):
		}
		if len(s.pending()) == 0 {
			continue
		}
		if err := s.Sync(ctx); err != nil && ctx.Err() == nil {
			s.Log.WithError(err).Warn("sync layers: they are good for this boot only")
		}
		failpoint.Hit("layer/sync/recorded")
	}
}

// rounds lets callers share a sync that begins after they have asked.
type rounds struct {
	token chan struct{} // held by the one that syncs
	// begun is the number of the newest sync, and done that of the newest that
	// succeeded.
	begun, done atomic.Int64
}

// Sync writes everything below the root to disk, and has the records of the
// layers that waited for it say so. What was written before the call is on disk
// when it returns. It can take seconds; callers at the same time share one.
func (s *Store) Sync(ctx context.Context) error {
	r := &s.rounds
	asked := r.begun.Load()
	select {
	case r.token <- struct{}{}:
		defer func() { <-r.token }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if r.done.Load() > asked { // one that began after we had asked
		return nil
	}
	round := r.begun.Add(1)
	err := s.syncNow()
	if err == nil {
		r.done.Store(round)
	}
	return err
}

// waits reports whether a layer is not known to be on disk, and can be made so: what
// an earlier boot has not synced is not on disk, whatever is synced now.
func (s *Store) waits(l meta.Layer) bool { return !l.Durable && l.Boot == s.Boot }

func (s *Store) pending() (list []meta.Layer) {
	for _, set := range s.all() {
		list = append(list, slices.DeleteFunc(set.List(), func(l meta.Layer) bool { return !s.waits(l) })...)
	}
	return list
}

func (s *Store) syncNow() error {
	list := s.pending()
	if err := durable.SyncFS(s.Root); err != nil {
		return err
	}
	failpoint.Hit("layer/sync/synced")
	if len(list) == 0 {
		return nil
	}
	err := s.DB.Update(func(tx *meta.Tx) error {
		s.setDurable(list, true) // here, so that no Save that comes next puts back what was
		for _, l := range list {
			if err := s.Set(l.Clone).Save(tx, l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.setDurable(list, false) // no record says so: the next sync tries again
	}
	return err
}

func (s *Store) setDurable(list []meta.Layer, durable bool) {
	for _, l := range list {
		s.Set(l.Clone).update(l, func(l *meta.Layer) { l.Durable = durable })
	}
}

// Settle returns when the layers of these IDs are on disk, and their records say so.
func (s *Set) Settle(ctx context.Context, k meta.Kind, ids ...string) error {
	for _, id := range ids {
		if l, ok := s.Get(k, id); ok && s.store.waits(l) {
			return s.store.Sync(ctx)
		}
	}
	return nil
}
