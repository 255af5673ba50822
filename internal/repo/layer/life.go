package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

// Temp makes an empty directory in which to build a layer of a kind, or for files that the
// build needs. It has a temporary name until Publish or Checkpoint.
func (s *Set) Temp(k meta.Kind) (string, error) {
	dir := dirOf(s.store.config.Root, s.owner, k)
	if err := durable.MkdirVolatile(dir, 0o755); err != nil {
		return "", err
	}
	temp, err := os.MkdirTemp(dir, durable.TempPrefix+"*")
	if err != nil {
		return "", err
	}
	return temp, os.Chmod(temp, 0o755)
}

// Discard moves a directory that Temp made to the trash, if it still exists.
func (s *Set) Discard(temp string) error {
	return s.store.config.Trash.Clear(temp, "layer", disk.Size{})
}

// Built is a layer that was built in the directory Temp.
type Built struct {
	meta.Layer
	Temp string
}

// Publish is PublishAll for one layer, and returns its record.
func (s *Set) Publish(l meta.Layer, temp string, also ...func(*meta.Tx) error) (meta.Layer, error) {
	list := []Built{{l, temp}}
	err := s.PublishAll(list, also...)
	return list[0].Layer, err
}

// PublishAll marks each temporary directory, and renames it to be the directory of its layer. Then it commits
// the layers' records, which it completes, and what also writes in one transaction. A directory that already has
// the name is of an earlier boot, or of a deleted record: it goes to the trash first. The caller holds the
// lock. After an error none of the layers exists, and the temporary directories are there as before; one that can't be
// renamed back stays where it is until the sweep.
func (s *Set) PublishAll(list []Built, also ...func(*meta.Tx) error) (err error) {
	placed := 0
	defer func() {
		for _, l := range list[:placed] {
			if err != nil {
				err = errors.Join(err, durable.RenameVolatile(s.path(l.Layer), l.Temp))
			}
		}
	}()
	for i := range list {
		l := &list[i]
		if err := s.place(l); err != nil {
			return err
		}
		placed++
		failpoint.Hit("layer/publish/renamed")
		also = append(also, func(tx *meta.Tx) error { return tx.PutLayer(l.Layer) })
	}
	if err := s.store.commit(also); err != nil {
		return err
	}
	failpoint.Hit("layer/publish/recorded")
	s.mu.Lock()
	for _, l := range list {
		s.known[nameOf(l.Layer)] = l.Layer
	}
	s.mu.Unlock()
	s.store.syncSoon()
	return nil
}

// place completes the record of a layer, and gives its directory the final name.
func (s *Set) place(l *Built) error {
	l.Clone, l.Boot, l.CreatedAt, l.Durable = s.owner, s.store.config.Boot, s.store.config.Now(), false
	if err := s.store.config.Trash.Clear(s.path(l.Layer), "leftover", disk.Size{}); err != nil {
		return err
	}
	if err := overlay.Mark(l.Temp); err != nil {
		return err
	}
	// Not synced: until the layer is durable, the record is valid for this boot only.
	return durable.RenameVolatile(l.Temp, s.path(l.Layer))
}

// commit calls all functions in one transaction.
func (s *Store) commit(list []func(*meta.Tx) error) error {
	return s.config.DB.Update(func(tx *meta.Tx) error {
		for _, f := range list {
			if err := f(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// Withdraw removes those layers of the list that nobody holds from memory, so that nobody
// can hold them. The caller is to remove the layers that it returns, and holds the lock.
func (s *Set) Withdraw(list []meta.Layer) (withdrawn []meta.Layer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range list {
		if now, ok := s.known[nameOf(l)]; ok && s.users[nameOf(l)] == 0 {
			withdrawn = append(withdrawn, now)
			delete(s.known, nameOf(l))
		}
	}
	return withdrawn
}

// Forget deletes the records of layers, known or withdrawn, and commits what also writes
// in the same transaction. It removes the layers from memory; after an error they are known
// again. It leaves the directories to the caller, who holds the lock.
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

// Remove calls Forget and then Trash.
func (s *Set) Remove(list []meta.Layer) error {
	if err := s.Forget(list); err != nil {
		return err
	}
	return s.Trash(list)
}

// Trash moves the directories of forgotten layers to the trash. A held directory follows
// when its last hold ends. A rename that fails is repeated in the background. The caller
// holds the lock.
func (s *Set) Trash(list []meta.Layer) error {
	var errs []error
	for _, l := range list {
		err := s.trashLeft(l)
		if err != nil {
			s.store.config.Background(func(ctx context.Context) {
				trash.Again(ctx, func() error { return s.trashLater(ctx, l) })
			})
		}
		errs = append(errs, err)
		failpoint.Hit("layer/remove/trashed")
	}
	return errors.Join(errs...)
}

// trashLeft moves the directory of a layer without a record to the trash, unless it is
// held or a new layer has the same ID. The caller holds the lock.
func (s *Set) trashLeft(l meta.Layer) error {
	if _, known := s.Get(l.Kind, l.ID); known || s.Held(l.Kind, l.ID) {
		return nil
	}
	// The size counts as trash at once, because otherwise the janitor's next plan would
	// evict as much again.
	return s.store.config.Trash.Clear(s.path(l), "layer", s.freed(l))
}

// trashLater takes the lock and calls trashLeft.
func (s *Set) trashLater(ctx context.Context, l meta.Layer) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return s.trashLeft(l)
}

// Evict removes layers of these kinds by ID. Held layers stay, and so do those below a
// layer that stays. It returns how many layers it removed and how many stayed; unknown IDs
// do not count. The caller holds the lock.
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

// Void returns the layers of these kinds whose directory is missing, was not durable before a
// reboot, or is a copy without extended attributes, and all layers above such a layer. Without its
// attributes a layer shows old files of those below it. The caller is to remove them.
func (s *Set) Void(kinds ...meta.Kind) (list []meta.Layer, err error) {
	good := make(map[name]bool)
	for _, k := range kinds {
		entries, err := os.ReadDir(dirOf(s.store.config.Root, s.owner, k))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			l, ok := s.Get(k, e.Name())
			if !ok || !l.Durable && l.Boot != s.store.config.Boot {
				continue
			}
			if good[name{k, e.Name()}], err = overlay.Marked(s.path(l)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
	}
	for _, l := range s.List(kinds...) {
		if slices.ContainsFunc(l.Stack(), func(id string) bool { return !good[name{l.Kind, id}] }) {
			list = append(list, l)
		}
	}
	return list, nil
}

// TrashStrays moves the directories of these kinds that have no record, and that nobody
// holds, to the trash. The caller holds the lock, and no layer is being built.
func (s *Set) TrashStrays(kinds ...meta.Kind) error {
	var errs []error
	for _, k := range kinds {
		errs = append(errs, s.store.TrashUnless(dirOf(s.store.config.Root, s.owner, k), func(id string) bool {
			_, known := s.Get(k, id)
			return known || s.Held(k, id)
		}))
	}
	return errors.Join(errs...)
}

// TrashUnless moves the entries of dir to the trash, except those for which keep returns
// true.
func (s *Store) TrashUnless(dir string, keep func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if keep(e.Name()) {
			continue
		}
		err = errors.Join(err, s.config.Trash.Clear(filepath.Join(dir, e.Name()), "leftover", disk.Size{}))
		failpoint.Hit("layer/sweep/trashed")
	}
	return err
}
