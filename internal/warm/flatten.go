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

// flattenAt is the number of layers of a head that are joined to one. With 16 paths
// a workspace then stands on some 150 layers, and the kernel takes 500.
const flattenAt = 8

// joinAgain is how long after a failure the layers of a head are joined again: it
// may cost a copy of all, and the next promotions don't change why it failed.
const joinAgain = time.Hour

// flattenSoon joins the layers of a head in the background, unless that is being
// done, or has just failed: what is promoted meanwhile is looked at in the end.
func (m *Manager) flattenSoon(clone, key string) {
	m.mu.Lock()
	f := m.flattening[clone+"/"+key]
	wait := f.begun || m.Now().Before(f.again)
	if !wait {
		m.flattening[clone+"/"+key] = flattening{begun: true}
	}
	m.mu.Unlock()
	if wait {
		return
	}
	m.Background(func(ctx context.Context) {
		release, err := m.Use(ctx, clone)
		if err != nil {
			m.tooLong(clone, key, err)
			return
		}
		defer release()
		for {
			h, ok := m.tooLong(clone, key, nil)
			if !ok {
				return
			}
			if err := m.flatten(ctx, h); err != nil {
				if ctx.Err() == nil {
					m.Log.WithError(err).WithField("clone", clone).Warnf("join the layers of warm path %q: a promotion in an hour tries again", h.Path)
				}
				m.tooLong(clone, key, err)
				return
			}
		}
	})
}

// tooLong returns a head that is to be flattened, with the layers that are to be
// joined: the lowest, which nobody moves. Where there is none, or after an error,
// nothing is being flattened any more.
func (m *Manager) tooLong(clone, key string, err error) (h meta.WarmHead, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, ok = m.cloneLocked(clone).heads[key]
	n := len(h.Chain) - flattenAt
	if err != nil {
		now := m.Now()
		maps.DeleteFunc(m.flattening, func(_ string, f flattening) bool { return !f.begun && !now.Before(f.again) })
		m.flattening[clone+"/"+key] = flattening{again: now.Add(joinAgain)}
		return meta.WarmHead{}, false
	}
	if !ok || n < 0 {
		delete(m.flattening, clone+"/"+key)
		return meta.WarmHead{}, false
	}
	h.Chain = h.Chain[n:]
	return h, true
}

// flatten copies what the layers of a head show into one. The heads that stand on
// them stand on that one then, also those that were moved meanwhile.
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
	if err := m.copyInTurn(ctx, held, h.Clone, filepath.Join(temp, path.Dir(h.Path)), room); err != nil {
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
		return nil // all have moved on to something else
	}
	return m.commit(h.Clone, ch)
}

// spare is the share of a filesystem that joining layers leaves free.
const spare = 64

// roomFor returns how many bytes joining the layers of a head may copy, or why it
// may not. It is more than they take by what compression saved.
func (m *Manager) roomFor(h meta.WarmHead) (int64, error) {
	space, err := disk.SpaceOf(m.Root)
	if err != nil {
		return 0, err
	}
	size := m.ChainSize(h.Clone, h.Chain)
	left := space.Free.Sub(size)
	if left.Bytes < space.Total.Bytes/spare || left.Inodes < space.Total.Inodes/spare && space.Total.Inodes > 0 {
		return 0, fmt.Errorf("its layers take %d bytes and %d inodes, and of %d and %d that are free a part has to stay: make room on the disk",
			size.Bytes, size.Inodes, space.Free.Bytes, space.Free.Inodes)
	}
	return 2*size.Bytes + 64<<20, nil
}

// copyInTurn is copyChain as heavy work.
func (m *Manager) copyInTurn(ctx context.Context, held []meta.WarmPath, clone, to string, room int64) error {
	ctx, done, err := m.Heavy(ctx, clone, "join warm layers")
	if err != nil {
		return err
	}
	defer done()
	return m.copyChain(ctx, held, clone, to, room)
}

// copyChain copies what a chain shows at its path into the directory to, if it is
// no more than room bytes.
func (m *Manager) copyChain(ctx context.Context, held []meta.WarmPath, clone, to string, room int64) error {
	view, err := overlay.View(m.Lower(clone, held))
	if err != nil {
		return err
	}
	defer view.Close()
	dst, err := os.Open(to)
	if err != nil {
		return err
	}
	defer dst.Close()
	names, err := os.MkdirTemp(to, ".links-*")
	if err != nil {
		return err
	}
	links, err := os.Open(names)
	if err != nil {
		return err
	}
	defer links.Close()
	if err := copyTree(ctx, below(int(view.Fd()), held[0].Path), dst, links, room); err != nil {
		return err // it goes with the rest
	}
	return os.RemoveAll(names)
}
