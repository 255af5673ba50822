package disk

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
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

// slowVisitor takes so long for each entry.
type slowVisitor time.Duration

func (v slowVisitor) Visit(e Entry) bool {
	time.Sleep(time.Duration(v))
	return e.Depth == 0
}
func (slowVisitor) Leave(Entry)       {}
func (slowVisitor) Skip(Entry, error) {}
