package janitor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

func TestRunSweeps(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, j *Janitor, s *shelf)
		want string
	}{
		{"at once", func(t *testing.T, j *Janitor, s *shelf) {}, "t/old"},
		{"on schedule", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600 })
			after(9 * time.Minute)
			if got := s.attempts(); got != "" {
				t.Errorf("evicted too early: %s", got)
			}
			after(time.Minute)
		}, "t/new"},
		{"after a nudge", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600 })
			j.Nudge()
			j.Nudge()
			synctest.Wait()
		}, "t/new"},
		{"nudges are not each a sweep", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			before := s.count(&s.looked)
			for range 1000 {
				j.Nudge()
				after(time.Millisecond)
			}
			if n := s.count(&s.looked) - before; n > 15 {
				t.Errorf("%d sweeps in a second", n)
			}
			s.attempts()
		}, ""},
		{"after nudges without what is late", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 2000 * 24 * 3600 })
			for range 20 {
				j.Nudge()
				after(time.Second)
			}
			if got := s.attempts(); got != "" {
				t.Errorf("evicted %s", got)
			}
			after(10 * time.Minute)
		}, "t/new"},
		{"when the disk is getting full", func(t *testing.T, j *Janitor, s *shelf) {
			after(time.Second)
			s.attempts()
			s.set(func() { s.inv.Space.Free.Bytes, s.inv.Trash = 95, disk.Size{} })
			after(pollEvery)
		}, "t/new"},
		{"when the disk is getting full, the trash first, although a sweep rests", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			unlock, err := j.lock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.set(func() { s.inv.Space.Free.Bytes, s.inv.Trash.Bytes = 95, 50 })
			j.Nudge() // a sweep that waits for the lock
			after(pollEvery)
			if n := s.count(&s.hurry); n != 1 {
				t.Errorf("hurried %d times, want once", n)
			}
			unlock()
		}, ""},
		{"more and more seldom when that does not help", func(t *testing.T, j *Janitor, s *shelf) {
			s.set(func() { s.inv.Clones, s.inv.Space.Free.Bytes = nil, 10 })
			s.attempts()
			before := s.count(&s.looked)
			after(9 * time.Minute)
			if n := s.count(&s.looked) - before; n > 12 || n < 4 {
				t.Errorf("%d sweeps in nine minutes", n)
			}
		}, ""},
		{"without a word when the disk has room", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			before := s.count(&s.looked)
			after(9 * time.Minute)
			if n := s.count(&s.looked) - before; n != 0 || s.count(&s.polled) < 100 {
				t.Errorf("%d inventories, %d polls", n, s.polled)
			}
		}, ""},
		{"again after an error", func(t *testing.T, j *Janitor, s *shelf) {
			s.attempts()
			s.set(func() { s.inv.Clones[0].Used -= 14 * 24 * 3600; s.broken = errors.New("no inventory") })
			after(10 * time.Minute)
			s.set(func() { s.broken = nil })
			after(10 * time.Minute)
		}, "t/new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{Interval: 10 * time.Minute, Limits: Limits{TTL: 14 * day, CheckpointTTL: day, MinFree: .1}}, "t/new 1h 20\n t/old 14d 50")
				running(t, j)
				tt.do(t, j, s)
				if got := s.attempts(); got != tt.want {
					t.Errorf("evicted %q, want %q", got, tt.want)
				}
			})
		})
	}
}

// TestTrashHurriesAboveMaxSize checks that the trash hurries while it and the clones exceed MAX_SIZE,
// and that nothing is evicted for what is in it.
func TestTrashHurriesAboveMaxSize(t *testing.T) {
	for _, tt := range []struct {
		name       string
		own, trash int64
		want       int // calls of Hurry that had to wait
	}{
		{"within the limit", 0, 30, 0},
		{"the trash exceeds it", 0, 31, 1},
		{"with the plugin's own files", 10, 21, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MaxSize: 100}}, "t/a 1h 30\n t/b 1h 40")
				s.inv.Own.Bytes, s.stuck = tt.own, false
				running(t, j)
				after(pollEvery)
				s.set(func() { s.inv.Trash.Bytes = tt.trash })
				after(pollEvery)
				if n := s.count(&s.hurry); n != tt.want {
					t.Errorf("hurried %d times, want %d", n, tt.want)
				}
				j.Nudge()
				after(time.Second)
				if got := s.attempts(); got != "" {
					t.Errorf("evicted %s", got)
				}
			})
		})
	}
}

// TestTooLargeCloneGoesAfterAMinute checks that a clone that exceeds MAX_SIZE on its own is evicted
// a minute after its last use, although no sweep is due then.
func TestTooLargeCloneGoesAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day, MaxSize: 100}, Interval: time.Hour}, "t/a 1h 200 leased\n t/b 1h 40")
		running(t, j)
		after(10*time.Minute + 20*time.Second)
		s.set(func() { s.inv.Clones[0].Use, s.inv.Clones[0].Used = Use{}, Stamp(time.Now()) }) // the last container ends
		after(largeGrace - time.Second)
		if got := s.attempts(); got != "" {
			t.Errorf("evicted %s within a minute", got)
		}
		after(2 * time.Second)
		if got := s.attempts(); got != "t/a" {
			t.Errorf("evicted %q, want t/a", got)
		}
		before := s.count(&s.looked)
		after(50 * time.Minute)
		if n := s.count(&s.looked) - before; n > 2 {
			t.Errorf("%d sweeps in 50 minutes without such a clone", n)
		}
	})
}

// TestTooLargeCloneThatNobodyMounts checks that such a clone goes a minute after it was made if nobody has
// mounted it, although other new clones are protected for longer.
func TestTooLargeCloneThatNobodyMounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := Limits{CheckpointTTL: day, MaxSize: 100, Grace: 10 * time.Minute}
		j, s, _ := open(t, Config{Limits: limits, Interval: time.Hour}, "t/a 0s 200 new pending\n t/b 0s 40 new")
		running(t, j)
		after(10*time.Minute + 20*time.Second)
		s.set(func() { // both are there now
			s.inv.Clones[0].Use, s.inv.Clones[0].Made, s.inv.Clones[1].Made = Use{}, Stamp(time.Now()), Stamp(time.Now())
		})
		after(largeGrace - time.Second)
		if got := s.attempts(); got != "" {
			t.Errorf("evicted %s within a minute", got)
		}
		after(2 * time.Second)
		if got := s.attempts(); got != "t/a" {
			t.Errorf("evicted %q, want t/a", got)
		}
	})
}

// TestFailedEvictionsWait checks that the wait after a failure grows, and that the rest
// of the sweep continues.
func TestFailedEvictionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, log := open(t, Config{Limits: Limits{CheckpointTTL: day}}, "t/a 1h 10; checkpoint d 30h 5; checkpoint e 29h 5; checkpoint f 28h 5")
		s.fail["t/a/d"] = errors.New("it is stuck")
		s.fail["t/a/e"] = fmt.Errorf("checkpoint e: %w", ErrHeld)
		sweep := func() Report {
			t.Helper()
			r, err := j.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		r := sweep()
		// e is held, so it is planned again at once.
		if got, want := s.attempts(), "t/a/d, t/a/e, t/a/f, t/a/e"; got != want {
			t.Errorf("tried %s, want %s", got, want)
		}
		if r.Failed != 1 || r.Held != 2 || len(r.Evicted) != 1 || r.Frees.Bytes != 5 {
			t.Errorf("%+v", r)
		}
		for _, want := range []string{"level=warning msg=janitor: not evicted; it is tried again after 5m0s", "error=it is stuck",
			"level=info msg=janitor: evicted: it ended longer ago than CHECKPOINT_TTL=24h0m0s", "id=f kind=checkpoint reason=expired"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %q:\n%s", want, log)
			}
		}
		s.fail["t/a/e"] = nil
		if sweep(); s.attempts() != "t/a/e" {
			t.Error("want a second attempt for e at once, and none for d")
		}
		for _, wait := range []time.Duration{5 * time.Minute, 10 * time.Minute, 20 * time.Minute} {
			time.Sleep(wait - time.Second)
			if sweep(); s.attempts() != "" {
				t.Errorf("tried again before %v", wait)
			}
			time.Sleep(time.Second)
			if sweep(); s.attempts() != "t/a/d" {
				t.Errorf("not tried again after %v", wait)
			}
		}
		delete(s.fail, "t/a/d")
		time.Sleep(day)
		if sweep(); s.attempts() != "t/a/d" || len(j.failed) != 0 {
			t.Errorf("failures are left after the eviction: %v", j.failed)
		}
	})
}

// TestPlansBuildOnEachOther checks that layers of a checkpoint can be evicted after it, and
// that late parts are evicted once per sweep nevertheless.
func TestPlansBuildOnEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{TTL: 7 * day, CheckpointTTL: day, MaxSize: 50}},
			"t/a 1h 40 leased; tree x 3h 20 pinned; checkpoint d 2h 5\n t/l 100d 1 \n t/m 101d 1\n t/n 102d 1")
		if _, err := j.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := s.attempts(), "t/n, t/m, t/l, t/a/d, t/a/x"; got != want {
			t.Errorf("tried %s, want %s", got, want)
		}
	})
}

func TestPlanDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{TTL: 7 * day, CheckpointTTL: day}}, "t/a 8d 40")
		plan, err := j.Plan(t.Context())
		if err != nil || len(plan.Evictions) != 1 || s.attempts() != "" || len(j.Events()) != 0 {
			t.Errorf("%+v, %v", plan, err)
		}
	})
}

func TestEvictClone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{}, `
			t/idle 1h 10; tree x 1h 5 needed
			t/leased 1h 10 leased
			t/kept 1h 10; upper u 1h 10 kept
			t/work 1h 10; checkpoint d 1h 10
			t/stuck 1h 10`)
		s.fail["t/stuck"] = errors.New("it is stuck")
		for key, want := range map[string]string{
			"t/idle": "", "t/leased": "it is in use: in use by a container", "t/kept": "kept by its volume", "t/work": "it is in use: it has checkpoints",
			"t/stuck": "it is stuck", "t/none": `there is no clone "t/none"`,
		} {
			err := j.EvictClone(t.Context(), key)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", key, err, want)
			}
		}
		if got := s.inv.Trash.Bytes; got != 15 {
			t.Errorf("%d bytes in the trash", got)
		}
		events := j.Events()
		if len(events) != 1 || events[0].Reason != OnDemand || events[0].Clone != "t/idle" || events[0].Size.Bytes != 15 {
			t.Errorf("%+v", events)
		}
	})
}

func TestHoldings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{}, "t/a 1h 10; tree x 1h 5; tree y 1h 5; upper u 1h 7 kept\n t/b 2h 30")
		h, err := j.Holdings(t.Context(), Choice{})
		if err != nil || len(h.Clones) != 2 || h.Clones[1].Clone != "t/b" || h.Clones[0].Size.Bytes != 27 || h.Clones[0].Held != Kept ||
			h.Clones[0].Parts[Tree].Bytes != 10 || h.Clones[0].Parts[Upper].Bytes != 7 || h.Clones[0].Stores.Bytes != 10 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

// TestHoldingsAgree checks that EvictClone takes the clones that Holdings shows as free, and no others, apart from
// those that are being worked on.
func TestHoldingsAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, _, _ := open(t, Config{}, `
			t/idle 1h 10; tree x 1h 5 needed
			t/checkpoint 1h 10; checkpoint d 1h 10
			t/fetched 1h 10 pending; checkpoint d 1h 10
			t/kept 1h 10; upper u 1h 10 kept; checkpoint d 1h 10
			t/leased 1h 10 leased
			t/pending 1h 10 pending
			t/working 1h 10 working`)
		h, err := j.Holdings(t.Context(), Choice{})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Hold{
			"t/idle": Free, "t/checkpoint": HasCheckpoints, "t/fetched": HasCheckpoints, "t/kept": Kept, "t/leased": Leased, "t/pending": Pending, "t/working": Working,
		}
		for _, c := range h.Clones {
			if c.Held != want[c.Clone] {
				t.Errorf("%s is %q, want %q", c.Clone, c.Held, want[c.Clone])
			}
			taken := c.Held == Free || c.Held == Pending || c.Held == Working
			if err := j.EvictClone(t.Context(), c.Clone); (err == nil) != taken {
				t.Errorf("%s is shown as %q, and its eviction returned %v", c.Clone, c.Held, err)
			}
		}
		if len(h.Clones) != len(want) {
			t.Errorf("%d clones", len(h.Clones))
		}
	})
}

// TestInterruptedSweep checks that an interrupted sweep returns an error, and that the
// next one continues.
func TestInterruptedSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, s, _ := open(t, Config{Limits: Limits{CheckpointTTL: day}}, "t/a 1h 10; checkpoint d 30h 5; checkpoint e 29h 5")
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("the plugin is stopping")
		cancel(cause)
		if r, err := j.Sweep(ctx); !errors.Is(err, cause) || len(r.Evicted) > 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if r, err := j.Sweep(t.Context()); err != nil || len(r.Evicted) != 2 || s.attempts() != "t/a/d, t/a/e" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
