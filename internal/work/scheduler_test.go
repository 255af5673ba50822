package work

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// limits returns the same limits for each kind.
func limits(slots, perSubject, overdue int) [3]Limits {
	l := Limits{Slots: slots, PerSubject: perSubject, Overdue: overdue, Quantum: 10 * time.Second}
	return [3]Limits{l, l, l}
}

// as returns the context of a job of a subject.
func as(t *testing.T, subject string) context.Context {
	return WithOwner(t.Context(), Owner{Subject: subject})
}

func asMount(t *testing.T, subject string) context.Context {
	return WithOwner(t.Context(), Owner{Subject: subject, Urgent: true})
}

func acquire(t *testing.T, s *Scheduler, ctx context.Context, large bool) *Slot {
	t.Helper()
	slot, err := s.Acquire(ctx, CPU, large)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// queue adds requests in a fixed order, and records the order of the grants.
type queue struct {
	mu      sync.Mutex
	granted []string
	all     sync.WaitGroup
}

func (q *queue) add(s *Scheduler, name string, ctx context.Context, large bool) {
	q.all.Go(func() {
		slot, err := s.Acquire(ctx, CPU, large)
		if err != nil {
			name = "error: " + err.Error()
		}
		q.mu.Lock()
		q.granted = append(q.granted, name)
		q.mu.Unlock()
		time.Sleep(time.Second) // the work, on the test's clock
		slot.Release()
	})
	synctest.Wait()
}

func (q *queue) want(t *testing.T, want ...string) {
	t.Helper()
	q.all.Wait()
	if !slices.Equal(q.granted, want) {
		t.Errorf("granted %q, want %q", q.granted, want)
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(limits(1, 1, 0))
		first := acquire(t, s, as(t, "x"), false)
		var q queue
		q.add(s, "a1", as(t, "a"), false)
		q.add(s, "a2", as(t, "a"), false)
		q.add(s, "b1", as(t, "b"), false)
		q.add(s, "a urgent", asMount(t, "a"), false)
		q.add(s, "c urgent", asMount(t, "c"), false)
		first.Release()
		// Urgent jobs first, then subjects in turn: a has had a grant before b.
		q.want(t, "a urgent", "c urgent", "b1", "a1", "a2")
		if p := &s.pools[CPU]; len(p.accounts) != 0 || len(p.held) != 0 || len(p.waiting) != 0 {
			t.Errorf("left: %+v", p)
		}
	})
}

func TestSubjectNeverGetsAllSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for k, l := range DefaultLimits(1) {
			if l.PerSubject >= l.Slots {
				t.Errorf("kind %d: one subject may take all %d slots", k, l.Slots)
			}
		}
		s := NewScheduler(limits(3, 2, 0))
		slots := []*Slot{acquire(t, s, as(t, "a"), false), acquire(t, s, as(t, "a"), false)}
		if s.Try(as(t, "a"), CPU, false) != nil {
			t.Error("a third slot for one subject")
		}
		other := s.Try(as(t, "b"), CPU, false)
		if other == nil {
			t.Fatal("no slot for another subject")
		}
		if s.Try(as(t, "a"), Fetch, false) == nil {
			t.Error("slots of another kind are taken too")
		}
		other.Release()
		other.Release() // counts once
		if s.Try(as(t, "a"), CPU, false) != nil {
			t.Error("a third slot after a double release")
		}
		for _, slot := range slots {
			slot.Release()
		}
	})
}

// A slot knows how many CPU and Fetch slots its subject has.
func TestSlotShare(t *testing.T) {
	s := NewScheduler(limits(9, 9, 0))
	var got []int
	for _, k := range []Kind{Question, Fetch, Question, Fetch, CPU} {
		got = append(got, s.Try(as(t, "a"), k, false).Share())
	}
	got = append(got, s.Try(as(t, "b"), CPU, false).Share())
	if want := []int{1, 1, 1, 2, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	var none *Scheduler
	if got := none.Try(as(t, "a"), CPU, false).Share(); got != 1 {
		t.Errorf("without a scheduler: %d", got)
	}
}

func TestLargeJobsRunOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(limits(3, 3, 0))
		large := acquire(t, s, as(t, "a"), true)
		if s.Try(as(t, "b"), CPU, true) != nil || s.Try(as(t, "b"), Fetch, true) != nil {
			t.Error("two large jobs at a time")
		}
		small := acquire(t, s, as(t, "b"), false) // goes by
		large.Release()
		if s.Try(as(t, "b"), CPU, true) == nil {
			t.Error("no large job after the end of the other")
		}
		small.Release()
	})
}

// Work that never ends delays other subjects by one quantum at most, until Overdue more
// slots are granted.
func TestOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(limits(2, 1, 2))
		began := time.Now()
		for _, subject := range []string{"a", "b", "c", "d"} {
			acquire(t, s, as(t, subject), false)
		}
		// c and d got slots for the overdue ones of a and b. A fifth must wait for an end.
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("waited %v, want a quantum", took)
		}
		ctx, cancel := context.WithTimeout(as(t, "e"), time.Hour)
		defer cancel()
		if _, err := s.Acquire(ctx, CPU, false); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a fifth: %v", err)
		}
		// Overdue slots count for the limit of their own subject.
		if s.Try(as(t, "a"), CPU, false) != nil {
			t.Error("a second slot of a subject")
		}
	})
}

// Four subjects whose work never ends delay others by ten seconds at most, whatever the kind.
func TestDefaultLimitsOfDelay(t *testing.T) {
	for k := range kinds {
		t.Run(k.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := NewScheduler(DefaultLimits(2))
				for _, subject := range []string{"a", "b", "c", "d"} {
					for s.Try(as(t, subject), k, false) != nil {
					}
				}
				began := time.Now()
				slot, err := s.Acquire(as(t, "honest"), k, false)
				if err != nil {
					t.Fatal(err)
				}
				slot.Release()
				if took := time.Since(began); took > 10*time.Second {
					t.Errorf("waited %v", took)
				}
				if held := s.Load()[k].Held; held < DefaultLimits(2)[k].Slots {
					t.Errorf("%d slots are held, want all", held)
				}
			})
		})
	}
}

// TestDefaultLimitsLeaveRoom: four subjects whose work never ends, with as much that gives way as they can, leave
// others a slot after a quantum.
func TestDefaultLimitsLeaveRoom(t *testing.T) {
	for _, k := range []Kind{CPU, Fetch} { // a push asks few questions
		for _, processors := range []int{2, 4, 64} {
			synctest.Test(t, func(t *testing.T) {
				s, l := NewScheduler(DefaultLimits(processors)), DefaultLimits(processors)[k]
				ended, end := context.WithCancel(t.Context())
				defer end()
				for i := range 4 * 2 * (l.PerSubject + 1) {
					ctx := WithOwner(ended, Owner{Subject: string(rune('a' + i%4))})
					JobOf(ctx).GivesWay = i/4%2 == 0
					go func() { _, _ = s.Acquire(ctx, k, false) }()
				}
				time.Sleep(time.Hour) // on the test's clock
				if held := s.Load()[k].Held; held != 4*2*l.PerSubject {
					t.Errorf("%v, %d processors: the four hold %d slots", k, processors, held)
				}
				ctx, cancel := context.WithTimeout(as(t, "honest"), l.Quantum)
				defer cancel()
				if _, err := s.Acquire(ctx, k, false); err != nil {
					t.Errorf("%v, %d processors: %v", k, processors, err)
				}
			})
		}
	}
}

func TestWaiterGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(limits(1, 1, 0))
		slot := acquire(t, s, as(t, "a"), false)
		ctx, cancel := context.WithCancelCause(as(t, "b"))
		stopped := errors.New("stopped")
		done := make(chan error)
		go func() {
			_, err := s.Acquire(ctx, CPU, false)
			done <- err
		}()
		synctest.Wait()
		if !JobOf(ctx).Queued() {
			t.Error("a job that waits does not say so")
		}
		cancel(stopped)
		if err := <-done; err != stopped {
			t.Errorf("got %v, want the cause", err)
		}
		if JobOf(ctx).Queued() {
			t.Error("a job that gave up still waits")
		}
		slot.Release()
		if s.Try(as(t, "c"), CPU, false) == nil {
			t.Error("the slot is gone")
		}
	})
}

// Many subjects ask at the same time.
func TestEveryGrantIsWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(limits(3, 2, 1))
		var mu sync.Mutex
		held, most, large := map[holder]int{}, 0, 0
		var all sync.WaitGroup
		for i := range 300 {
			subject := string(rune('a' + i%5))
			all.Go(func() {
				ctx, cancel := context.WithTimeout(as(t, subject), time.Duration(i)*time.Second)
				defer cancel()
				JobOf(ctx).GivesWay = i%4 == 0
				slot, err := s.Acquire(ctx, CPU, i%7 == 0)
				if err != nil {
					return
				}
				mu.Lock()
				held[slot.holder]++
				if slot.large {
					large++
				}
				sum := 0
				for _, n := range held {
					sum += n
				}
				if most = max(most, sum); held[slot.holder] > 2 || large > 1 {
					t.Errorf("%+v has %d, %d large", slot.holder, held[slot.holder], large)
				}
				mu.Unlock()
				time.Sleep(time.Duration(i%13) * time.Second)
				mu.Lock()
				held[slot.holder]--
				if slot.large {
					large--
				}
				mu.Unlock()
				slot.Release()
			})
		}
		all.Wait()
		if most != 4 { // three, and one in the place of an overdue one
			t.Errorf("at most %d at a time, want 4", most)
		}
	})
}
