package layer

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
)

// Set is the layers of one owner. It is safe for concurrent use.
//
// Layers come and go only while its Lock is held: directories, records and memory change
// together. The holder of the lock can look at the layers, decide and act. Only new holds
// may begin meanwhile, and Withdraw respects them. A mutex guards what is in memory. No
// method holds it over I/O or while it calls the owner, so an owner may call a method with
// its own mutex locked.
type Set struct {
	store    *Store
	owner    string
	changing work.Lock

	mu    sync.Mutex
	known map[name]meta.Layer
	users map[name]int // reference counts of the directories; nil without any
}

type name struct {
	kind meta.Kind
	id   string
}

func nameOf(l meta.Layer) name { return name{l.Kind, l.ID} }

// Lock takes the lock that some methods need. The error is the context's cause.
func (s *Set) Lock(ctx context.Context) (unlock func(), err error) { return s.changing.Acquire(ctx) }

// Get returns a layer.
func (s *Set) Get(k meta.Kind, id string) (meta.Layer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.known[name{k, id}]
	return l, ok
}

// List returns the layers of these kinds, or of all kinds if none is given.
func (s *Set) List(kinds ...meta.Kind) (list []meta.Layer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.known {
		if len(kinds) == 0 || slices.Contains(kinds, l.Kind) {
			list = append(list, l)
		}
	}
	return list
}

// Missing reports whether one of these layers has no record or no directory.
func (s *Set) Missing(k meta.Kind, ids ...string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		_, known := s.Get(k, id)
		_, err := os.Lstat(s.Lower(k, id)[0])
		return !known || err != nil
	})
}

// Hold keeps the directories of these IDs from being removed until Drop, even those
// without a record. It adds to their reference counts.
func (s *Set) Hold(k meta.Kind, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.holdLocked(name{k, id})
	}
}

func (s *Set) holdLocked(n name) {
	if s.users == nil {
		s.users = make(map[name]int)
	}
	s.users[n]++
}

// HoldKnown holds the layer and those below it, if the layer still exists.
func (s *Set) HoldKnown(l meta.Layer) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok = s.known[nameOf(l)]; ok {
		for _, id := range l.Stack() {
			s.holdLocked(name{l.Kind, id})
		}
	}
	return ok
}

// Drop ends a hold. A directory without a record goes to the trash with its last hold.
func (s *Set) Drop(k meta.Kind, ids ...string) {
	var strays []meta.Layer
	s.mu.Lock()
	for _, id := range ids {
		n := name{k, id}
		if s.users[n] > 1 {
			s.users[n]--
			continue
		}
		delete(s.users, n)
		if _, ok := s.known[n]; !ok {
			strays = append(strays, meta.Layer{Kind: k, ID: id})
		}
	}
	if len(s.users) == 0 {
		s.users = nil // most clones are idle, and an empty map keeps its memory
	}
	s.mu.Unlock()
	for _, l := range strays {
		s.store.config.Background(func(ctx context.Context) {
			if s.trashLater(ctx, l) != nil {
				trash.Again(ctx, func() error { return s.trashLater(ctx, l) })
			}
		})
	}
}

// Held reports whether anybody holds a layer.
func (s *Set) Held(k meta.Kind, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users[name{k, id}] > 0
}

// InUse reports whether anybody holds a layer of these kinds.
func (s *Set) InUse(kinds ...meta.Kind) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.users {
		if slices.Contains(kinds, n.kind) {
			return true
		}
	}
	return false
}

// Lower returns the directories of layers, for an overlay.
func (s *Set) Lower(k meta.Kind, ids ...string) []string {
	return Lower(s.store.config.Root, s.owner, k, ids...)
}

func (s *Set) path(l meta.Layer) string { return s.Lower(l.Kind, l.ID)[0] }

// update changes a layer in memory, unless it was removed or replaced.
func (s *Set) update(l meta.Layer, f func(*meta.Layer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.known[nameOf(l)]; ok && now.CreatedAt.Equal(l.CreatedAt) {
		f(&now)
		s.known[nameOf(l)] = now
	}
}

// Touch sets the time of last use of those layers whose current one is stale. The caller
// is to Save the layers that it returns.
func (s *Set) Touch(now time.Time, stale func(used time.Time) bool, k meta.Kind, ids ...string) (list []meta.Layer) {
	for _, id := range ids {
		if l, ok := s.Get(k, id); ok && stale(l.Used) {
			s.update(l, func(l *meta.Layer) { l.Used = now })
			list = append(list, l)
		}
	}
	return list
}

// Save writes the records of layers as they are in memory now, so that the later of two
// transactions has the changes of both. It skips layers that are not in memory any more.
func (s *Set) Save(tx *meta.Tx, list ...meta.Layer) error {
	for _, l := range list {
		if now, ok := s.Get(l.Kind, l.ID); ok {
			if err := tx.PutLayer(now); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unmeasured returns the layers without a size.
func (s *Set) Unmeasured() []meta.Layer {
	return slices.DeleteFunc(s.List(), func(l meta.Layer) bool { return !l.Size.At.IsZero() })
}

// Measure measures the layers without a size, each alone and without its files that have
// other links. The caller is to Save the layers that it returns.
func (s *Set) Measure(ctx context.Context, pace *disk.Pace) (list []meta.Layer, err error) {
	var errs []error
	for _, l := range s.Unmeasured() {
		survey, err := disk.Query{Own: true, Pace: pace}.Take(ctx, s.path(l))
		switch {
		case err == nil:
			s.update(l, func(l *meta.Layer) { l.Size = meta.Measured{Size: survey.Size, At: s.store.config.Now()} })
			list = append(list, l)
		case !errors.Is(err, os.ErrNotExist): // it was removed meanwhile
			errs = append(errs, err)
		}
	}
	return list, errors.Join(errs...)
}
