package work

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// caller returns the context of a shared job that a caller waits for.
func caller(ctx context.Context, urgent bool) (context.Context, *Job) {
	c := JobOf(WithOwner(ctx, Owner{Name: "a caller", Urgent: urgent}))
	j := newShared(c)
	j.join(c)
	return withJob(ctx, j), j
}

// The holder of a lock is urgent while an urgent job waits for it.
func TestLockLendsUrgency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		quiet, holder := caller(t.Context(), false)
		unlock, err := l.Acquire(quiet)
		if err != nil {
			t.Fatal(err)
		}
		var order []string
		var all sync.WaitGroup
		wait := func(name string, ctx context.Context) {
			all.Go(func() {
				unlock, err := l.Acquire(ctx)
				if err != nil {
					order = append(order, name+": "+err.Error())
					return
				}
				order = append(order, name)
				unlock()
			})
			synctest.Wait()
		}
		other, next := caller(t.Context(), false)
		wait("quiet", other)
		if holder.Urgent() {
			t.Error("the holder is urgent before an urgent job waits")
		}
		urgent, _ := caller(t.Context(), true)
		gone, giveUp := context.WithCancelCause(urgent)
		wait("gone", gone)
		if !holder.Urgent() || next.Urgent() {
			t.Errorf("an urgent job waits: the holder is urgent: %v, who waits too: %v", holder.Urgent(), next.Urgent())
		}
		giveUp(errors.New("hung up"))
		synctest.Wait()
		if holder.Urgent() {
			t.Error("the holder is urgent after the urgent job has given up")
		}
		wait("urgent", urgent)
		if _, ok := l.Try(); ok {
			t.Error("Try took a lock that is held")
		}
		unlock()
		all.Wait()
		if want := []string{"gone: hung up", "urgent", "quiet"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
		if len(holder.callers) != 1 || len(next.callers) != 1 { // their own
			t.Errorf("left behind: %v, %v", holder.callers, next.callers)
		}
		if unlock, ok := l.Try(); !ok {
			t.Error("the lock is held in the end")
		} else {
			unlock()
		}
	})
}

// The next holder of a lock becomes urgent when it gets the lock.
func TestLockPassesUrgencyOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l Lock
		first, _ := caller(t.Context(), true)
		unlock, err := l.Acquire(first)
		if err != nil {
			t.Fatal(err)
		}
		quiet, job := caller(t.Context(), false)
		got := make(chan func())
		go func() {
			unlock, _ := l.Acquire(quiet)
			got <- unlock
		}()
		synctest.Wait()
		unlock()
		unlock = <-got
		late, _ := caller(t.Context(), true)
		go func() {
			unlock, _ := l.Acquire(late)
			got <- unlock
		}()
		synctest.Wait()
		if !job.Urgent() {
			t.Error("the second holder is not urgent, and an urgent job waits")
		}
		unlock()
		(<-got)()
	})
}

// A fetch without callers holds a clone's lock and waits for a slot behind mounts. When a
// mount needs the lock, the fetch becomes as urgent as they are.
func TestMountLendsUrgencyToFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := Limits{Slots: 1, PerSubject: 1}
		s := NewScheduler([3]Limits{one, one, one})
		var l Lock
		busy, _ := caller(t.Context(), true)
		slot, err := s.Acquire(busy, Fetch, false)
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		fetch := func(name string, ctx context.Context, l *Lock) {
			all.Go(func() {
				unlock, err := l.Acquire(ctx)
				if err != nil {
					t.Error(err)
				}
				defer unlock()
				slot, err := s.Acquire(ctx, Fetch, false)
				if err != nil {
					t.Error(err)
				}
				defer slot.Release()
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			})
			synctest.Wait()
		}
		quiet, _ := caller(t.Context(), false)
		fetch("the fetch", quiet, &l)
		for range 3 {
			other, _ := caller(t.Context(), true)
			fetch("another's mount", other, new(Lock))
		}
		mount, _ := caller(t.Context(), true)
		fetch("the mount", mount, &l)
		slot.Release()
		all.Wait()
		if order[0] != "the fetch" {
			t.Errorf("order %q, want the fetch first", order)
		}
	})
}

// A fetch that waits for the lock becomes urgent when a mount joins it, and with it the holder,
// which does so no longer when the mount gives up. It then does not yield any more.
func TestLockLendsUrgencyThroughJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		var l Lock
		owner := JobOf(WithOwner(t.Context(), Owner{Yields: true}))
		holder := newShared(owner)
		holder.join(owner)
		unlock, err := l.Acquire(withJob(t.Context(), holder))
		if err != nil {
			t.Fatal(err)
		}
		fetch := func(ctx context.Context) {
			_, _ = Share(ctx, g, "fetch", ignore, func(ctx context.Context) (int, error) {
				unlock, err := l.Acquire(ctx)
				if err == nil {
					unlock()
				}
				return 0, err
			})
		}
		mount, giveUp := context.WithCancel(WithOwner(t.Context(), Owner{Urgent: true}))
		var all sync.WaitGroup
		all.Go(func() { fetch(WithOwner(t.Context(), Owner{Yields: true})) })
		synctest.Wait()
		if holder.Urgent() || !holder.Yields() {
			t.Errorf("without a mount: urgent %v, yields %v", holder.Urgent(), holder.Yields())
		}
		all.Go(func() { fetch(mount) })
		synctest.Wait()
		if !holder.Urgent() || holder.Yields() {
			t.Errorf("a mount waits: urgent %v, yields %v", holder.Urgent(), holder.Yields())
		}
		giveUp()
		synctest.Wait()
		if holder.Urgent() {
			t.Error("it is urgent after the mount has given up")
		}
		unlock()
		all.Wait()
		if holder.Yields() {
			t.Error("it yields after a mount has waited for it")
		}
	})
}

// Parts of one job exclude each other, even if the job waits for one of them.
func TestLockOfParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		var l Lock
		whole, job := caller(t.Context(), false)
		unlock, err := l.Acquire(whole)
		if err != nil {
			t.Fatal(err)
		}
		take := func(ctx context.Context) (int, error) {
			unlock, err := l.Acquire(ctx)
			if err == nil {
				unlock()
			}
			return 0, err
		}
		var all sync.WaitGroup
		all.Go(func() { _, _ = take(whole) })
		all.Go(func() { _, _ = Share(whole, g, "part", ignore, take) })
		synctest.Wait()
		if job.Urgent() {
			t.Error("it is urgent, and waits for itself alone")
		}
		unlock()
		all.Wait()
	})
}
