package warm

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

const (
	// flattenAt is how many layers of a head are flattened into one. With 16 paths a workspace
	// then has some 150 layers; the kernel allows 500.
	flattenAt = 8
	// maxChain is the maximum of layers of a head that waits to be flattened.
	maxChain = 2 * flattenAt
	// flattenAgain is the pause after a failure to flatten the layers of a head, because each
	// attempt may copy everything, and the next promotions don't change why it failed.
	flattenAgain = time.Hour
	// spare is the share of the filesystem, one part of 64, that stays free when layers are
	// flattened.
	spare = 64
)

// flattenSoon flattens the layers of a head in the background, unless that is under way or
// failed lately. Until it ends, the goroutine also flattens what is promoted meanwhile.
func (m *Manager) flattenSoon(clone, key string) {
	m.mu.Lock()
	again, ok := m.flattening[clone+"/"+key]
	wait := ok && (again.IsZero() || m.config.Now().Before(again))
	if !wait {
		m.flattening[clone+"/"+key] = time.Time{}
	}
	m.mu.Unlock()
	if wait {
		return
	}
	m.config.Background(func(ctx context.Context) {
		release, err := m.config.Clones.Use(ctx, clone)
		if err == nil {
			defer release()
		}
		for err == nil {
			h, ok := m.tooLong(clone, key)
			if !ok {
				return
			}
			if err = m.flatten(ctx, h); err != nil && ctx.Err() == nil {
				m.config.Log.WithContext(ctx).WithError(err).WithField("clone", clone).Warnf("flatten the layers of warm path %q: a promotion in an hour tries again", h.Path)
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		now := m.config.Now()
		maps.DeleteFunc(m.flattening, func(_ string, again time.Time) bool { return !again.IsZero() && !now.Before(again) })
		m.flattening[clone+"/"+key] = now.Add(flattenAgain)
	})
}

// tooLong returns a head that has to be flattened, with only the layers that are to be
// flattened: the lowest ones, which a promotion leaves where they are, or the mergeable ones of a cache. If ok is false,
// the head is short enough, and counts as not being flattened any more.
func (m *Manager) tooLong(clone, key string) (h meta.WarmHead, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h = m.cloneLocked(clone).heads[key]
	long := len(h.Chain) >= flattenAt
	switch {
	case long && h.Path == cache.Mount:
		h = m.mergeable(h)
		long = len(h.Chain) > 0
	case long:
		h.Chain = h.Chain[len(h.Chain)-flattenAt:]
	}
	if !long {
		delete(m.flattening, clone+"/"+key)
	}
	return h, long
}

// flatten merges layers of a head into a new layer. It replaces them by that
// layer in all heads that have them, including heads that moved meanwhile.
func (m *Manager) flatten(ctx context.Context, h meta.WarmHead) error {
	held := []meta.WarmPath{{Path: h.Path, Chain: h.Chain}}
	m.Hold(h.Clone, held)
	defer m.Drop(h.Clone, held)
	merge := m.copied
	if h.Path == cache.Mount {
		merge = func(ctx context.Context, h meta.WarmHead) (meta.Layer, string, error) { return m.union(ctx, h, "") }
	}
	l, temp, err := merge(ctx, h)
	if err != nil {
		return err
	}
	defer func() { _ = m.config.Layers.Set(h.Clone).Discard(temp) }()
	failpoint.Hit("warm/flatten/copied")
	unlock, err := m.lock(ctx, h.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	ch := change{made: []layer.Built{{Layer: l, Temp: temp}}}
	m.mu.Lock()
	for _, other := range m.cloneLocked(h.Clone).heads {
		if at := indexOf(other.Chain, h.Chain); other.Path == h.Path && at >= 0 {
			other.Chain = slices.Replace(slices.Clone(other.Chain), at, at+len(h.Chain), l.ID)
			ch.heads = append(ch.heads, other)
		}
	}
	m.mu.Unlock()
	if len(ch.heads) == 0 {
		return nil // no head has these layers any more
	}
	return m.commit(h.Clone, ch)
}

// indexOf returns where a chain has these layers, one after the other, or -1.
func indexOf(chain, run []string) int {
	for at := range len(chain) - len(run) + 1 {
		if slices.Equal(chain[at:at+len(run)], run) {
			return at
		}
	}
	return -1
}

// copied copies the merged layers of a head into a new one, in a temporary directory.
func (m *Manager) copied(ctx context.Context, h meta.WarmHead) (l meta.Layer, _ string, err error) {
	room, err := m.roomFor(h)
	if err != nil {
		return l, "", err
	}
	temp, err := m.tempDir(h.Clone, h.Path, h.UID, h.GID)
	if err != nil {
		return l, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.config.Layers.Set(h.Clone).Discard(temp))
		}
	}()
	if err := m.copyChain(ctx, h, filepath.Join(temp, filesPart, h.Path), room); err != nil {
		return l, "", err
	}
	// What the topmost layer was built from is what the new one was built from.
	from := m.config.Layers.Set(h.Clone).Lower(meta.WarmLayer, h.Chain[0])[0]
	if err := linkAll(filepath.Join(from, basePart), filepath.Join(temp, basePart)); err != nil {
		return l, "", err
	}
	size, err := disk.Measure(ctx, filepath.Join(temp, filesPart, h.Path))
	if err != nil {
		return l, "", err
	}
	own, err := disk.Query{Own: true}.Take(ctx, filepath.Join(temp, basePart))
	if err != nil {
		return l, "", err
	}
	top, _ := m.config.Layers.Set(h.Clone).Get(meta.WarmLayer, h.Chain[0])
	return meta.Layer{
		Kind: meta.WarmLayer, ID: newID(), Of: h.Chain, Size: meta.Measured{Size: size.Add(own.Size), At: m.config.Now()},
		Commit: top.Commit, Base: top.Base, BuiltAt: top.BuiltAt, Edited: top.Edited,
		Foreign: top.Foreign, // which knows of those below
	}, temp, nil
}

// roomFor returns how many bytes flattening the layers of a head may copy: more than their
// size on disk, because the filesystem may have compressed them. The error says that the
// disk has too little room.
func (m *Manager) roomFor(h meta.WarmHead) (int64, error) {
	space, err := disk.SpaceOf(m.config.Root)
	if err != nil {
		return 0, err
	}
	size := m.ChainSize(h.Clone, h.Chain)
	left := space.Free.Sub(size)
	if left.Bytes < space.Total.Bytes/spare || left.Inodes < space.Total.Inodes/spare && space.Total.Inodes > 0 {
		return 0, fmt.Errorf("its layers take %d bytes and %d inodes; of the %d and %d that are free a 64th of the disk must stay free: make room on it",
			size.Bytes, size.Inodes, space.Free.Bytes, space.Free.Inodes)
	}
	return 2*size.Bytes + 64<<20, nil
}

// freeRoom returns how many bytes a publication may copy: a part of what is free, because there may be others.
func (m *Manager) freeRoom() (int64, error) {
	space, err := disk.SpaceOf(m.config.Root)
	return max(space.Free.Bytes-space.Total.Bytes/spare, 0) / 4, err
}

// copyChain copies the merged layers of a head from its path to the path to, as heavy work.
// The error is upfile.ErrTooMuch if they have more than room bytes.
func (m *Manager) copyChain(ctx context.Context, h meta.WarmHead, to string, room int64) error {
	ctx, done, err := m.config.Clones.Heavy(ctx, h.Clone, "flatten warm layers")
	if err != nil {
		return err
	}
	defer done()
	view, err := overlay.View(overlay.Spec{Lower: m.files(h.Clone, h.Chain...)})
	if err != nil {
		return err
	}
	defer view.Close()
	links, err := os.MkdirTemp(path.Dir(to), ".links-*")
	if err != nil {
		return err
	}
	if err := copyTree(ctx, upfile.Below(int(view.Fd()), h.Path), to, links, room); err != nil {
		return err // the caller checkpoints all, links included
	}
	return os.RemoveAll(links)
}
