package workspace

import (
	"context"
	"errors"
	"maps"
	"os"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/internal/workspace/rota"
)

// Uppers are measured one at a time, because each may have a million files.
const (
	upperEvery = 30 * time.Second
	// useEvery is how often the kernel is asked what workspaces with a limit hold: one system call
	// for each.
	useEvery = 10 * time.Second
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

// meter measures the uppers, one at a time.
type meter struct {
	config  *Config
	records *records
	mounter *mounter.Mounter
	// use is Manager.Use, except in tests; nil where the kernel does not count.
	use func(meta.Workspace) (disk.Size, error)

	turns *rota.Rota[*workspace]

	mu sync.Mutex
	// outside is what the last walk found in a workspace with a limit that the kernel did not count for it: a container
	// without a user namespace can take files of its own out of the project.
	outside map[*workspace]disk.Size
}

func newMeter(c *Config, r *records, mounts *mounter.Mounter) *meter {
	return &meter{config: c, records: r, mounter: mounts, turns: rota.New[*workspace](upperEvery, meterIdle), outside: make(map[*workspace]disk.Size)}
}

// run measures, until ctx ends, the uppers of workspaces that are in use or kept, and that
// of a kept one also when its last lease ends. The sizes are in the records of Workspaces.
func (m *meter) run(ctx context.Context) {
	disk.Nice(disk.Lowest, func() {
		for wait := time.Duration(0); sleep(ctx, wait) == nil; {
			begun := time.Now()
			w, due := m.next(ctx, m.config.Now())
			cost := time.Since(begun)
			if due {
				m.turns.Charge(w, cost)
			}
			wait = max(meterGap, meterIdle*min(cost, meterLong))
		}
	})
}

// runUses asks, until ctx ends, what workspaces with a limit hold.
func (m *meter) runUses(ctx context.Context) {
	for reached := make(map[*workspace]int); sleep(ctx, useEvery) == nil; {
		reached = m.readUses(ctx, m.config.Now(), reached)
	}
}

// readUses asks what workspaces with a limit hold, and calls Config.Filled if one of them reaches 90 or 100 % of it for
// the first time: reached has what each has reached before. It returns what each has reached now.
func (m *meter) readUses(ctx context.Context, now time.Time, before map[*workspace]int) (reached map[*workspace]int) {
	reached = make(map[*workspace]int)
	m.records.each(func(w *workspace) {
		if w.rec.Phase.Live() && w.rec.Limit != (disk.Size{}) {
			reached[w] = before[w]
		}
	})
	m.mu.Lock()
	maps.DeleteFunc(m.outside, func(w *workspace, _ disk.Size) bool { _, limited := reached[w]; return !limited })
	outside := maps.Clone(m.outside)
	m.mu.Unlock()
	filled := false
	for w := range reached {
		rec := m.records.get(w)
		size, err := m.use(rec)
		if err != nil {
			m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", rec.ID).Warn("ask what a workspace holds")
			continue
		}
		size = size.Add(outside[w])
		m.records.note(ctx, w, func(rec *meta.Workspace) { rec.Size = meta.Measured{Size: size, At: now} })
		for _, percent := range []int{90, 100} {
			if reached[w] < percent && size.Percent(rec.Limit) >= percent {
				reached[w], filled = percent, true
			}
		}
	}
	if filled && m.config.Filled != nil {
		m.config.Filled()
	}
	return reached
}

// upperSoon makes the upper of a workspace due, unless measuring it costs too much.
func (m *meter) upperSoon(w *workspace) { m.turns.Soon(w, m.records.get(w).MountedAt) }

// next measures the workspace that has waited longest, if any is due, and returns it.
func (m *meter) next(ctx context.Context, now time.Time) (w *workspace, due bool) {
	w, due = m.due(now)
	if due {
		m.measure(ctx, now, w)
	}
	return w, due
}

// due returns the workspace that has waited longest, if any is due, and notes that it is
// measured now.
func (m *meter) due(now time.Time) (next *workspace, ok bool) {
	used := make(map[*workspace]time.Time)
	m.records.each(func(w *workspace) {
		if w.rec.Phase != meta.Making && w.rec.Phase != meta.Checkpoint {
			used[w] = w.rec.MountedAt
		}
	})
	return m.turns.Due(now, used)
}

// measure measures the upper of a workspace, to which containers may be writing. The size is
// committed with the next change of its record. That of a workspace with a limit is what the kernel counts, and what it
// does not count.
func (m *meter) measure(ctx context.Context, now time.Time, w *workspace) {
	rec := m.records.get(w)
	q := disk.Query{Pace: disk.NewPace(meterRest), Budget: disk.Budget, Owner: &rec.UID}
	if !rec.Kept() { // or warm paths are promoted, and their owners are repaired or named then
		for _, p := range rec.Warm {
			q.Skip = append(q.Skip, p.Path)
		}
	}
	found, err := q.Take(ctx, m.mounter.Upper(rec))
	if err != nil && !disk.AtLeast(err) {
		if !errors.Is(err, os.ErrNotExist) && ctx.Err() == nil {
			m.config.Log.WithContext(ctx).WithError(err).Warn("measure an upper")
		}
		return
	}
	limited := m.use != nil && rec.Limit != (disk.Size{})
	if limited {
		m.compare(w, found.Size, disk.AtLeast(err), rec)
	}
	m.records.note(ctx, w, func(rec *meta.Workspace) {
		if rec.Foreign = found.Foreign; !limited {
			rec.Size = meta.Measured{Size: found.Size, At: now}
		}
	})
}

// compare notes what a walk found in a workspace with a limit beyond what the kernel counts for it. A walk that saw only a part
// of it proves no less than an earlier one.
func (m *meter) compare(w *workspace, found disk.Size, part bool, rec meta.Workspace) {
	counted, err := m.use(rec)
	if err != nil {
		return // readUses says so
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	outside := disk.Size{Bytes: max(found.Bytes-counted.Bytes, 0), Inodes: max(found.Inodes-counted.Inodes, 0)}
	if before := m.outside[w]; part {
		outside = disk.Size{Bytes: max(outside.Bytes, before.Bytes), Inodes: max(outside.Inodes, before.Inodes)}
	}
	m.outside[w] = outside
}
