package warm

import (
	"context"
	"errors"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
)

// Sweep makes the records and the directories of a clone agree, until it has
// succeeded once: layers that are gone, or were not on disk when the machine went
// down, leave the heads, and directories without a record go to the trash. What
// workspaces hold stays. All that uses a clone sweeps it first.
func (m *Manager) Sweep(ctx context.Context, clone string) error {
	m.mu.Lock()
	swept := m.cloneLocked(clone).swept
	m.mu.Unlock()
	if swept {
		return nil
	}
	unlock, err := m.lock(ctx, clone)
	if err == nil {
		unlock()
	}
	return err
}

// SweepAll sweeps the clones that have warm layers, on disk or by their records.
func (m *Manager) SweepAll(ctx context.Context) error {
	keys, err := m.Owners(meta.WarmLayer)
	if err != nil {
		return err
	}
	var errs []error
	for _, key := range keys {
		errs = append(errs, m.Sweep(ctx, key))
	}
	return errors.Join(errs...)
}

// sweep makes the records and the directories of a clone agree, once. It is
// called with the clone's lock held.
func (m *Manager) sweep(clone string) error {
	m.mu.Lock()
	c := m.cloneLocked(clone)
	swept := c.swept
	m.mu.Unlock()
	if swept {
		return nil
	}
	lost, err := c.layers.Void(meta.WarmLayer)
	if err != nil {
		return err
	}
	ch := change{lost: lost}
	good := func(id string) bool {
		_, ok := c.layers.Get(meta.WarmLayer, id)
		return ok && !slices.ContainsFunc(lost, func(l meta.Layer) bool { return l.ID == id })
	}
	m.mu.Lock()
	for _, h := range c.heads {
		// What is below a layer that was lost was a head once, and good.
		n := len(h.Chain)
		for n > 0 && good(h.Chain[n-1]) {
			n--
		}
		switch {
		case n == 0:
		case n == len(h.Chain):
			ch.gone = append(ch.gone, h)
		default:
			h.Chain = slices.Clone(h.Chain[n:])
			ch.heads = append(ch.heads, h)
		}
	}
	m.mu.Unlock()
	if err := m.commit(clone, ch); err != nil {
		return err
	}
	if err := c.layers.TrashStrays(meta.WarmLayer); err != nil {
		return err
	}
	m.mu.Lock()
	c.swept = true
	m.mu.Unlock()
	return nil
}
