package work

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// outsideLimits are those of a kind of which two slots, one of a subject, are granted, and two more while those last.
func outsideLimits() [3]Limits {
	return [3]Limits{Fetch: {Slots: 2, PerSubject: 1, Overdue: 2, Quantum: time.Second}}
}

// grant is what waitFor gets.
type grant struct {
	subject string
	after   time.Duration
	slot    *Slot
}

// waitFor asks for a slot, and sends it to granted.
func waitFor(t *testing.T, s *Scheduler, subject string, granted chan<- grant) {
	t.Helper()
	began := time.Now()
	go func() {
		if slot, err := s.Acquire(as(t, subject), Fetch, false); err == nil {
			granted <- grant{subject, time.Since(began), slot}
		}
	}()
	synctest.Wait()
}

// stall begins a part of the work outside, which ends the slot when it stalled, and returns its context.
func stall(t *testing.T, slot *Slot, after time.Duration) context.Context {
	ctx, end := slot.Outside(t.Context(), after)
	context.AfterFunc(ctx, func() { end(); slot.Release() })
	return ctx
}

// TestStalledSlotEnds: of slots that wait for somebody outside one ends for each that waits for them, those that
// stalled longest first, and none if nobody waits for more than until slots are overdue.
func TestStalledSlotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, granted := NewScheduler(outsideLimits()), make(chan grant, 10)
		var parts []context.Context
		for i := range 4 {
			waitFor(t, s, fmt.Sprint("slow ", i), granted)
			g := <-granted
			parts = append(parts, stall(t, g.slot, 30*time.Second))
		}
		time.Sleep(time.Hour) // on the test's clock
		synctest.Wait()
		for i, ctx := range parts {
			if ctx.Err() != nil {
				t.Errorf("slot %d was ended although nobody waits", i)
			}
		}
		waitFor(t, s, "honest", granted)
		g := <-granted
		if g.subject != "honest" || g.after != 0 {
			t.Errorf("%s waited %v beside slots that stalled for an hour", g.subject, g.after)
		}
		synctest.Wait()
		for i, ctx := range parts {
			stalled, ok := errors.AsType[*StalledError](context.Cause(ctx))
			if ok != (i == 0) || ok && (stalled.After != 30*time.Second || !errors.Is(stalled, context.Canceled)) {
				t.Errorf("slot %d: %v", i, context.Cause(ctx))
			}
		}
	})
}

// TestStalledSubjectComesLast: a subject of which a slot was ended lately comes after others that asked later.
func TestStalledSubjectComesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outsideLimits()
		l[Fetch].Slots, l[Fetch].Overdue = 1, 0
		s, granted := NewScheduler(l), make(chan grant, 10)
		waitFor(t, s, "slow", granted)
		stall(t, (<-granted).slot, 30*time.Second)
		waitFor(t, s, "first", granted)
		for _, want := range [][2]string{{"other", "slow"}, {"slow", "other"}} { // lately, and later
			holds := (<-granted).slot
			waitFor(t, s, "slow", granted)
			waitFor(t, s, "other", granted)
			holds.Release()
			first := <-granted
			waitFor(t, s, "first", granted)
			time.Sleep(slowTime) // on the test's clock
			first.slot.Release()
			second := <-granted
			if got := [2]string{first.subject, second.subject}; got != want {
				t.Errorf("granted %q, want %q", got, want)
			}
			second.slot.Release()
		}
		(<-granted).slot.Release()
	})
}

// TestStalledSubjectsLeaveHalf: subjects of which a slot was ended lately hold half of the slots at most, so that others
// wait for none, and a request of theirs ends no slot of another one.
func TestStalledSubjectsLeaveHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, granted := NewScheduler([3]Limits{Fetch: {Slots: 4, PerSubject: 1, Overdue: 4, Quantum: time.Second}}), make(chan grant, 20)
		for i := range 6 {
			s.noteSlow(fmt.Sprint("slow ", i), time.Now())
		}
		var slow, honest []context.Context
		for i := range 6 {
			waitFor(t, s, fmt.Sprint("slow ", i), granted)
		}
		if len(granted) != 2 {
			t.Fatalf("%d slots of 4 are held, want 2", len(granted))
		}
		for range 2 {
			slow = append(slow, stall(t, (<-granted).slot, 30*time.Second))
		}
		for i := range 2 {
			waitFor(t, s, fmt.Sprint("honest ", i), granted)
			g := <-granted
			if g.after != 0 {
				t.Errorf("%s waited %v", g.subject, g.after)
			}
			honest = append(honest, stall(t, g.slot, 20*time.Second))
		}
		if g := <-granted; g.after != 30*time.Second || slow[0].Err() == nil && slow[1].Err() == nil {
			t.Errorf("%s waited %v", g.subject, g.after)
		}
		for i, ctx := range honest {
			if ctx.Err() != nil {
				t.Errorf("honest %d was ended: %v", i, context.Cause(ctx))
			}
		}
		waitFor(t, s, "another", granted)
		synctest.Wait()
		for len(granted) > 0 {
			if g := <-granted; g.subject == "another" && g.after != 0 {
				t.Errorf("%s waited %v", g.subject, g.after)
			}
		}
	})
}

// TestSlotThatMoves: a slot goes on as long as 1 MiB is moved in each 30 s, and ends 30 s after that.
func TestSlotThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outsideLimits()
		l[Fetch].Slots, l[Fetch].Overdue = 1, 0
		s, granted := NewScheduler(l), make(chan grant, 10)
		waitFor(t, s, "pushes", granted)
		slot := (<-granted).slot
		ctx := stall(t, slot, 30*time.Second)
		waitFor(t, s, "waits", granted)
		for range 100 {
			time.Sleep(14 * time.Second) // on the test's clock
			slot.Moved(leastMoved / 2)
			if ctx.Err() != nil {
				t.Fatal("it was ended although it moves")
			}
		}
		for range 29 { // keep-alives, and a trickle
			time.Sleep(time.Second)
			slot.Moved(0)
			slot.Moved(1000)
			if ctx.Err() != nil {
				t.Fatal("it was ended too early")
			}
		}
		if g := <-granted; g.after != 100*14*time.Second+30*time.Second {
			t.Errorf("the next one waited %v", g.after)
		}
		if _, ok := errors.AsType[*StalledError](context.Cause(ctx)); !ok {
			t.Errorf("got %v", context.Cause(ctx))
		}
	})
}

// TestWaitingIsNotStalling: the time in which the job of a slot waits for another one does not count.
func TestWaitingIsNotStalling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := outsideLimits()
		l[Fetch].Slots, l[Fetch].Overdue = 1, 0
		s, other := NewScheduler(l), NewScheduler(limits(1, 1, 0))
		busy := acquire(t, other, as(t, "busy"), false)
		ctx := as(t, "pushes")
		slot, err := s.Acquire(ctx, Fetch, false)
		if err != nil {
			t.Fatal(err)
		}
		part, end := slot.Outside(ctx, 30*time.Second)
		defer end()
		queued := make(chan bool)
		go func() {
			acquire(t, other, part, false)
			close(queued)
		}()
		granted := make(chan grant, 1)
		waitFor(t, s, "waits", granted)
		time.Sleep(time.Hour) // on the test's clock
		busy.Release()
		<-queued
		time.Sleep(29 * time.Second)
		if part.Err() != nil {
			t.Fatal("it was ended for the time in which it waited for its turn")
		}
		<-part.Done()
		slot.Release()
		if g := <-granted; g.after < time.Hour+30*time.Second || g.after > time.Hour+time.Minute {
			t.Errorf("the next one waited %v", g.after)
		}
	})
}

// TestOwnStalledSlotEnds: a subject's own slot that stalled ends for the next one of the subject; one that does not
// keep the request waiting goes on.
func TestOwnStalledSlotEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, granted := NewScheduler(outsideLimits()), make(chan grant, 10)
		waitFor(t, s, "other", granted)
		kept := stall(t, (<-granted).slot, 10*time.Second)
		waitFor(t, s, "own", granted)
		own := stall(t, (<-granted).slot, 10*time.Second)
		waitFor(t, s, "own", granted)
		if g := <-granted; g.after != 10*time.Second || own.Err() == nil || kept.Err() != nil {
			t.Errorf("it waited %v; its own slot: %v, the other one: %v", g.after, own.Err(), kept.Err())
		}
		if s.isSlow("own", time.Now()) {
			t.Error("a subject counts as slow that kept nobody else waiting")
		}
	})
}

// TestOutsideWithoutScheduler: nobody waits for a slot of no scheduler.
func TestOutsideWithoutScheduler(t *testing.T) {
	var none *Scheduler
	slot, err := none.Acquire(t.Context(), Fetch, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := slot.Outside(t.Context(), time.Second)
	slot.Moved(1)
	if ctx.Err() != nil {
		t.Error(ctx.Err())
	}
	end()
}
