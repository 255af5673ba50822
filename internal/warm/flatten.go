package warm

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
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
	wait := ok && (again.IsZero() || m.Now().Before(again))
	if !wait {
		m.flattening[clone+"/"+key] = time.Time{}
	}
	m.mu.Unlock()
	if wait {
		return
	}
	m.Background(func(ctx context.Context) {
		release, err := m.Use(ctx, clone)
		if err == nil {
			defer release()
		}
		for err == nil {
			h, ok := m.tooLong(clone, key)
			if !ok {
				return
			}
			if err = m.flatten(ctx, h); err != nil && ctx.Err() == nil {
				m.Log.WithContext(ctx).WithError(err).WithField("clone", clone).Warnf("flatten the layers of warm path %q: a promotion in an hour tries again", h.Path)
			}
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		now := m.Now()
		maps.DeleteFunc(m.flattening, func(_ string, again time.Time) bool { return !again.IsZero() && !now.Before(again) })
		m.flattening[clone+"/"+key] = now.Add(flattenAgain)
	})
}

// tooLong returns a head that has to be flattened, with only the layers that are to be
// flattened: the lowest ones, which a promotion leaves where they are. If ok is false, the head
// is short enough, and counts as not being flattened any more.
func (m *Manager) tooLong(clone, key string) (h meta.WarmHead, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h = m.cloneLocked(clone).heads[key]
	if len(h.Chain) < flattenAt {
		delete(m.flattening, clone+"/"+key)
		return h, false
	}
	h.Chain = h.Chain[len(h.Chain)-flattenAt:]
	return h, true
}

// flatten copies the merged layers of a head into a new layer. It replaces them by that
// layer in all heads that have them, including heads that moved meanwhile.
func (m *Manager) flatten(ctx context.Context, h meta.WarmHead) error {
	held := []meta.WarmPath{{Path: h.Path, Chain: h.Chain}}
	m.Hold(h.Clone, held)
	defer m.Drop(h.Clone, held)
	room, err := m.roomFor(h)
	if err != nil {
		return err
	}
	temp, err := m.tempDir(h.Clone, h.Path, h.UID, h.GID)
	if err != nil {
		return err
	}
	defer func() { _ = m.Set(h.Clone).Discard(temp) }()
	if err := m.copyChain(ctx, h, filepath.Join(temp, h.Path), room); err != nil {
		return err
	}
	size, err := disk.Measure(ctx, filepath.Join(temp, h.Path))
	if err != nil {
		return err
	}
	failpoint.Hit("warm/flatten/copied")
	unlock, err := m.lock(ctx, h.Clone)
	if err != nil {
		return err
	}
	defer unlock()
	l := meta.Layer{Kind: meta.WarmLayer, ID: newID(), Of: h.Chain, Size: meta.Measured{Size: size, At: m.Now()}}
	ch := change{layer: &l, temp: temp}
	m.mu.Lock()
	for _, other := range m.cloneLocked(h.Clone).heads {
		if n := len(other.Chain) - len(h.Chain); other.Path == h.Path && n >= 0 && slices.Equal(other.Chain[n:], h.Chain) {
			other.Chain = append(slices.Clone(other.Chain[:n]), l.ID)
			ch.heads = append(ch.heads, other)
		}
	}
	m.mu.Unlock()
	if len(ch.heads) == 0 {
		return nil // no head has these layers any more
	}
	return m.commit(h.Clone, ch)
}

// roomFor returns how many bytes flattening the layers of a head may copy: more than their
// size on disk, because the filesystem may have compressed them. The error says that the
// disk has too little room.
func (m *Manager) roomFor(h meta.WarmHead) (int64, error) {
	space, err := disk.SpaceOf(m.Root)
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

// copyChain copies the merged layers of a head from its path to the path to, as heavy work.
// The error is errTooMuch if they have more than room bytes.
func (m *Manager) copyChain(ctx context.Context, h meta.WarmHead, to string, room int64) error {
	ctx, done, err := m.Heavy(ctx, h.Clone, "flatten warm layers")
	if err != nil {
		return err
	}
	defer done()
	view, err := overlay.View(overlay.Spec{Lower: m.Set(h.Clone).Lower(meta.WarmLayer, h.Chain...)})
	if err != nil {
		return err
	}
	defer view.Close()
	links, err := os.MkdirTemp(path.Dir(to), ".links-*")
	if err != nil {
		return err
	}
	if err := copyTree(ctx, below(int(view.Fd()), h.Path), to, links, room); err != nil {
		return err // the caller discards all, links included
	}
	return os.RemoveAll(links)
}
