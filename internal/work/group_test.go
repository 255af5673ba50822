package work

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func ignore(error) {}

// wanted reports whether any caller waits for a job.
func wanted(j *Job) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.callers) > 0
}

func TestShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		var runs atomic.Int32
		finish := make(chan struct{})
		f := func(context.Context) (int, error) {
			<-finish
			return int(runs.Add(1)), nil
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if v, err := Share(t.Context(), g, "key", ignore, f); v != 1 || err != nil {
					t.Errorf("got %d, %v", v, err)
				}
			})
		}
		synctest.Wait()
		close(finish)
		all.Wait()
		if v, err := Share(t.Context(), g, "key", ignore, f); v != 2 || err != nil {
			t.Errorf("after that: %d, %v, want a run of its own", v, err)
		}
	})
}

// Work continues without its callers, and knows whether each still waits.
func TestWorkOutlivesItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		ctx, cancel := context.WithCancelCause(WithOwner(t.Context(), Owner{Name: "a mount", Urgent: true}))
		hungUp := errors.New("hung up")
		var job *Job
		var ended error
		done := make(chan error)
		go func() {
			_, err := Share(ctx, g, "key", ignore, func(ctx context.Context) (int, error) {
				job = JobOf(ctx)
				<-ctx.Done()
				ended = ctx.Err()
				return 0, ended
			})
			done <- err
		}()
		synctest.Wait()
		if !job.Urgent() || !wanted(job) || job.Owner != "a mount" {
			t.Errorf("with a caller: %+v", job)
		}
		cancel(hungUp)
		if err := <-done; err != hungUp {
			t.Errorf("the caller got %v", err)
		}
		synctest.Wait()
		if job.Urgent() || wanted(job) || ended != nil {
			t.Errorf("without a caller: %+v, ended: %v", job, ended)
		}
		g.Close()
		if ended == nil {
			t.Error("Close did not wait for the work")
		}
		if _, err := Share(t.Context(), g, "key", ignore, func(context.Context) (int, error) { return 1, nil }); err != ErrClosed {
			t.Errorf("after Close: %v", err)
		}
		g.Go(func(context.Context) { t.Error("work began after Close") })
		synctest.Wait()
	})
}

// Nested work belongs to the owner of the outer work, and is as urgent.
func TestNestedWorkBelongsToTheOuterOwner(t *testing.T) {
	g := NewGroup()
	defer g.Close()
	ctx := WithOwner(t.Context(), Owner{Name: "a mount", Urgent: true})
	inner, err := Share(ctx, g, "outer", ignore, func(ctx context.Context) (Owner, error) {
		return Share(ctx, g, "inner", ignore, func(ctx context.Context) (Owner, error) {
			j := JobOf(ctx)
			return Owner{Name: j.Owner, Urgent: j.Urgent()}, nil
		})
	})
	if want := (Owner{Name: "a mount", Urgent: true}); inner != want || err != nil {
		t.Errorf("got %+v, %v, want %+v", inner, err, want)
	}
}

func TestPanicIsError(t *testing.T) {
	g := NewGroup()
	defer g.Close()
	var reported error
	_, err := Share(t.Context(), g, "key", func(err error) { reported = err }, func(context.Context) (int, error) { panic("oops") })
	if err == nil || !strings.Contains(err.Error(), "oops") || reported == nil || !strings.Contains(reported.Error(), "group_test.go") {
		t.Errorf("got %v, reported %v", err, reported)
	}
}

// Work that a job waits for is as urgent as the job is now, not as it was at the start.
func TestUrgencyOfNestedWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		var inner *Job
		finish := make(chan struct{})
		part := func(ctx context.Context) (int, error) {
			inner = JobOf(ctx)
			<-finish
			return 1, nil
		}
		whole := func(ctx context.Context) (int, error) { return Share(ctx, g, "part", ignore, part) }
		var all sync.WaitGroup
		all.Go(func() { _, _ = Share(t.Context(), g, "whole", ignore, whole) })
		synctest.Wait()
		if inner.Urgent() {
			t.Error("it is urgent before anybody waits")
		}
		ctx, giveUp := context.WithCancel(WithOwner(t.Context(), Owner{Name: "a mount", Urgent: true}))
		all.Go(func() { _, _ = Share(ctx, g, "whole", ignore, whole) })
		synctest.Wait()
		if !inner.Urgent() {
			t.Error("it is not urgent while a mount waits for the whole")
		}
		giveUp()
		synctest.Wait()
		if inner.Urgent() || !wanted(inner) {
			t.Errorf("when the mount has given up: urgent %v, wanted %v", inner.Urgent(), wanted(inner))
		}
		close(finish)
		all.Wait()
	})
}
