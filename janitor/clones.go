package janitor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrNoClone is returned for an unknown clone.
var ErrNoClone = errors.New("there is no clone")

// Holdings is what a Stock has now, for people.
type Holdings struct {
	Clones []CloneInfo // sorted by key
	Trash  disk.Size   // of all that is being deleted
	Own    disk.Size   // of the plugin's own files, and of what could not be deleted
	Space  disk.Space  // of the filesystem
	Limits Limits
}

// CloneInfo describes a clone to people.
type CloneInfo struct {
	Clone   string // its key
	Subject string
	Repo    string
	Used    time.Time
	// Size is the total: the sum of Stores, LFS and Parts.
	Size, Stores, LFS disk.Size
	Parts             map[Kind]disk.Size // sums by kind
	// Held says why EvictClone refuses it, or what it ends: the work of Pending and Working.
	Held Hold
}

// Holdings lists what there is, with the chosen clones.
func (j *Janitor) Holdings(ctx context.Context, of Choice) (Holdings, error) {
	inv, err := j.config.Stock.Inventory(ctx, of)
	if err != nil {
		return Holdings{}, err
	}
	p := newPlanner(inv, Limits{})
	h := Holdings{Clones: make([]CloneInfo, len(p.clones)), Trash: inv.Trash, Own: inv.Own, Space: inv.Space, Limits: j.config.Limits}
	for i := range p.clones {
		c := &p.clones[i]
		info := CloneInfo{
			Clone: c.Key, Subject: c.Subject, Repo: c.Repo, Used: time.Unix(c.used(), 0).UTC(), Held: c.held(),
			Size: c.left, Stores: c.Size.Sub(c.LFS).Sub(c.Common), LFS: c.LFS, Parts: map[Kind]disk.Size{Warm: c.Common},
		}
		for _, part := range c.Parts {
			info.Parts[part.Kind] = info.Parts[part.Kind].Add(part.Size)
		}
		h.Clones[i] = info
	}
	return h, nil
}

// held returns the hold of a clone for an operator, whose eviction takes no checkpoints.
func (c *clone) held() Hold {
	if c.checkpoints > 0 && (c.hold == Free || c.hold == Pending || c.hold == Working) {
		return HasCheckpoints
	}
	return c.hold
}

// EvictClone evicts one clone on demand: its next mount clones again. Work on it is
// cancelled, and Mounts that wait for that fail. The error is ErrHeld, with the reason,
// if a workspace uses it or it has checkpoints, and ErrNoClone for an unknown clone.
func (j *Janitor) EvictClone(ctx context.Context, key string) error {
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	inv, err := j.config.Stock.Inventory(ctx, One(key))
	if err != nil {
		return err
	}
	if len(inv.Clones) == 0 {
		return fmt.Errorf("%w %q", ErrNoClone, key)
	}
	p := newPlanner(Inventory{Now: inv.Now, Clones: inv.Clones}, Limits{})
	c := &p.clones[0]
	if held := c.held(); held != Free && held != Pending && held != Working {
		return fmt.Errorf("evict clone %q: %w: %s", key, ErrHeld, held)
	}
	p.evictClone(0, p.because(OnDemand, "an operator requested it"))
	e := p.evictions()[0]
	if err := j.config.Stock.Evict(ctx, e); err != nil {
		return fmt.Errorf("evict clone %q: %w", key, err)
	}
	j.evicted(ctx, e)
	return nil
}
