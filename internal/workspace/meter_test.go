package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
)

// meter measures all targets that are due at now.
func (w *world) meter(now time.Time) {
	w.t.Helper()
	for n := 0; w.meterNext(now); n++ {
		if n > 100 {
			w.t.Fatal("there is always more to measure")
		}
	}
}

// meterNext measures a target, and reports whether any was due.
func (w *world) meterNext(now time.Time) bool {
	w.t.Helper()
	_, due := w.m.meter.next(w.t.Context(), now)
	return due
}

// size returns the size of the only workspace.
func (w *world) size() meta.Measured {
	w.t.Helper()
	all := w.m.Workspaces()
	if len(all) != 1 {
		w.t.Fatalf("%d workspaces", len(all))
	}
	return all[0].Size
}

func TestMeter(t *testing.T) {
	w := newWorld(t)
	rec, dir := w.open("v", "a")
	cached := func() meta.Measured { return w.clones.Inventory()[0].Caches["0"] }
	now := rec.MountedAt
	w.meter(now.Add(upperEvery - time.Second))
	if s := w.size(); !s.At.IsZero() {
		t.Errorf("measured too early: %+v", s)
	}
	write := func(path string, bytes int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, path), make([]byte, bytes), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("big", 10<<20)
	write(".hdcache/npm/pack", 5<<20)
	now = now.Add(upperEvery)
	w.meter(now)
	first := w.size()
	if !first.At.Equal(now) || first.Bytes < 10<<20 || first.Bytes > 11<<20 {
		t.Errorf("upper %+v", first)
	}
	if !cached().At.IsZero() {
		t.Errorf("cache measured too early: %+v", cached())
	}
	write("bigger", 3<<20)
	now = now.Add(cacheEvery)
	w.meter(now)
	if s := w.size(); s.Bytes-first.Bytes < 3<<20 || s.Inodes != first.Inodes+1 {
		t.Errorf("upper %+v after %+v", s, first)
	}
	if c := cached(); c.Bytes < 5<<20 || !c.At.Equal(now) {
		t.Errorf("cache %+v", c)
	}
	// Nothing is due, and a clock that is put back does not stop the meter.
	if w.meterNext(now) {
		t.Error("measured again at once")
	}
	now = now.Add(-365 * 24 * time.Hour)
	w.meter(now)
	if !w.size().At.Equal(now) {
		t.Errorf("with the clock put back: %+v", w.size())
	}

	// When the workspace ends, its cache is measured, however recently it was before. The
	// size of the upper is in the record.
	write(".hdcache/npm/more", 1<<20)
	size := w.size()
	if _, ok, err := w.m.Add(t.Context(), Lease{rec.Volume, "a"}, "b"); !ok || err != nil {
		t.Fatal(err)
	}
	w.close()
	w.start()
	if s := w.size(); s.Size != size.Size {
		t.Errorf("after a restart: %+v, want %+v", s, size)
	}
	w.release("v", "a")
	w.release("v", "b")
	w.release("v", "a")
	reaped(t, w)
	w.meter(now)
	if c := cached(); c.Bytes < 6<<20 {
		t.Errorf("cache after the end: %+v", c)
	}
	if w.meterNext(now) || len(w.m.meter.turns) != 0 {
		t.Errorf("something is left to measure: %v", w.m.meter.turns)
	}
}

// A kept workspace is measured as soon as nobody uses it, however recently it was mounted.
func TestMeterKept(t *testing.T) {
	w := newWorld(t)
	rec, dir := w.open("v", "a", "mode", "keep")
	if err := os.WriteFile(filepath.Join(dir, "big"), make([]byte, 10<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	w.release("v", "a")
	w.meter(rec.MountedAt)
	if s := w.size(); s.Bytes < 10<<20 {
		t.Errorf("after the release: %+v", s)
	}
	if w.meterNext(rec.MountedAt) {
		t.Error("measured again at once")
	}
}

// A cache that was never measured is measured after the start.
func TestMeterFindsCaches(t *testing.T) {
	w := newWorld(t)
	w.open("v", "a")
	w.release("v", "a")
	reaped(t, w)
	w.close()
	w.start()
	w.m.meter.findCaches()
	w.meter(time.Now())
	if c := w.clones.Inventory()[0].Caches["0"]; c.Size == (disk.Size{}) {
		t.Errorf("cache %+v", c)
	}
}

// A target that takes long to measure delays only itself, also when workspaces end and
// begin.
func TestMeterCharges(t *testing.T) {
	w := newWorld(t)
	rec, _ := w.open("dear", "a")
	w.open("cheap", "a")
	sizes := func() (dear, cheap meta.Measured) {
		for _, r := range w.m.Workspaces() {
			if r.Volume == rec.Volume {
				dear = r.Size
			} else {
				cheap = r.Size
			}
		}
		return dear, cheap
	}
	key := target{clone: rec.Clone, uid: rec.UID}
	cached := func() meta.Measured { return w.clones.Inventory()[0].Caches["0"] }
	begin := rec.MountedAt.Add(cacheEvery + time.Minute) // the other one was mounted later
	w.meter(begin)
	const cost = time.Hour
	w.m.meter.charge(target{upper: w.m.records.all[rec.ID]}, cost)
	w.m.meter.charge(key, cost)
	w.m.meter.cacheSoon(rec)
	now := begin.Add(cacheEvery)
	w.meter(now)
	if dear, cheap := sizes(); !dear.At.Equal(begin) || !cheap.At.Equal(now) || !cached().At.Equal(begin) {
		t.Errorf("measured at %v, %v, cache %v; want %v, %v, %v", dear.At, cheap.At, cached().At, begin, now, begin)
	}
	now = begin.Add(meterIdle * cost)
	w.meter(now)
	if dear, cheap := sizes(); !dear.At.Equal(now) || !cheap.At.Equal(now) || !cached().At.Equal(now) {
		t.Errorf("measured at %v, %v, cache %v; want %v", dear.At, cheap.At, cached().At, now)
	}
	w.m.meter.charge(key, cost)
	for _, v := range []string{"dear", "cheap"} {
		w.release(v, "a")
	}
	reaped(t, w)
	last := now
	now = now.Add(cacheEvery)
	w.meter(now)
	if !cached().At.Equal(last) {
		t.Errorf("the cache was measured at %v", cached().At)
	}
	now = last.Add(meterIdle * cost)
	w.meter(now)
	if !cached().At.Equal(now) || w.meterNext(now) || len(w.m.meter.turns) != 0 {
		t.Errorf("the cache was measured at %v, left to measure: %v", cached().At, w.m.meter.turns)
	}
}
