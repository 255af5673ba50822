package workspace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
	now = now.Add(upperEvery)
	w.meter(now)
	first := w.size()
	if !first.At.Equal(now) || first.Bytes < 10<<20 || first.Bytes > 11<<20 {
		t.Errorf("upper %+v", first)
	}
	write("bigger", 3<<20)
	now = now.Add(upperEvery)
	w.meter(now)
	if s := w.size(); s.Bytes-first.Bytes < 3<<20 || s.Inodes != first.Inodes+1 {
		t.Errorf("upper %+v after %+v", s, first)
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

	// The size of the upper is in the record.
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
	if w.meterNext(now) || w.m.meter.turns.Len() != 0 {
		t.Errorf("something is left to measure: %d", w.m.meter.turns.Len())
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
	begin := rec.MountedAt.Add(upperEvery + time.Minute) // the other one was mounted later
	w.meter(begin)
	const cost = time.Hour
	w.m.meter.turns.Charge(w.m.records.all[rec.ID], cost)
	now := begin.Add(upperEvery)
	w.meter(now)
	if dear, cheap := sizes(); !dear.At.Equal(begin) || !cheap.At.Equal(now) {
		t.Errorf("measured at %v and %v; want %v and %v", dear.At, cheap.At, begin, now)
	}
	now = begin.Add(meterIdle * cost)
	w.meter(now)
	if dear, cheap := sizes(); !dear.At.Equal(now) || !cheap.At.Equal(now) {
		t.Errorf("measured at %v and %v; want %v", dear.At, cheap.At, now)
	}
	for _, v := range []string{"dear", "cheap"} {
		w.release(v, "a")
	}
	reaped(t, w)
	w.meter(now.Add(meterIdle * cost))
	if n := w.m.meter.turns.Len(); n != 0 {
		t.Errorf("left to measure: %d", n)
	}
}
