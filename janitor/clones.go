package janitor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrNoClone is returned for an unknown clone.
var ErrNoClone = errors.New("there is no clone")

// Holdings is what a Stock has now, for people.
type Holdings struct {
	Clones []CloneInfo // sorted by key
	Trash  disk.Size   // of all that is being deleted
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
	Held              Hold
}

// Holdings lists what there is.
func (j *Janitor) Holdings(ctx context.Context) (Holdings, error) {
	inv, err := j.Stock.Inventory(ctx)
	if err != nil {
		return Holdings{}, err
	}
	p := newPlanner(inv, Limits{})
	h := Holdings{Clones: make([]CloneInfo, len(p.clones)), Trash: inv.Trash, Space: inv.Space, Limits: j.Limits}
	for i := range p.clones {
		c := &p.clones[i]
		info := CloneInfo{
			Clone: c.Key, Subject: c.Subject, Repo: c.Repo, Used: time.Unix(c.used(), 0).UTC(), Held: c.hold,
			Size: c.left, Stores: c.Size.Sub(c.LFS).Sub(c.Shared), LFS: c.LFS, Parts: map[Kind]disk.Size{Warm: c.Shared},
		}
		for _, part := range c.Parts {
			info.Parts[part.Kind] = info.Parts[part.Kind].Add(part.Size)
		}
		h.Clones[i] = info
	}
	return h, nil
}

// EvictClone evicts one clone on demand: its next mount clones again. Work on it is
// cancelled, and Mounts that wait for that fail. The error is ErrHeld, with the reason,
// if a workspace uses it or it has discards, and ErrNoClone for an unknown clone.
func (j *Janitor) EvictClone(ctx context.Context, key string) error {
	unlock, err := j.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	inv, err := j.Stock.Inventory(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(inv.Clones, func(c Clone) bool { return c.Key == key })
	if i < 0 {
		return fmt.Errorf("%w %q", ErrNoClone, key)
	}
	p := newPlanner(Inventory{Now: inv.Now, Clones: inv.Clones[i : i+1]}, Limits{})
	c := &p.clones[0]
	switch {
	case c.hold != Free && c.hold != Pending && c.hold != Working:
		return fmt.Errorf("evict clone %q: %w: %s", key, ErrHeld, c.hold)
	case c.discards > 0:
		return fmt.Errorf("evict clone %q: %w: %d discards stand on it; remove them first", key, ErrHeld, c.discards)
	}
	p.evictClone(0, p.because(OnDemand, "an operator requested it"))
	e := p.evictions()[0]
	if err := j.Stock.Evict(ctx, e); err != nil {
		return fmt.Errorf("evict clone %q: %w", key, err)
	}
	j.evicted(ctx, e)
	return nil
}
