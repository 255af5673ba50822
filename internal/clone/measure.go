package clone

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/tree"
)

// measureRest has measuring take a quarter of one processor at most: nobody waits
// for a size.
const measureRest = 300

// measureSoon has layers without a size measured in the background, and the stores
// of these names, in which something has changed.
func (c *Clone) measureSoon(stores ...string) {
	c.mu.Lock()
	for _, name := range stores {
		c.changed[name] = true
	}
	c.mu.Unlock()
	c.m.mu.Lock()
	c.m.unmeasured[c] = true
	c.m.mu.Unlock()
	select {
	case c.m.measures <- struct{}{}:
	default:
	}
}

// measureRestored asks for what an earlier run has not come to measure.
func (c *Clone) measureRestored() {
	stores := c.Remote.Stores()
	maps.DeleteFunc(stores, func(_ string, s meta.Store) bool { return !s.Size.At.IsZero() && !s.Size.At.Before(s.FetchedAt) })
	if len(stores) > 0 || c.Remote.Fetched() && len(c.layers.Unmeasured()) > 0 {
		c.measureSoon(slices.Collect(maps.Keys(stores))...)
	}
}

// measureClones measures one clone after the other.
func (m *Manager) measureClones(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.measures:
		}
		m.mu.Lock()
		todo := m.unmeasured
		m.unmeasured = make(map[*Clone]bool)
		m.mu.Unlock()
		for c := range todo {
			if err := c.measure(ctx); err != nil && ctx.Err() == nil {
				m.Log.WithError(err).WithField("clone", c.Key).Warn("measure: the sizes of some things are not known")
			}
		}
		if m.Measured != nil {
			m.Measured()
		}
	}
}

// measure measures what has no size yet: each layer alone, without the packs that
// it links, which count in their store.
func (c *Clone) measure(ctx context.Context) error {
	release, err := c.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, done, err := c.used.Start(ctx)
	if err != nil {
		c.measureSoon() // unless it is evicted
		return nil
	}
	defer done()
	c.mu.Lock()
	changed := c.changed
	c.changed = make(map[string]bool)
	c.mu.Unlock()
	pace := disk.NewPace(measureRest)
	layers, err := c.layers.Measure(ctx, pace)
	errs := []error{err}
	for name := range changed {
		path := c.Remote.StoreDir(name)
		if name == tree.LFSObjects {
			path = tree.LFSDir(c.Dir)
		}
		survey, err := disk.Query{Pace: pace}.Take(ctx, path)
		switch {
		case err == nil:
			c.setStoreSize(name, meta.Measured{Size: survey.Size, At: c.m.Now()})
		case !errors.Is(err, os.ErrNotExist): // it was set aside
			errs = append(errs, err)
		}
	}
	c.Trees.FlattenSoon()
	return errors.Join(append(errs, c.save(layers...))...)
}

func (c *Clone) setStoreSize(name string, size meta.Measured) {
	if name != tree.LFSObjects {
		c.Remote.SetSize(name, size)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Remote.Fetched() {
		c.rec.LFS = size
	}
}
