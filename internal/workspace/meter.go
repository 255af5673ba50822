package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// What containers are writing is measured in turn, one thing at a time: uppers
// and caches may have a million files.
const (
	upperEvery = 30 * time.Second
	cacheEvery = 5 * time.Minute
	// meterRest is how long Meter rests for each time that it walked, and meterIdle
	// how long it does nothing for each walk, rests included, at least meterGap: some
	// 2% of the time are left for walking. A walk of more than meterLong is what one
	// container can make it, with names that cost nothing: what is over has only that
	// thing wait.
	meterRest = 300 // percent
	meterIdle = 12
	meterGap  = time.Second
	meterLong = time.Second
)

// turn is when something was measured.
type turn struct {
	at   time.Time // zero for never
	cost time.Duration
	soon bool // measured again before it is due
}

// idle is how long it is not measured again for what that cost.
func (t turn) idle() time.Duration { return meterIdle * t.cost }

// every is how long after one turn comes the next; usual when it costs little.
func (t turn) every(usual time.Duration) time.Duration {
	if t.soon {
		usual = 0
	}
	return max(usual, t.idle())
}

// cache is one of the dependency caches.
type cache struct {
	clone string // key
	uid   uint32
}

// Meter measures, until ctx ends, the uppers of workspaces that are in use or
// kept, and caches: while a workspace uses them, when it ends, and those that were
// never measured. The sizes are in the records of Workspaces, and in the clones'.
func (m *Manager) Meter(ctx context.Context) {
	m.findCaches()
	disk.Nice(func() {
		for ctx.Err() == nil {
			begun := time.Now()
			now := m.Now()
			w, c, due := m.meterNext(ctx, now)
			cost := time.Since(begun)
			if due {
				m.charge(w, c, cost)
			}
			timer := time.NewTimer(max(meterGap, meterIdle*min(cost, meterLong)))
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	})
}

// findCaches has caches measured whose sizes are not known.
func (m *Manager) findCaches() {
	for _, info := range m.Clones.Inventory() {
		dirs, err := os.ReadDir(filepath.Join(m.Root, "clones", info.Key, "cache"))
		if err != nil {
			continue // it has none
		}
		for _, d := range dirs {
			uid, err := strconv.ParseUint(d.Name(), 10, 32)
			if _, known := info.Caches[d.Name()]; err == nil && !known {
				m.meterCacheOf(meta.Workspace{Clone: info.Key, UID: uint32(uid)})
			}
		}
	}
}

// meterCacheOf has the cache of a workspace measured soon.
func (m *Manager) meterCacheOf(rec meta.Workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := cache{rec.Clone, rec.UID}
	t := m.caches[key]
	t.soon = true
	m.caches[key] = t
}

// meterNext measures what has waited longest, and returns it, if anything is due.
func (m *Manager) meterNext(ctx context.Context, now time.Time) (w *workspace, c cache, due bool) {
	w, c, due = m.due(now)
	switch {
	case !due:
	case w != nil:
		m.meterUpper(ctx, now, w)
	default:
		m.meterCache(ctx, now, c)
	}
	return w, c, due
}

// charge notes what it took to measure a workspace, or else a cache.
func (m *Manager) charge(w *workspace, c cache, cost time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w != nil {
		w.metered.cost = cost
		return
	}
	t := m.caches[c]
	t.cost = cost
	m.caches[c] = t
}

// due returns a workspace, or else a cache, and notes that it is being measured.
func (m *Manager) due(now time.Time) (w *workspace, c cache, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var longest time.Duration
	// A clock that was put back makes everything due once.
	waits := func(since time.Time, every time.Duration) bool {
		over := now.Sub(since) - every
		if over < -every {
			over = 0
		}
		if over < 0 || ok && over <= longest {
			return false
		}
		longest, ok = over, true
		return true
	}
	used := make(map[cache]bool)
	for _, x := range m.all {
		if x.rec.Phase == meta.Making || x.rec.Phase == meta.Discarded {
			continue
		}
		key := cache{x.rec.Clone, x.rec.UID}
		used[key] = true
		if _, known := m.caches[key]; !known {
			m.caches[key] = turn{at: x.rec.MountedAt}
		}
		since := x.metered.at
		if since.IsZero() {
			since = x.rec.MountedAt
		}
		if waits(since, x.metered.every(upperEvery)) {
			w = x
		}
	}
	for key, t := range m.caches {
		if !used[key] && !t.soon { // measured since the last one that used it ended
			if past := now.Sub(t.at); past < 0 || past >= t.idle() {
				delete(m.caches, key)
			}
			continue
		}
		if waits(t.at, t.every(cacheEvery)) {
			w, c = nil, key
		}
	}
	switch {
	case w != nil:
		w.metered = turn{at: now}
	case ok:
		m.caches[c] = turn{at: now}
	}
	return w, c, ok
}

// meterUpper shows what an upper takes. It is written down with the next change
// of the record.
func (m *Manager) meterUpper(ctx context.Context, now time.Time, w *workspace) {
	size, ok := m.read(ctx, now, m.upper(m.record(w)))
	if !ok {
		return
	}
	unlock, err := m.records.Lock(ctx, w.id)
	if err != nil {
		return
	}
	defer unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.rec.Phase != meta.Discarded {
		w.rec.Size = size
	}
}

func (m *Manager) meterCache(ctx context.Context, now time.Time, key cache) {
	c, uid := m.Clones.Lookup(key.clone), strconv.FormatUint(uint64(key.uid), 10)
	if c == nil {
		return
	}
	path := filepath.Join(m.Root, "clones", key.clone, "cache", uid)
	size, ok := m.read(ctx, now, path)
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return // evicted meanwhile
	}
	if !ok {
		return
	}
	if err := c.SetCache(uid, size); err != nil {
		m.Log.WithError(err).WithField("clone", key.clone).Warn("note the size of a cache")
	}
}

// read measures what containers may be writing to.
func (m *Manager) read(ctx context.Context, now time.Time, path string) (size meta.Measured, ok bool) {
	found, err := disk.Query{Pace: disk.NewPace(meterRest), Budget: disk.Budget}.Take(ctx, path)
	switch {
	case err == nil, disk.AtLeast(err):
		return meta.Measured{Size: found.Size, At: now}, true
	case !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil:
		m.Log.WithError(err).Warn("measure what containers write")
	}
	return meta.Measured{}, false
}
