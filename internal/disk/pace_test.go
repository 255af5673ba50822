package disk

import (
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
				must(t, p.Pause(t.Context()))
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
