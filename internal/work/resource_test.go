package work

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var errGone = errors.New("gone")

func newResource(t *testing.T) *Resource {
	g := NewGroup()
	t.Cleanup(g.Close)
	return &Resource{Group: g, Name: "clone c", Subject: "s", Gone: errGone, Report: ignore}
}

// wantBusy fails unless err is a *BusyError whose reason contains words.
func wantBusy(t *testing.T, err error, words string) {
	t.Helper()
	if busy, ok := errors.AsType[*BusyError](err); !ok || busy.Name != "clone c" || !strings.Contains(busy.Reason, words) {
		t.Errorf("%v, want that it is busy: %q", err, words)
	}
}

// Evict cancels the tasks that it may cancel. A task that does not end prevents it.
func TestEvictWaitsForTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResource(t)
		mount, hangUp := context.WithCancel(WithOwner(t.Context(), Owner{Name: "a mount", Urgent: true}))
		ended := make(chan error, 1)
		go func() {
			_, err := ShareTask(mount, r, "task", func(ctx context.Context) (int, error) {
				if got := JobOf(ctx).Subject; got != "s" {
					t.Errorf("work of subject %q", got)
				}
				_, err := r.Evict(ctx, StopAll)
				wantBusy(t, err, "the one that needs room")
				<-ctx.Done()
				time.Sleep(time.Second)
				return 0, context.Cause(ctx)
			})
			ended <- err
		}()
		synctest.Wait()
		if got := r.Usage(); !got.Used || !got.Attended || !strings.HasPrefix(got.Busy, "work for a mount, since ") {
			t.Errorf("while a mount waits: %+v", got)
		}
		for _, stop := range []Stop{StopNothing, StopUnattended} {
			_, err := r.Evict(t.Context(), stop)
			wantBusy(t, err, "work for a mount")
		}
		hangUp()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the mount: %v", err)
		}
		// A second caller of the task gets the error; a Use during the eviction waits.
		go func() {
			_, err := ShareTask(t.Context(), r, "task", func(context.Context) (int, error) { return 0, nil })
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		done, err := r.Evict(t.Context(), StopUnattended)
		if err != nil || time.Since(began) != time.Second {
			t.Fatalf("evict: %v, after %v", err, time.Since(began))
		}
		if err := <-ended; err != errGone {
			t.Errorf("who waited for the task: %v", err)
		}
		if _, _, err := r.Start(t.Context()); err != errGone {
			t.Errorf("a task during an eviction: %v", err)
		}
		_, err = r.Evict(t.Context(), StopAll)
		wantBusy(t, err, "being evicted")
		used := make(chan func(), 1)
		go func() {
			release, err := r.Use(t.Context())
			if err != nil {
				t.Error(err)
			}
			used <- release
		}()
		synctest.Wait()
		if len(used) > 0 {
			t.Error("it is used during its eviction")
		}
		done()
		release := <-used
		release()
		release() // once is enough
		if got := r.Usage(); got != (Usage{}) {
			t.Errorf("in the end: %+v", got)
		}
	})
}

// Evict gives up if a use does not end, or if its caller gives up.
func TestEvictGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResource(t)
		ctx := WithOwner(t.Context(), Owner{Name: "a create"})
		release, err := r.Use(ctx)
		if err != nil {
			t.Fatal(err)
		}
		evicted := make(chan error, 1)
		evict := func(ctx context.Context) {
			_, err := r.Evict(ctx, StopAll)
			evicted <- err
		}
		go evict(t.Context())
		synctest.Wait()
		if _, err := r.Use(ctx); err != errGone {
			t.Errorf("its user: %v", err)
		}
		waiting, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("hung up"))
		if _, err := r.Use(waiting); err == nil || err.Error() != "hung up" {
			t.Errorf("another one that hangs up: %v", err)
		}
		wantBusy(t, <-evicted, "told to stop but still runs: a create, a mount")
		evict(waiting)
		if err := <-evicted; err == nil || err.Error() != "hung up" {
			t.Errorf("an eviction that is given up: %v", err)
		}
		if again, err := r.Use(ctx); err != nil {
			t.Error(err)
		} else {
			again()
		}
		release()
		done, err := r.Evict(t.Context(), StopNothing)
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
}
