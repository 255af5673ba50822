package warm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
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
	dirs, err := filepath.Glob(filepath.Join(m.Root, "clones", "*", "*", "warm"))
	if err != nil {
		return err
	}
	keys := make(map[string]bool)
	for _, dir := range dirs {
		key, err := filepath.Rel(filepath.Join(m.Root, "clones"), filepath.Dir(dir))
		if err != nil {
			return err
		}
		keys[key] = true
	}
	m.mu.Lock()
	for key := range m.clones {
		keys[key] = true
	}
	m.mu.Unlock()
	var errs []error
	for key := range keys {
		errs = append(errs, m.Sweep(ctx, key))
	}
	return errors.Join(errs...)
}

// trashStrays removes the directories of layers that have no record, unless a
// workspace that was found after the database was lost stands on them. It is
// called with the clone's lock held: nothing is in the making but copies, under
// temporary names. The sizes of void, which were layers until now, count at once.
func (m *Manager) trashStrays(clone string, void []meta.WarmLayer) error {
	entries, err := os.ReadDir(m.dir(clone))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	sizes := make(map[string]disk.Size)
	for _, l := range void {
		sizes[l.ID] = l.Size.Size
	}
	for _, e := range entries {
		m.mu.Lock()
		c := m.cloneLocked(clone)
		_, known := c.layers[e.Name()]
		keep := known || c.users[e.Name()] > 0 || c.swept && durable.IsTemp(e.Name())
		m.mu.Unlock()
		if keep {
			continue
		}
		_, putErr := m.Trash.PutSized(filepath.Join(m.dir(clone), e.Name()), "warm", sizes[e.Name()])
		err = errors.Join(err, putErr)
	}
	return err
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
	there := make(map[string]bool)
	entries, err := os.ReadDir(m.dir(clone))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		there[e.Name()] = true
	}
	m.mu.Lock()
	var ch change
	good := func(id string) bool {
		l, ok := c.layers[id]
		return ok && there[id] && (l.Durable || l.Boot == m.Boot)
	}
	for id := range c.layers {
		if !good(id) {
			ch.lost = append(ch.lost, id)
		}
	}
	for _, h := range c.heads {
		// What is below a layer that was lost was a head once, and good.
		n := len(h.Chain)
		for n > 0 && good(h.Chain[n-1]) {
			n--
		}
		switch {
		case n == 0:
		case n == len(h.Chain):
			ch.gone = append(ch.gone, h.Key)
		default:
			h.Chain = slices.Clone(h.Chain[n:])
			ch.heads = append(ch.heads, h)
		}
	}
	m.mu.Unlock()
	if err := m.commit(clone, ch); err != nil {
		return err
	}
	m.mu.Lock()
	c.swept = true
	m.mu.Unlock()
	return nil
}
