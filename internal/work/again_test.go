package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// againLimits returns limits of Fetch with which subjects are granted slots again.
func againLimits() [3]Limits {
	return [3]Limits{Fetch: {Slots: 2, PerSubject: 1, Overdue: 2, Quantum: 10 * time.Second, Again: 2, AgainOfAll: 3}}
}

// TestSubjectGoesOn: work of a subject that never ends delays the rest of its work by a quantum, until it
// holds Again slots more, and takes nothing from other subjects.
func TestSubjectGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(againLimits())
		began := time.Now()
		granted := make(chan string, 100)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		ask := func(subject string) {
			all.Go(func() {
				if _, err := s.Acquire(WithOwner(ctx, Owner{Subject: subject}), Fetch, false); err == nil {
					granted <- fmt.Sprint(subject, " after ", time.Since(began))
				}
			})
			synctest.Wait()
		}
		want := func(want ...string) {
			t.Helper()
			for _, want := range want {
				if got := <-granted; got != want {
					t.Errorf("granted %q, want %q", got, want)
				}
			}
		}
		none := func(why string) {
			t.Helper()
			time.Sleep(time.Hour) // on the test's clock
			synctest.Wait()
			if len(granted) > 0 {
				t.Errorf("granted %q: %s", <-granted, why)
			}
			began = time.Now()
		}
		for range 5 {
			ask("a")
		}
		want("a after 0s", "a after 10s", "a after 20s")
		none("a subject exceeds Again")
		for range 5 {
			ask("b")
		}
		want("b after 0s", "b after 10s")
		none("all subjects together exceed AgainOfAll")
		ask("c")
		ask("d")
		want("c after 0s", "d after 0s") // as without those that were granted again
		none("the slots are gone")
		ask("e")
		none("more slots are granted than may be overdue")
		cancel()
		all.Wait()
	})
}

// TestGrantedAgainTakesNothing: slots that were just granted again delay no other subject.
func TestGrantedAgainTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(againLimits())
		try := func(subject string) *Slot { return s.Try(as(t, subject), Fetch, false) }
		slots := []*Slot{try("a"), try("b")}
		time.Sleep(10 * time.Second) // on the test's clock
		slots = append(slots, try("a"), try("b"), try("c"), try("d"))
		for i, slot := range slots {
			if slot == nil {
				t.Errorf("slot %d was not granted", i)
				continue
			}
			slot.Release()
		}
	})
}

// TestReleasedAgain: a slot that ends makes room for one more of its subject at once, if that has no other
// one that is not overdue.
func TestReleasedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(againLimits())
		first := s.Try(as(t, "a"), Fetch, false)
		if s.Try(as(t, "a"), Fetch, false) != nil {
			t.Error("granted again before the first slot was overdue")
		}
		time.Sleep(10 * time.Second) // on the test's clock
		second := s.Try(as(t, "a"), Fetch, false)
		if second == nil {
			t.Fatal("not granted beside a slot that is overdue")
		}
		if s.Try(as(t, "a"), Fetch, false) != nil {
			t.Error("a subject has two slots that are not overdue")
		}
		first.Release()
		if s.Try(as(t, "a"), Fetch, false) != nil {
			t.Error("a subject has two slots that are not overdue, and none that is")
		}
		second.Release()
		if s.Try(as(t, "a"), Fetch, false) == nil {
			t.Error("no slot after the end of all")
		}
	})
}

// TestEveryGrantAgainIsWithinTheLimits: many subjects ask at the same time, and hold slots for longer than a quantum
// or not.
func TestEveryGrantAgainIsWithinTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := againLimits()[Fetch]
		s := NewScheduler(againLimits())
		most := 0
		check := func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			p, now := &s.pools[Fetch], time.Now()
			again, fresh := 0, make(map[holder]int)
			for _, slot := range p.held {
				if late, _ := p.overdue(slot, now); !late {
					fresh[slot.holder]++
				}
			}
			for h, a := range p.accounts {
				again += max(a.held-l.PerSubject, 0)
				if a.held > l.PerSubject+l.Again || fresh[h] > l.PerSubject {
					t.Errorf("%+v holds %d slots, of which %d are not overdue", h, a.held, fresh[h])
				}
			}
			most = max(most, len(p.held))
			if again > l.AgainOfAll || len(p.held)-again > l.Slots+l.Overdue {
				t.Errorf("%d slots are held, %d of them again", len(p.held), again)
			}
		}
		random := rand.New(rand.NewPCG(1, 2))
		var all sync.WaitGroup
		for range 500 {
			subject, begin := string(rune('a'+random.IntN(5))), time.Duration(random.IntN(3000))*time.Second
			long, patience := time.Duration(random.IntN(60))*time.Second, time.Duration(random.IntN(100))*time.Second
			gives := random.IntN(4) == 0
			all.Go(func() {
				time.Sleep(begin)
				ctx, cancel := context.WithTimeout(as(t, subject), patience)
				defer cancel()
				JobOf(ctx).GivesWay = gives
				slot, err := s.Acquire(ctx, Fetch, false)
				check()
				if err == nil {
					time.Sleep(long)
					slot.Release()
				}
			})
		}
		all.Wait()
		if want := l.Slots + l.Overdue + l.AgainOfAll; most != want {
			t.Errorf("at most %d at a time, want %d", most, want)
		}
		if p := &s.pools[Fetch]; len(p.accounts)+len(p.held)+len(p.waiting) != 0 {
			t.Errorf("left: %+v", p)
		}
	})
}
