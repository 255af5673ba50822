package clone

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/tree"
)

// measureRest limits measuring to a quarter of one processor, because no caller waits for
// a size.
const measureRest = 300

// measureSoon makes Measure measure the clone's layers without a size, and these stores,
// which have changed.
func (c *Clone) measureSoon(stores ...string) {
	c.m.mu.Lock()
	changed := c.m.unmeasured[c]
	if changed == nil {
		changed = make(map[string]bool)
		c.m.unmeasured[c] = changed
	}
	for _, name := range stores {
		changed[name] = true
	}
	c.m.mu.Unlock()
	select {
	case c.m.measures <- struct{}{}:
	default:
	}
}

// measureRestored calls measureSoon for what an earlier run has not measured.
func (c *Clone) measureRestored() {
	stores := c.remote.Stores()
	maps.DeleteFunc(stores, func(_ string, s meta.Store) bool { return !s.Size.At.IsZero() && !s.Size.At.Before(s.FetchedAt) })
	if len(stores) > 0 || c.remote.Fetched() && len(c.layers.Unmeasured()) > 0 {
		c.measureSoon(slices.Collect(maps.Keys(stores))...)
	}
}

// Measure measures one clone after the other until ctx ends. It begins a while after the change: see soon.
func (m *Manager) Measure(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.measures:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(soon):
		}
		m.mu.Lock()
		todo := slices.Collect(maps.Keys(m.unmeasured))
		m.mu.Unlock()
		for _, c := range todo {
			if err := c.measure(ctx); err != nil && ctx.Err() == nil {
				m.config.Log.WithContext(ctx).WithError(err).WithField("clone", c.Key).
					Warn("measure: some sizes are unknown")
			}
		}
		if m.config.Measured != nil {
			m.config.Measured()
		}
	}
}

// measure measures layers without a size and stores that have changed. A layer's size does
// not include the packs that it links, which count in their store.
func (c *Clone) measure(ctx context.Context) error {
	release, err := c.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, done, err := c.used.Start(ctx)
	if err != nil {
		c.measureSoon() // it is being evicted, which may fail
		return nil
	}
	defer done()
	c.m.mu.Lock()
	changed := c.m.unmeasured[c]
	delete(c.m.unmeasured, c)
	c.m.mu.Unlock()
	pace := disk.NewPace(measureRest)
	layers, err := c.layers.Measure(ctx, pace)
	errs := []error{err}
	for name := range changed {
		path := c.remote.StoreDir(name)
		if name == tree.LFSObjects {
			path = tree.LFSDir(c.Dir)
		}
		survey, err := disk.Query{Pace: pace}.Take(ctx, path)
		switch {
		case err == nil && name == tree.LFSObjects:
			c.mu.Lock()
			if c.remote.Fetched() {
				c.rec.LFS = meta.Measured{Size: survey.Size, At: c.m.config.Now()}
			}
			c.mu.Unlock()
		case err == nil:
			c.remote.SetSize(name, meta.Measured{Size: survey.Size, At: c.m.config.Now()})
		case !errors.Is(err, os.ErrNotExist): // unless it was set aside
			errs = append(errs, err)
		}
	}
	c.Trees.FlattenSoon()
	return errors.Join(append(errs, c.save(layers...))...)
}
