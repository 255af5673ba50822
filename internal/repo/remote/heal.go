package remote

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// repackAt is how many packs a store may have before it is repacked. Every fetch adds a
// pack, and git in a container opens the index of each pack to look up an object.
const repackAt = 40

// StoreLost reports whether a store has a record but no directory.
func (m *Remote) StoreLost(s Source) bool {
	if _, ok := m.Store(s.History); !ok {
		return false
	}
	there, err := disk.Exists(m.StoreDir(s.History.Name()))
	return err == nil && !there
}

// HealStore moves a store to the trash if git finds it damaged, so that the next fetch
// clones it again, and reports whether it did so. If the store is sound, the damage came
// from the remote.
func (m *Remote) HealStore(ctx context.Context, s Source) (healed bool, err error) {
	name := s.History.Name()
	return work.ShareTask(ctx, m.config.Used, "heal\x00"+name, func(ctx context.Context) (bool, error) {
		if _, ok := m.Store(s.History); !ok {
			return false, nil
		}
		unlock, err := m.lock(ctx, s.History)
		if err != nil {
			return false, err
		}
		defer unlock()
		_, end := m.Doing.Begin(ctx, "checking", s.URL.String())
		defer end()
		damage := m.config.Git.Check(ctx, m.StoreDir(name))
		if giterror.KindOf(damage) != giterror.KindCorrupt {
			return false, damage
		}
		m.config.Log.WithContext(ctx).WithError(damage).WithField("store", name).
			Error("the store is damaged: it is set aside and cloned again")
		return m.setAside(name, "damaged-store")
	})
}

// setAside moves a store to the trash, and reports whether it is gone. The caller holds its
// lock.
func (m *Remote) setAside(name, label string) (gone bool, err error) {
	undo := m.remove(name)
	if err := m.config.Save(); err != nil {
		undo() // so that the next call sets it aside
		return false, err
	}
	failpoint.Hit("remote/heal/recorded")
	if ok, err := disk.Exists(m.StoreDir(name)); err != nil || !ok {
		return true, err
	}
	_, err = m.config.Trash.Put(m.StoreDir(name), label)
	failpoint.Hit("remote/heal/aside")
	return true, err
}

// EndCold moves the cold store to the trash if another one has taken its place. No git layer
// may be left that was made of it.
func (m *Remote) EndCold(ctx context.Context) error {
	unlock, err := m.lock(ctx, volume.ColdHistory)
	if err != nil {
		return err
	}
	defer unlock()
	if !m.ColdEnds() {
		return nil
	}
	m.config.Log.WithContext(ctx).Info("the full history is there: the cold store goes")
	_, err = m.setAside(volume.ColdHistory.Name(), "store")
	return err
}

// repackSoon repacks a store with many packs in the background. Git layers keep the packs
// that they link.
func (m *Remote) repackSoon(ctx context.Context, s Source) {
	dir := m.StoreDir(s.History.Name())
	packs, err := filepath.Glob(filepath.Join(dir, "objects/pack", "*.pack"))
	if err != nil || len(packs) < repackAt || s.History.NoBlobs {
		return // the packs of a partial clone record which objects may be missing
	}
	m.config.Used.Group.Go(origin.Bind(ctx, func(ctx context.Context) {
		_, err := work.ShareTask(ctx, m.config.Used, "repack\x00"+dir, func(ctx context.Context) (struct{}, error) {
			unlock, err := m.lock(ctx, s.History)
			if err != nil {
				return struct{}{}, err
			}
			defer unlock()
			if err := m.config.Git.Repack(ctx, dir); err != nil {
				return struct{}{}, errors.Join(err, git.SweepStore(dir))
			}
			m.config.Measure(s.History.Name())
			m.config.Log.WithContext(ctx).WithField("packs", len(packs)).Info("repacked")
			return struct{}{}, nil
		})
		if err != nil && ctx.Err() == nil {
			m.config.Log.WithContext(ctx).WithError(err).Warn("repack")
		}
	}))
}

// Sweep removes the leftovers of killed gits from the stores, and the records of stores without a
// directory, or with one of another owner: a copy that has lost its owner, into which git can't fetch.
// If no store is left it returns false and keeps the records. The
// caller holds the lock.
func (m *Remote) Sweep() (left bool, err error) {
	stores := m.Stores()
	var lost []string
	for name := range stores {
		ok, err := m.owned(m.StoreDir(name))
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
	case stores == nil || len(stores) > 0 && len(lost) == len(stores):
		return false, nil
	case len(lost) == 0:
		return true, nil
	}
	undo := m.remove(lost...)
	if err := m.config.Save(); err != nil {
		undo() // the next sweep tries again
		return true, err
	}
	return true, nil
}

// owned reports whether dir exists and belongs to the user that fetches.
func (m *Remote) owned(dir string) (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(dir, &st)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	uid, _ := m.config.Git.Owner()
	return err == nil && st.Uid == uint32(uid), err
}
