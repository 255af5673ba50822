package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Work in advance does not prevent an eviction, which cancels it, unless another owner has wanted it.
func TestWorkThatYields(t *testing.T) {
	for _, tt := range []struct {
		name    string
		joins   bool // a mount joins the work, and gives up
		waits   bool // it has not given up
		evicted bool
	}{
		{"alone", false, false, true}, {"with a mount", true, true, false}, {"after a mount", true, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newResource(t)
				inner := func(ctx context.Context) (int, error) {
					return ShareTask(ctx, r, "part", func(ctx context.Context) (int, error) {
						<-ctx.Done()
						return 0, context.Cause(ctx)
					})
				}
				ended := make(chan error, 1)
				go func() {
					ctx := WithOwner(WithOwner(t.Context(), Owner{Name: "a request"}), Owner{Name: "in advance", Yields: true})
					ctx, done, err := r.Start(ctx)
					if err != nil {
						t.Error(err)
					}
					defer done()
					_, err = ShareTask(ctx, r, "whole", inner)
					ended <- err
				}()
				synctest.Wait()
				if u := r.Usage(); u.Used || !u.Yields || u.Busy != "" {
					t.Errorf("work in advance: %+v", u)
				}
				mount, giveUp := context.WithCancel(WithOwner(t.Context(), Owner{Name: "a mount", Urgent: true}))
				defer giveUp()
				if tt.joins {
					go func() { _, _ = ShareTask(mount, r, "whole", inner) }()
					synctest.Wait()
				}
				if !tt.waits {
					giveUp()
					synctest.Wait()
				}
				if u := r.Usage(); u.Yields != tt.evicted || u.Used == tt.evicted || u.Attended != tt.waits {
					t.Errorf("yields %v, want %v: %+v", u.Yields, tt.evicted, u)
				}
				done, err := r.Evict(t.Context(), StopNothing)
				if !tt.evicted {
					wantBusy(t, err, "work for ")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				done()
				if err := <-ended; !errors.Is(err, errGone) {
					t.Errorf("the work ended with %v", err)
				}
			})
		})
	}
}

// A context without an owner does not yield, nor does what it waits for.
func TestUnknownOwnersDoNotYield(t *testing.T) {
	unknown := JobOf(t.Context())
	j := newShared(unknown)
	j.join(unknown)
	if unknown.Yields() || j.Yields() {
		t.Error("unknown work yields")
	}
	j.join(JobOf(WithOwner(t.Context(), Owner{Yields: true})))
	if j.Yields() {
		t.Error("it yields because of one of its callers")
	}
}

// An owner's job is as its owner says, whoever waits for a Lock that it holds.
func TestOwnersJobHasNoCallers(t *testing.T) {
	j := JobOf(WithOwner(t.Context(), Owner{Yields: true, Ends: true}))
	mount := JobOf(WithOwner(t.Context(), Owner{Urgent: true}))
	j.join(mount)
	j.leave(mount)
	if !j.Yields() || j.Urgent() || !j.abandoned() {
		t.Errorf("got %+v", j.own)
	}
}
