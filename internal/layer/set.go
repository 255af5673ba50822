package layer

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/trash"
)

// Set is the layers of one owner. It is safe for concurrent use.
//
// Which layers there are changes only while its Lock is held: directories, records and
// memory together. Who holds the lock can look at the layers, decide, and act; only
// holds may come meanwhile, which Withdraw respects. What is in memory is guarded by a
// mutex of its own, which no method holds over I/O, or while it calls the owner: the
// owner may hold its own when it calls one.
type Set struct {
	store    *Store
	owner    string
	changing chan struct{}

	mu    sync.Mutex
	known map[name]meta.Layer
	users map[name]int // who stands on the directory
}

type name struct {
	kind meta.Kind
	id   string
}

func nameOf(l meta.Layer) name { return name{l.Kind, l.ID} }

// Lock is for whoever is about to call a method that says so. The error is the
// context's cause.
func (s *Set) Lock(ctx context.Context) (unlock func(), err error) {
	select {
	case s.changing <- struct{}{}:
		return func() { <-s.changing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Get returns what is known of a layer.
func (s *Set) Get(k meta.Kind, id string) (meta.Layer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.known[name{k, id}]
	return l, ok
}

// List returns the layers of some kinds; of all without one.
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

// Hold keeps the directories of these IDs from being removed until Drop, whether
// they have a record or not.
func (s *Set) Hold(k meta.Kind, ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holdLocked(k, ids)
}

func (s *Set) holdLocked(k meta.Kind, ids []string) {
	for _, id := range ids {
		s.users[name{k, id}]++
	}
}

// HoldKnown holds the layer, and those that it stands on, if it is still there.
func (s *Set) HoldKnown(l meta.Layer) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok = s.known[nameOf(l)]; ok {
		s.holdLocked(l.Kind, l.Stack())
	}
	return ok
}

// Drop ends a hold. A directory without a record goes with its last user.
func (s *Set) Drop(k meta.Kind, ids ...string) {
	var strays []meta.Layer
	s.mu.Lock()
	for _, id := range ids {
		n := name{k, id}
		if s.users[n]--; s.users[n] > 0 {
			continue
		}
		delete(s.users, n)
		if _, ok := s.known[n]; !ok {
			strays = append(strays, meta.Layer{Kind: k, ID: id})
		}
	}
	s.mu.Unlock()
	for _, l := range strays {
		s.store.Background(func(ctx context.Context) {
			if s.trashLater(ctx, l) != nil {
				trash.Again(ctx, func() error { return s.trashLater(ctx, l) })
			}
		})
	}
}

// Held reports whether somebody stands on a layer.
func (s *Set) Held(k meta.Kind, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.users[name{k, id}] > 0
}

// InUse reports whether somebody stands on a layer of these kinds.
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

// Lower returns the directories of layers, for the overlay.
func (s *Set) Lower(k meta.Kind, ids ...string) []string {
	return Lower(s.store.Root, s.owner, k, ids...)
}

func (s *Set) path(l meta.Layer) string { return s.Lower(l.Kind, l.ID)[0] }

// update changes what is known of a layer, if it is still the one.
func (s *Set) update(l meta.Layer, f func(*meta.Layer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now, ok := s.known[nameOf(l)]; ok && now.CreatedAt.Equal(l.CreatedAt) {
		f(&now)
		s.known[nameOf(l)] = now
	}
}

// Touch notes that somebody is about to stand on layers, if stale says of the time
// that is known that it is worth it. It returns those that Save is to be called of.
func (s *Set) Touch(now time.Time, stale func(used time.Time) bool, k meta.Kind, ids ...string) (list []meta.Layer) {
	for _, id := range ids {
		if l, ok := s.Get(k, id); ok && stale(l.Used) {
			s.update(l, func(l *meta.Layer) { l.Used = now })
			list = append(list, l)
		}
	}
	return list
}

// Save puts the records of layers as they are in memory now: of two transactions the
// later one has what both have changed, and what is out of memory stays away.
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

// Measure measures the layers without a size, each alone, without the files that it
// has by a link. It returns those that Save is to be called of.
func (s *Set) Measure(ctx context.Context, pace *disk.Pace) (list []meta.Layer, err error) {
	var errs []error
	for _, l := range s.Unmeasured() {
		survey, err := disk.Query{Own: true, Pace: pace}.Take(ctx, s.path(l))
		switch {
		case err == nil:
			s.update(l, func(l *meta.Layer) { l.Size = meta.Measured{Size: survey.Size, At: s.store.Now()} })
			list = append(list, l)
		case !errors.Is(err, os.ErrNotExist): // it was removed
			errs = append(errs, err)
		}
	}
	return list, errors.Join(errs...)
}

// SizeOf returns what some layers take, as far as it was measured; of one that is not
// known, nothing.
func (s *Set) SizeOf(k meta.Kind, ids ...string) (sum disk.Size) {
	for _, id := range ids {
		l, _ := s.Get(k, id)
		sum = sum.Add(l.Size.Size)
	}
	return sum
}
