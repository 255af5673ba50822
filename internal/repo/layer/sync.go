package layer

import (
	"context"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
)

// syncSoon makes Run sync the new layers.
func (s *Store) syncSoon() {
	select {
	case s.syncs <- struct{}{}:
	default:
	}
}

// syncAfter is how long a new layer waits for its sync: the Mount that needs the layer
// still commits records, and each commit would wait behind the sync.
const syncAfter = time.Second

// syncMost is how long builds can hold a sync back.
const syncMost = 30 * time.Second

// Building holds back the sync of new layers until end is called, because it would write all that
// a build has written so far, and the build would wait for that.
func (s *Set) Building() (end func()) {
	s.store.builds.Add(1)
	return func() { s.store.builds.Add(-1) }
}

// Run makes layers durable until ctx ends, with one syncfs for all that wait.
func (s *Store) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.syncs:
		}
		if s.awaitBuilds(ctx) != nil {
			return
		}
		if len(s.pending()) == 0 {
			continue
		}
		if err := s.Sync(ctx); err != nil && ctx.Err() == nil {
			s.config.Log.WithContext(ctx).WithError(err).Warn("sync layers: they are valid for this boot only")
		}
		failpoint.Hit("layer/sync/recorded")
	}
}

// awaitBuilds returns after syncAfter or, if a layer is being built then, at most twice that after
// all builds have ended, but no later than after syncMost. The error is ctx's.
func (s *Store) awaitBuilds(ctx context.Context) error {
	built := false
	for waited := syncAfter; ; waited += syncAfter {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(syncAfter):
		}
		before := built
		if built = s.builds.Load() > 0; !built && !before || waited >= syncMost {
			return nil
		}
	}
}

// Sync writes everything below the root to disk and records which layers are durable by
// that. All that was written before the call is on disk when it returns. It can take
// seconds; concurrent callers share a sync that begins after their calls.
func (s *Store) Sync(ctx context.Context) error {
	asked := s.begun.Load()
	unlock, err := s.syncing.Acquire(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.done.Load() > asked { // a sync that began after the call
		return nil
	}
	round := s.begun.Add(1)
	if err = s.syncNow(); err == nil {
		s.done.Store(round)
	}
	return err
}

// waits reports whether a sync makes the layer durable. It does not for a layer of an
// earlier boot: what that boot did not sync may be lost.
func (s *Store) waits(l meta.Layer) bool { return !l.Durable && l.Boot == s.config.Boot }

func (s *Store) pending() (list []meta.Layer) {
	for _, set := range s.all() {
		list = append(list, slices.DeleteFunc(set.List(), func(l meta.Layer) bool { return !s.waits(l) })...)
	}
	return list
}

func (s *Store) syncNow() error {
	list := s.pending()
	if err := durable.SyncFS(s.config.Root); err != nil {
		return err
	}
	failpoint.Hit("layer/sync/synced")
	if len(list) == 0 {
		return nil
	}
	err := s.config.DB.Update(func(tx *meta.Tx) error {
		s.setDurable(list, true) // within the transaction, so that no later Save writes the old value
		for _, l := range list {
			if err := s.Set(l.Clone).Save(tx, l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		s.setDurable(list, false) // the next sync tries again
	}
	return err
}

func (s *Store) setDurable(list []meta.Layer, durable bool) {
	for _, l := range list {
		s.Set(l.Clone).update(l, func(l *meta.Layer) { l.Durable = durable })
	}
}

// AwaitDurable returns when the layers of these IDs are durable.
func (s *Set) AwaitDurable(ctx context.Context, k meta.Kind, ids ...string) error {
	for _, id := range ids {
		if l, ok := s.Get(k, id); ok && s.store.waits(l) {
			return s.store.Sync(ctx)
		}
	}
	return nil
}
