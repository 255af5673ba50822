package disk

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestPaceRestsInProportion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := func(p *Pace) time.Duration {
			began := time.Now()
			for range 1600 {
				time.Sleep(time.Millisecond)
				must(t, p.pause(t.Context()))
			}
			return time.Since(began) - 1600*time.Millisecond
		}
		if got := work(nil) + work(&Pace{}); got != 0 {
			t.Errorf("without a pace it rested %v", got)
		}
		p := NewPace(300)
		p.look = func() times { return times{} }
		if got := work(p); got < 4500*time.Millisecond || got > 4800*time.Millisecond {
			t.Errorf("rested %v of 1.6 s of work, want about 4.8 s", got)
		}
		p.SetRest(0)
		if got := work(p); got != 0 {
			t.Errorf("in a hurry it rested %v", got)
		}
	})
}

// TestPaceCountsOnlyWork checks that the time between two walks is not work, nor that of a
// walk at full speed.
func TestPaceCountsOnlyWork(t *testing.T) {
	dir := t.TempDir()
	for i := range 40 {
		must(t, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), nil, 0o600))
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewPace(300)
		p.look = func() times { return times{} }
		walk := func(each time.Duration) time.Duration {
			began := time.Now()
			must(t, Walk(t.Context(), dir, slowVisitor(each), p))
			return time.Since(began)
		}
		walk(0) // a rest after NewPace would end at once
		for range 5 {
			time.Sleep(20 * time.Second)
			if got := walk(0); got != 0 {
				t.Errorf("after 20 s without work a walk that takes no time rested %v", got)
			}
		}
		p.SetRest(0)
		if got, want := walk(time.Second), 41*time.Second; got != want {
			t.Errorf("at full speed it took %v, want %v", got, want)
		}
		p.SetRest(300)
		walk(0)
		// Walks that are shorter than a slice rest too, after some of them.
		began := time.Now()
		for range 400 {
			walk(time.Millisecond / 10)
		}
		worked := 400 * 41 * time.Millisecond / 10
		if got := time.Since(began) - worked; got < 2*worked || got > 4*worked {
			t.Errorf("rested %v of %v of work in short walks, want about three times as long", got, worked)
		}
	})
}

// TestPaceCountsNoWaitForAProcessor checks that a walk beside programs that compute rests no
// longer than alone.
func TestPaceCountsNoWaitForAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, queued := NewPace(300), time.Duration(0)
		p.look = func() times { return times{0, queued} }
		began := time.Now()
		for range 1600 {
			time.Sleep(10 * time.Millisecond) // 1 of them on a processor
			queued += 9 * time.Millisecond
			must(t, p.pause(t.Context()))
		}
		if got := time.Since(began) - 16*time.Second; got < 4500*time.Millisecond || got > 4800*time.Millisecond {
			t.Errorf("rested %v of 1.6 s of work, want about 4.8 s", got)
		}
	})
}

// TestPaceBoundsWaits checks that of long waits only a share counts.
func TestPaceBoundsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, computed := NewPace(300), time.Duration(0)
		p.look = func() times { return times{computed, 0} }
		began := time.Now()
		for range 1600 {
			time.Sleep(10 * time.Millisecond)
			computed += time.Millisecond
			must(t, p.pause(t.Context()))
		}
		if got := time.Since(began) - 16*time.Second; got < 18*time.Second || got > 19200*time.Millisecond {
			t.Errorf("rested %v of 1.6 s of computing and 14.4 s of waits, want about 19.2 s", got)
		}
	})
}

// TestThreadTimes checks that the kernel tells how long a thread waited for a processor: three
// threads that compute on one processor wait longer than they compute.
func TestThreadTimes(t *testing.T) {
	var all sync.WaitGroup
	waited := make([]time.Duration, 3)
	for i := range waited {
		all.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			var one unix.CPUSet
			one.Set(firstProcessor(t))
			must(t, unix.SchedSetaffinity(0, &one))
			for threadTimes().queued < 20*time.Millisecond && t.Context().Err() == nil {
			}
			waited[i] = threadTimes().queued
		})
	}
	all.Wait()
	for _, d := range waited {
		if d < 20*time.Millisecond {
			t.Errorf("a thread waited %v, want at least 20ms", d)
		}
	}
}

// firstProcessor returns a processor that this thread may use.
func firstProcessor(t *testing.T) int {
	var all unix.CPUSet
	must(t, unix.SchedGetaffinity(0, &all))
	for i := range 1024 {
		if all.IsSet(i) {
			return i
		}
	}
	return 0
}

// slowVisitor takes so long for each entry.
type slowVisitor time.Duration

func (v slowVisitor) Visit(e Entry) bool {
	time.Sleep(time.Duration(v))
	return e.Depth == 0
}
func (slowVisitor) Leave(Entry)       {}
func (slowVisitor) Skip(Entry, error) {}
