package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
)

// Temp makes an empty directory for a layer of a kind in the making, or for what that
// takes: it has a temporary name until Publish or Discard.
func (s *Set) Temp(k meta.Kind) (string, error) {
	dir := dirOf(s.store.Root, s.owner, k)
	if err := durable.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(dir, durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	return temp, os.Chmod(temp, 0o755)
}

// Discard gives what Temp made to the trash, if it is still there.
func (s *Set) Discard(temp string) error { return s.store.Trash.Clear(temp, "layer", disk.Size{}) }

// Publish makes what is in temp the directory of a layer, and then says that it
// exists, together with what also commits. What has that name and no record is of an
// earlier boot, or of a record that is no more: it goes first. The lock is held. After
// an error there is no layer, but temp may still be there.
func (s *Set) Publish(l meta.Layer, temp string, also ...func(*meta.Tx) error) (meta.Layer, error) {
	l.Clone, l.Boot, l.CreatedAt, l.Durable = s.owner, s.store.Boot, s.store.Now(), false
	if err := s.store.Trash.Clear(s.path(l), "leftover", disk.Size{}); err != nil {
		return l, err
	}
	// Not synced: until it is durable, the record is good for this boot only.
	if err := durable.RenameVolatile(temp, s.path(l)); err != nil {
		return l, err
	}
	failpoint.Hit("layer/publish/renamed")
	if err := s.store.commit(append(also, func(tx *meta.Tx) error { return tx.PutLayer(l) })); err != nil {
		return l, errors.Join(err, s.store.Trash.Clear(s.path(l), "layer", disk.Size{}))
	}
	failpoint.Hit("layer/publish/recorded")
	s.mu.Lock()
	s.known[nameOf(l)] = l
	s.mu.Unlock()
	s.store.syncSoon()
	return l, nil
}

// commit makes one transaction of several.
func (s *Store) commit(list []func(*meta.Tx) error) error {
	return s.DB.Update(func(tx *meta.Tx) error {
		for _, f := range list {
			if err := f(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Withdraw takes those of some layers that nobody holds out of memory, so that nobody can
// hold them: they are to be removed. The lock is held.
func (s *Set) Withdraw(list []meta.Layer) (taken []meta.Layer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		if now, ok := s.known[nameOf(l)]; ok && s.users[nameOf(l)] == 0 {
			taken = append(taken, now)
			delete(s.known, nameOf(l))
		}
	}
	return taken
}

// Forget deletes the records of layers, which are in memory or taken, together with
// what also commits. They are out of memory then, or, after an error, back. The
// directories are the caller's. The lock is held.
func (s *Set) Forget(list []meta.Layer, also ...func(*meta.Tx) error) error {
	if len(list)+len(also) == 0 {
		return nil
	}
	list = slices.Clone(list)
	s.mu.Lock()
	for i, l := range list {
		if now, ok := s.known[nameOf(l)]; ok {
			list[i] = now
			delete(s.known, nameOf(l))
		}
	}
	s.mu.Unlock()
	err := s.store.commit(append(also, func(tx *meta.Tx) error {
		var errs []error
		for _, l := range list {
			errs = append(errs, tx.DeleteLayer(l))
		}
		return errors.Join(errs...)
	}))
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, l := range list {
			s.known[nameOf(l)] = l
		}
		return err
	}
	failpoint.Hit("layer/remove/recorded")
	return nil
}

// Remove is Forget, and then Trash.
func (s *Set) Remove(list []meta.Layer) error {
	if err := s.Forget(list); err != nil {
		return err
	}
	return s.Trash(list)
}

// Trash gives the directories of layers that were forgotten to the trash. One that is
// held goes with its last user; one that can't be renamed is tried again. The lock is
// held.
func (s *Set) Trash(list []meta.Layer) error {
	var errs []error
	for _, l := range list {
		err := s.trashLeft(l)
		if err != nil {
			s.store.Background(func(ctx context.Context) { trash.Again(ctx, func() error { return s.trashLater(ctx, l) }) })
		}
		errs = append(errs, err)
		failpoint.Hit("layer/remove/trashed")
	}
	return errors.Join(errs...)
}

// trashLeft trashes the directory of a layer that has no record any more, unless it
// was made again, with the same ID, or is held. The lock is held.
func (s *Set) trashLeft(l meta.Layer) error {
	if _, known := s.Get(l.Kind, l.ID); known || s.Held(l.Kind, l.ID) {
		return nil
	}
	// What is evicted has to count as trash at once, or the janitor's next plan would
	// evict as much again.
	return s.store.Trash.Clear(s.path(l), "layer", l.Size.Size)
}

// trashLater is trashLeft without the lock.
func (s *Set) trashLater(ctx context.Context, l meta.Layer) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.trashLeft(l)
}

// Evict removes layers of some kinds by ID, but those that are held, or that a layer
// stands on which is not to go. It returns how many went and how many stayed. Unknown
// IDs are none. The lock is held.
func (s *Set) Evict(ids []string, kinds ...meta.Kind) (gone, stayed int, err error) {
	all := s.List(kinds...)
	stay := make(map[name]bool)
	for _, l := range all {
		if s.Held(l.Kind, l.ID) || !slices.Contains(ids, l.ID) {
			for _, id := range l.Stack() {
				stay[name{l.Kind, id}] = true
			}
		}
	}
	all = slices.DeleteFunc(all, func(l meta.Layer) bool { return !slices.Contains(ids, l.ID) })
	list := s.Withdraw(slices.DeleteFunc(slices.Clone(all), func(l meta.Layer) bool { return stay[nameOf(l)] }))
	return len(list), len(all) - len(list), s.Remove(list)
}

// Void returns the layers of some kinds whose directory is gone or was never synced
// before a reboot, and those that stand on one: they are to be removed.
func (s *Set) Void(kinds ...meta.Kind) (list []meta.Layer, err error) {
	good := make(map[name]bool)
	for _, k := range kinds {
		entries, err := os.ReadDir(dirOf(s.store.Root, s.owner, k))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			l, ok := s.Get(k, e.Name())
			good[name{k, e.Name()}] = ok && (l.Durable || l.Boot == s.store.Boot)
		}
	}
	for _, l := range s.List(kinds...) {
		if slices.ContainsFunc(l.Stack(), func(id string) bool { return !good[name{l.Kind, id}] }) {
			list = append(list, l)
		}
	}
	return list, nil
}

// TrashStrays trashes the directories of some kinds that no record names and nobody
// holds. Nothing is in the making. The lock is held.
func (s *Set) TrashStrays(kinds ...meta.Kind) error {
	var errs []error
	for _, k := range kinds {
		errs = append(errs, s.store.TrashUnless(dirOf(s.store.Root, s.owner, k), func(id string) bool {
			_, known := s.Get(k, id)
			return known || s.Held(k, id)
		}))
	}
	return errors.Join(errs...)
}

// TrashUnless moves what is in dir to the trash, except what keep says.
func (s *Store) TrashUnless(dir string, keep func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if keep(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if durable.IsTemp(e.Name()) {
			err = errors.Join(err, detachAll(path))
		}
		err = errors.Join(err, s.Trash.Clear(path, "leftover", disk.Size{}))
		failpoint.Hit("layer/sweep/trashed")
	}
	return err
}

// detachAll detaches what is mounted at path or below it: a plugin that was killed
// over a build leaves its overlay, and the trash deletes through no mount.
func detachAll(path string) error {
	points, err := overlay.Mounts(path)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		free, err := overlay.Detach(p.Path)
		if err == nil {
			err = free()
		}
		if !errors.Is(err, overlay.ErrNotMounted) { // it went with another one
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
