package clone

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
)

// SpecOf returns the checkout of a volume with these options.
func SpecOf(o volume.Options) Spec {
	return Spec{
		Source: remote.Source{
			URL: o.Repo, Ref: o.Ref, History: o.History, ColdShallow: o.ColdShallow, Refresh: o.Refresh, StaleIfError: o.StaleIfError,
			Credential: o.Credential,
		},
		Files: o.Files, UID: o.UID, GID: o.GID,
	}
}

const (
	// recently is how long after its last Mount a checkout is kept ready: jobs that run every
	// night find theirs.
	recently = 24 * time.Hour
	// mostRecent bounds how many checkouts a clone's record has, because each change
	// writes the whole record. The ones that were mounted last stay.
	mostRecent = 256
)

// Mounted records that a workspace was made of the clone for a volume with these options:
// from now on others reuse the clone, and Recent lists the checkout. Only the first call
// for a clone waits for the disk. If the workspace may be shallow because of cold=shallow,
// Mounted starts the fetch of the full history.
func (c *Clone) Mounted(ctx context.Context, o volume.Options) error {
	if o.ColdShallow && c.Remote.Serving(SpecOf(o).Source).Cold {
		c.deepenSoon(ctx, SpecOf(o))
	}
	c.mu.Lock()
	fetched, now := c.Remote.Fetched(), c.m.Now()
	first := c.rec.FirstMount.IsZero() && fetched
	if first {
		c.rec.FirstMount = now
	}
	noted := fetched && c.noteLocked(o, now)
	c.mu.Unlock()
	switch {
	case first:
		return c.save()
	case noted:
		c.saveSoon()
	}
	return nil
}

// noteLocked notes a Mount, and reports whether the record has changed. It does not note
// commits, which do not move.
func (c *Clone) noteLocked(o volume.Options, now time.Time) bool {
	r, known := c.Remote.Resolution(SpecOf(o).Source)
	if o.Ref.Kind() == volume.RefSHA || o.Ref.MaybeAbbrev() && known && r.Ref == "" {
		return false
	}
	of := o.Checkout()
	i := slices.IndexFunc(c.rec.Recent, func(m meta.Recent) bool { return maps.Equal(m.Options, of) })
	if i >= 0 {
		if now.Sub(c.rec.Recent[i].At).Abs() < usedEvery {
			return false
		}
		c.rec.Recent = slices.Delete(slices.Clone(c.rec.Recent), i, i+1)
	}
	list := slices.DeleteFunc(slices.Clone(c.rec.Recent), func(m meta.Recent) bool { return !isRecent(m, now) })
	list = append([]meta.Recent{{Options: of, At: now}}, list...)
	c.rec.Recent = list[:min(len(list), mostRecent)]
	return true
}

// isRecent reports whether a Mount is less than a day old. One in the future, by a clock
// that was wrong, is not for ever.
func isRecent(m meta.Recent, now time.Time) bool { return now.Sub(m.At).Abs() < recently }

// Recent returns what was mounted in the last day, the newest first, from memory.
func (c *Clone) Recent() []meta.Recent {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Remote.Fetched() {
		return nil
	}
	now := c.m.Now()
	return slices.DeleteFunc(slices.Clone(c.rec.Recent), func(m meta.Recent) bool { return !isRecent(m, now) })
}

// Fetched returns the clones that were fetched, sorted by key, from memory.
func (m *Manager) Fetched() []*Clone {
	list := slices.DeleteFunc(m.all(), func(c *Clone) bool { return !c.Remote.Fetched() })
	slices.SortFunc(list, func(a, b *Clone) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// Ready does what Prepare does for a later Mount, which then waits for its question alone:
// it asks the remote, fetches what is missing, all branches and tags included, and builds
// the layers. It is no use of the clone: it does not defer the clone's end, and does not
// make a clone that does not exist. With a context whose owner yields, an eviction ends
// it. Then, and without a clone, the error says that the clone was evicted.
func (c *Clone) Ready(ctx context.Context, s Spec) (meta.Resolution, error) {
	ctx, done, err := c.used.Start(ctx)
	if err != nil {
		return meta.Resolution{}, err
	}
	defer done()
	if !c.Remote.Fetched() {
		return meta.Resolution{}, ErrEvicted
	}
	s.Refresh, s.StaleIfError, s.ColdShallow = volume.Refresh{}, 0, false
	co, err := c.prepareUsed(ctx, s, nil, attempt{began: c.m.Now(), ahead: true, spare: true})
	if err != nil {
		return meta.Resolution{}, err
	}
	co.Release()
	return co.Resolution, nil
}

// Warm does what Ready does, and makes the clone if it does not exist. It is a use of the
// clone: until its end the clone is not evicted, and its layers count as used then.
func (c *Clone) Warm(ctx context.Context, s Spec) (meta.Resolution, error) {
	release, err := c.Use(ctx)
	if err != nil {
		return meta.Resolution{}, err
	}
	defer release()
	s.Refresh, s.StaleIfError, s.ColdShallow = volume.Refresh{}, 0, false
	co, err := c.prepareUsed(ctx, s, nil, attempt{began: c.m.Now(), ahead: true})
	if err != nil {
		return meta.Resolution{}, err
	}
	co.Release()
	return co.Resolution, nil
}

// Doing returns the newest work on the clone, from memory.
func (c *Clone) Doing() remote.Now { return c.Remote.Doing.Now() }

// Size returns the size of the clone's own files, as far as it was measured, from memory.
func (c *Clone) Size() disk.Size {
	rec, _ := c.record()
	return sizeOf(rec, c.layers.List())
}
