package remote

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/work"
)

// repackAt is the number of packs from which a store is repacked: every fetch
// adds one, and a container's git opens the index of each for what it looks up.
const repackAt = 40

// StoreLost reports whether the store that the record names is not on the disk.
func (m *Remote) StoreLost(s Source) bool {
	if _, ok := m.Store(s.History); !ok {
		return false
	}
	there, err := disk.Exists(m.StoreDir(s.History.Name()))
	return err == nil && !there
}

// HealStore sets a store aside if git finds it damaged, so that the next fetch
// clones it again. It reports whether it did: when the store is sound, what
// looked like damage came from the remote.
func (m *Remote) HealStore(ctx context.Context, s Source) (healed bool, err error) {
	name := s.History.Name()
	return work.ShareTask(ctx, m.Used, "heal\x00"+name, func(ctx context.Context) (bool, error) {
		if _, ok := m.Store(s.History); !ok {
			return false, nil
		}
		unlock, err := m.Lock(ctx)
		if err != nil {
			return false, err
		}
		defer unlock()
		_, end := m.Doing.Begin(ctx, "checking", s.URL.String())
		defer end()
		damage := m.Git.Check(ctx, m.StoreDir(name))
		if git.KindOf(damage) != git.KindCorrupt {
			return false, damage
		}
		m.Log.WithError(damage).WithField("store", name).Error("the store is damaged: it is set aside and cloned again")
		undo := m.drop(name)
		if err := m.Save(); err != nil {
			undo() // it is still to be set aside
			return false, err
		}
		failpoint.Hit("clone/heal/recorded")
		if ok, err := disk.Exists(m.StoreDir(name)); err != nil || !ok {
			return true, err
		}
		_, err = m.Trash.Put(m.StoreDir(name), "damaged-store")
		failpoint.Hit("clone/heal/aside")
		return true, err
	})
}

// repackSoon repacks a store of many packs in the background. Git layers that are
// in use keep the packs that they link.
func (m *Remote) repackSoon(s Source) {
	dir := m.StoreDir(s.History.Name())
	packs, err := filepath.Glob(filepath.Join(dir, "objects/pack", "*.pack"))
	if err != nil || len(packs) < repackAt || s.History.NoBlobs {
		return // the packs of a partial clone say which objects may be missing
	}
	m.Used.Group.Go(func(ctx context.Context) {
		_, err := work.ShareTask(ctx, m.Used, "repack\x00"+dir, func(ctx context.Context) (struct{}, error) {
			unlock, err := m.Lock(ctx)
			if err != nil {
				return struct{}{}, err
			}
			defer unlock()
			if err := m.Git.Repack(ctx, dir); err != nil {
				return struct{}{}, errors.Join(err, git.SweepStore(dir))
			}
			m.Measure(s.History.Name())
			m.Log.WithField("packs", len(packs)).Info("repacked")
			return struct{}{}, nil
		})
		if err != nil && ctx.Err() == nil {
			m.Log.WithError(err).Warn("repack")
		}
	})
}

// Sweep removes what a killed git left in the stores, and forgets those that are gone.
// The lock is held. It reports false, and has changed nothing, if no store is left.
func (m *Remote) Sweep() (left bool, err error) {
	names := slices.Collect(maps.Keys(m.Stores()))
	var lost []string
	for _, name := range names {
		ok, err := disk.Exists(m.StoreDir(name))
		if err == nil && ok {
			err = git.SweepStore(m.StoreDir(name))
		}
		if err != nil {
			return false, err
		}
		if !ok {
			lost = append(lost, name)
		}
	}
	switch {
	case !m.Fetched() || len(names) > 0 && len(lost) == len(names):
		return false, nil
	case len(lost) == 0:
		return true, nil
	}
	undo := m.drop(lost...)
	if err := m.Save(); err != nil {
		undo() // the next sweep tries again
		return true, err
	}
	return true, nil
}
