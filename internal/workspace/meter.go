package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/mounter"
)

// Uppers and caches are measured one at a time, because each may have a million files.
const (
	upperEvery = 30 * time.Second
	cacheEvery = 5 * time.Minute
	// meterRest is how long Meter rests within a walk, in percent of the time that it
	// works. meterIdle is how long it rests after a walk, as a multiple of the walk with its
	// rests, and at least meterGap. So Meter works some 2% of the time. One container can
	// make a walk as long as it likes, with names that cost it nothing. So only the first
	// meterLong of a walk delays other targets; all of it delays the same target.
	meterRest = 300
	meterIdle = 12
	meterGap  = time.Second
	meterLong = time.Second
)

// turn is when a target was last measured.
type turn struct {
	at   time.Time // zero for never
	cost time.Duration
	soon bool // measure it again before it is due
}

// idle is how long a target is not measured again, because of what it cost.
func (t turn) idle() time.Duration { return meterIdle * t.cost }

// every is the time from one turn to the next; usual for a target that costs little.
func (t turn) every(usual time.Duration) time.Duration {
	if t.soon {
		usual = 0
	}
	return max(usual, t.idle())
}

// target is what Meter measures: the upper of a workspace, or else a cache.
type target struct {
	upper *workspace
	clone string // key
	uid   uint32
}

// meter measures the uppers and the caches, one at a time.
type meter struct {
	*Config
	records *records
	mounter *mounter.Mounter

	mu    sync.Mutex // taken before that of records
	turns map[target]turn
}

// run measures, until ctx ends, the uppers of workspaces that are in use or kept, and that
// of a kept one also when its last lease ends. It measures a cache while a workspace uses
// it, when that workspace ends, and if it was never measured. The sizes are in the records
// of Workspaces and of the clones.
func (m *meter) run(ctx context.Context) {
	m.findCaches()
	disk.Nice(func() {
		for wait := time.Duration(0); sleep(ctx, wait) == nil; {
			begun := time.Now()
			t, due := m.next(ctx, m.Now())
			cost := time.Since(begun)
			if due {
				m.charge(t, cost)
			}
			wait = max(meterGap, meterIdle*min(cost, meterLong))
		}
	})
}

// findCaches makes caches of unknown size due.
func (m *meter) findCaches() {
	for _, info := range m.Clones.Inventory() {
		dirs, err := os.ReadDir(filepath.Join(m.Root, "clones", info.Key, "cache"))
		if err != nil {
			continue // it has none
		}
		for _, d := range dirs {
			uid, err := strconv.ParseUint(d.Name(), 10, 32)
			if _, known := info.Caches[d.Name()]; err == nil && !known {
				m.cacheSoon(meta.Workspace{Clone: info.Key, UID: uint32(uid)})
			}
		}
	}
}

// cacheSoon makes the cache of a workspace due, unless measuring it costs too much.
func (m *meter) cacheSoon(rec meta.Workspace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := target{clone: rec.Clone, uid: rec.UID}
	t := m.turns[key]
	t.soon = true
	m.turns[key] = t
}

// upperSoon makes the upper of a workspace due, unless measuring it costs too much.
func (m *meter) upperSoon(w *workspace) {
	at := m.records.get(w).MountedAt
	m.mu.Lock()
	defer m.mu.Unlock()
	key := target{upper: w}
	t, known := m.turns[key]
	if !known {
		t.at = at
	}
	t.soon = true
	m.turns[key] = t
}

// next measures the target that has waited longest, if any is due, and returns it.
func (m *meter) next(ctx context.Context, now time.Time) (t target, due bool) {
	t, due = m.due(now)
	if due {
		m.measure(ctx, now, t)
	}
	return t, due
}

// charge notes what it took to measure a target.
func (m *meter) charge(key target, cost time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.turns[key]
	t.cost = cost
	m.turns[key] = t
}

// due returns the target that has waited longest, if any is due, and notes that it is
// measured now.
func (m *meter) due(now time.Time) (next target, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := make(map[target]bool)
	m.records.each(func(w *workspace) {
		if w.rec.Phase == meta.Making || w.rec.Phase == meta.Discarded {
			return
		}
		for _, key := range []target{{upper: w}, {clone: w.rec.Clone, uid: w.rec.UID}} {
			used[key] = true
			if _, known := m.turns[key]; !known {
				m.turns[key] = turn{at: w.rec.MountedAt}
			}
		}
	})
	var longest time.Duration
	for key, t := range m.turns {
		every := t.every(cacheEvery)
		if key.upper != nil {
			every = t.every(upperEvery)
		}
		waited := now.Sub(t.at)
		if waited < 0 {
			waited = every // a clock that was put back makes everything due once
		}
		if !used[key] && !t.soon { // measured since the last workspace that used it ended
			if waited >= t.idle() {
				delete(m.turns, key)
			}
		} else if over := waited - every; over > longest || over == longest && !ok {
			next, longest, ok = key, over, true
		}
	}
	if ok {
		m.turns[next] = turn{at: now}
	}
	return next, ok
}

// measure measures a target, to which containers may be writing. The size of an upper is
// committed with the next change of its record.
func (m *meter) measure(ctx context.Context, now time.Time, t target) {
	uid := strconv.FormatUint(uint64(t.uid), 10)
	path, q := filepath.Join(m.Root, "clones", t.clone, "cache", uid), disk.Query{Pace: disk.NewPace(meterRest), Budget: disk.Budget}
	if t.upper != nil {
		rec := m.records.get(t.upper)
		path, q.Owner = m.mounter.Upper(rec), &rec.UID
		for _, p := range rec.Warm { // their files have the owners that earlier containers gave them
			q.Skip = append(q.Skip, p.Path)
		}
	}
	found, err := q.Take(ctx, path)
	if err != nil && !disk.AtLeast(err) {
		if !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
			m.Log.WithContext(ctx).WithError(err).Warn("measure an upper or a cache")
		}
		return
	}
	size := meta.Measured{Size: found.Size, At: now}
	if t.upper != nil {
		m.records.setSize(ctx, t.upper, size, found.Foreign)
		return
	}
	c := m.Clones.Lookup(t.clone)
	if _, err := os.Lstat(path); c == nil || errors.Is(err, os.ErrNotExist) {
		return // evicted meanwhile
	}
	if err := c.SetCache(uid, size); err != nil {
		m.Log.WithContext(ctx).WithError(err).WithField("clone", t.clone).Warn("record the size of a cache")
	}
}
