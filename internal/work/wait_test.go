package work

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/work/phase"
)

// TestWaits checks that a request learns what the work that it began has waited for, through all that
// this began in turn, and that one that joined learns whose work it waited for.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		s := NewScheduler([3]Limits{CPU: {Slots: 1, PerSubject: 1}})
		slot := s.Try(t.Context(), CPU, false)
		var l Lock
		unlock, _ := l.Try()
		request := func(name string) (context.Context, *phase.Watch) {
			return phase.With(WithOwner(t.Context(), Owner{Name: name, Urgent: true}))
		}
		f := func(ctx context.Context) (int, error) {
			return Share(ctx, g, "part", ignore, func(ctx context.Context) (int, error) {
				locked, err := l.Acquire(ctx)
				if err != nil {
					return 0, err
				}
				defer locked()
				turn, err := s.Acquire(ctx, CPU, false)
				if err == nil {
					time.Sleep(time.Second) // the work itself
					turn.Release()
				}
				return 0, err
			})
		}
		var all sync.WaitGroup
		var first, second *phase.Watch
		all.Go(func() {
			ctx, w := request("a mount of volume \"a\"")
			first = w
			if _, err := Share(ctx, g, "whole", ignore, f); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		all.Go(func() {
			ctx, w := request("a mount of volume \"b\"")
			second = w
			if _, err := Share(ctx, g, "whole", ignore, f); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		time.Sleep(time.Minute)
		unlock()
		synctest.Wait()
		time.Sleep(time.Hour)
		slot.Release()
		all.Wait()
		if got, want := first.Waits(), map[string]time.Duration{aLock: 2 * time.Minute, "a turn (cpu)": time.Hour}; !maps.Equal(got, want) {
			t.Errorf("the request that began the work waited for %v, want %v", got, want)
		}
		want := map[string]time.Duration{`work for a mount of volume "a"`: time.Minute + time.Hour + time.Second}
		if got := second.Waits(); !maps.Equal(got, want) {
			t.Errorf("the one that joined it waited for %v, want %v", got, want)
		}
	})
}

// TestWaitForEviction checks that a use that waits for an eviction says so.
func TestWaitForEviction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Resource{Group: NewGroup(), Name: "clone"}
		done, err := r.Evict(t.Context(), StopNothing)
		if err != nil {
			t.Fatal(err)
		}
		ctx, w := phase.With(t.Context())
		go func() {
			time.Sleep(time.Second)
			done()
		}()
		release, err := r.Use(ctx)
		if err != nil {
			t.Fatal(err)
		}
		release()
		if got, want := w.Waits(), map[string]time.Duration{anEviction: time.Second}; !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}
