package clone

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/volume"
)

// SpecOf returns the checkout of a volume with these options.
func SpecOf(o volume.Options) Spec {
	return Spec{
		Source: remote.Source{
			URL: o.Repo, Ref: o.Ref, History: o.History, ColdShallow: o.ColdShallow, Refresh: o.Refresh, StaleIfError: o.StaleIfError,
			Credential: o.Credential,
		},
		Files: o.Files, UID: o.UID, GID: o.GID, CacheLink: o.CacheLink,
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

// FirstMount is called before a workspace of the clone is recorded. If it is the first one, others reuse the
// clone from then on: record notes that, in the transaction of the workspace. undo is for one that has failed.
func (c *Clone) FirstMount() (record func(*meta.Tx) error, undo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rec.FirstMount.IsZero() || !c.remote.Fetched() {
		return func(*meta.Tx) error { return nil }, func() {}
	}
	at := c.m.config.Now()
	change := func(from, to time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.rec.FirstMount.Equal(from) {
			c.rec.FirstMount = to
		}
	}
	record = func(tx *meta.Tx) error {
		change(time.Time{}, at)
		return c.put(tx)
	}
	return record, func() { change(at, time.Time{}) }
}

// Mounted notes that a workspace was made of the clone for a volume with these options, so that
// Recent lists the checkout. If the workspace may be shallow because of cold=shallow, Mounted
// starts the fetch of the full history.
func (c *Clone) Mounted(ctx context.Context, o volume.Options) {
	if o.ColdShallow && c.remote.Serving(SpecOf(o).Source).Cold {
		c.deepenSoon(ctx, SpecOf(o))
	}
	c.mu.Lock()
	noted := c.remote.Fetched() && c.noteLocked(o, c.m.config.Now())
	c.mu.Unlock()
	if noted {
		c.saveSoon()
	}
}

// noteLocked notes a Mount, and reports whether the record has changed. It does not note
// commits, which do not move.
func (c *Clone) noteLocked(o volume.Options, now time.Time) bool {
	r, known := c.remote.Resolution(SpecOf(o).Source)
	if o.Ref.Kind() == volume.RefSHA || o.Ref.MaybeAbbrev() && known && r.Ref == "" {
		return false
	}
	of := meta.OptionsOf(o.Checkout())
	i := slices.IndexFunc(c.rec.Recent, func(m meta.Recent) bool { return m.Options == of })
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
	if !c.remote.Fetched() {
		return nil
	}
	now := c.m.config.Now()
	return slices.DeleteFunc(slices.Clone(c.rec.Recent), func(m meta.Recent) bool { return !isRecent(m, now) })
}

// Fetched returns the clones that were fetched, sorted by key, from memory.
func (m *Manager) Fetched() []*Clone {
	list := slices.DeleteFunc(m.all(), func(c *Clone) bool { return !c.remote.Fetched() })
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
	if !c.remote.Fetched() {
		return meta.Resolution{}, ErrEvicted
	}
	return c.ahead(ctx, s, false, func(*Checkout) error { return nil })
}

// ahead prepares a checkout for a later Mount, calls f with it, and releases it.
func (c *Clone) ahead(ctx context.Context, s Spec, use bool, f func(*Checkout) error) (r meta.Resolution, err error) {
	s.Refresh, s.StaleIfError, s.ColdShallow, s.Others = volume.Refresh{}, 0, false, remote.OthersNow
	err = c.prepare(ctx, s, use, func(co *Checkout) error {
		defer co.Release()
		r = co.Resolution
		return f(co)
	})
	return r, err
}

// Warm does what Ready does, and makes the clone if it does not exist. It is a use of the
// clone: until its end the clone is not evicted, and its layers count as used then. It calls f with the checkout,
// with room on the disk, before it releases that.
func (c *Clone) Warm(ctx context.Context, s Spec, f func(*Checkout) error) (meta.Resolution, error) {
	return c.ahead(ctx, s, true, func(co *Checkout) error {
		return c.WithRoom(ctx, FewFiles, func() error { return f(co) })
	})
}

// Doing returns the newest work on the clone, from memory.
func (c *Clone) Doing() remote.Now { return c.remote.Doing.Now() }

// Activities describes all work on the clone, as the message of an error; empty if there is none.
func (c *Clone) Activities() string { return c.remote.Doing.String() }

// Size returns the size of the clone's own files, as far as it was measured, from memory.
func (c *Clone) Size() disk.Size {
	rec, _ := c.record()
	return c.sizeWith(rec)
}
