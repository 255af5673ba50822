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
	// 2% of the time are left for walking.
	meterRest = 300 // percent
	meterIdle = 12
	meterGap  = time.Second
)

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
			m.meterNext(ctx, m.Now())
			timer := time.NewTimer(max(meterGap, meterIdle*time.Since(begun)))
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

// meterCacheOf has the cache of a workspace measured next.
func (m *Manager) meterCacheOf(rec meta.Workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.caches[cache{rec.Clone, rec.UID}] = time.Time{}
}

// meterNext measures what has waited longest, if anything is due, and reports
// whether it was.
func (m *Manager) meterNext(ctx context.Context, now time.Time) bool {
	w, c, due := m.due(now)
	switch {
	case !due:
	case w != nil:
		m.meterUpper(ctx, now, w)
	default:
		m.meterCache(ctx, now, c)
	}
	return due
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
		if x.making || x.rec.State == meta.Discarded {
			continue
		}
		key := cache{x.rec.Clone, x.rec.UID}
		used[key] = true
		if _, known := m.caches[key]; !known {
			m.caches[key] = x.rec.MountedAt
		}
		since := x.metered
		if since.IsZero() {
			since = x.rec.MountedAt
		}
		if waits(since, upperEvery) {
			w = x
		}
	}
	for key, at := range m.caches {
		if !used[key] && !at.IsZero() {
			delete(m.caches, key) // measured since the last one that used it ended
			continue
		}
		if waits(at, cacheEvery) {
			w, c = nil, key
		}
	}
	switch {
	case w != nil:
		w.metered = now
	case ok:
		m.caches[c] = now
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
	if w.rec.State != meta.Discarded {
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
	found, err := disk.Query{Pace: disk.NewPace(meterRest)}.Take(ctx, path)
	switch {
	case err == nil, errors.Is(err, disk.ErrMoved): // then it is at least that
		return meta.Measured{Size: found.Size, At: now}, true
	case !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil:
		m.Log.WithError(err).Warn("measure what containers write")
	}
	return meta.Measured{}, false
}
