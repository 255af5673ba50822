package janitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// ErrNoClone is returned for an unknown clone.
var ErrNoClone = errors.New("there is no clone")

// CloneInfo describes a clone to people.
type CloneInfo struct {
	Clone   string    `json:"clone"` // its key
	Subject string    `json:"subject"`
	Repo    string    `json:"repo"`
	Used    time.Time `json:"used"`
	// Size is the total; Parts has the sums by kind. The rest are stores and LFS objects.
	Size  disk.Size            `json:"size"`
	Parts map[string]disk.Size `json:"parts"`
	Held  Hold                 `json:"held"`
}

// Clones lists the clones, largest first.
func (j *Janitor) Clones(ctx context.Context) ([]CloneInfo, error) {
	inv, err := j.Stock.Inventory(ctx)
	if err != nil {
		return nil, err
	}
	p := newPlanner(inv, Limits{})
	list := make([]CloneInfo, 0, len(p.clones))
	for i := range p.clones {
		c := &p.clones[i]
		info := CloneInfo{
			Clone: c.Key, Subject: c.Subject, Repo: c.Repo, Used: time.Unix(c.used(), 0).UTC(), Size: c.left, Held: c.hold,
			Parts: make(map[string]disk.Size),
		}
		for _, part := range c.Parts {
			info.Parts[part.Kind.String()] = info.Parts[part.Kind.String()].Add(part.Size)
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b CloneInfo) int {
		return cmp.Or(cmp.Compare(b.Size.Bytes, a.Size.Bytes), strings.Compare(a.Clone, b.Clone))
	})
	return list, nil
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
		return fmt.Errorf("evict clone %q: %w: %d discards stand on it; restore or remove them first", key, ErrHeld, c.discards)
	}
	p.evictClone(0, p.because(OnDemand, "an operator requested it"))
	e := p.evictions()[0]
	if err := j.Stock.Evict(ctx, e); err != nil {
		return fmt.Errorf("evict clone %q: %w", key, err)
	}
	j.evicted(ctx, e)
	return nil
}
