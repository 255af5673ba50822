package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// Work in advance does not prevent an eviction, which cancels it, unless another party has wanted it.
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
					ctx := WithOwner(WithJob(t.Context(), &Job{Owner: "a request"}), Owner{Name: "in advance", Yields: true})
					ctx, done, err := r.Start(ctx)
					if err != nil {
						t.Error(err)
					}
					defer done()
					_, err = ShareTask(ctx, r, "whole", inner)
					ended <- err
				}()
				synctest.Wait()
				if u := r.Usage(); u.Used || !u.Yields || !u.Tasks || u.Busy != "" {
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

// Work without callers, and a context without a party, do not yield.
func TestUnknownPartiesDoNotYield(t *testing.T) {
	j := &Job{}
	if PartyOf(t.Context()).Yields() || PartyOf(WithJob(t.Context(), j)).Yields() {
		t.Error("unknown work yields")
	}
	defer j.join(PartyOf(WithOwner(t.Context(), Owner{Yields: true})))() // as a Lock does
	if PartyOf(WithJob(t.Context(), j)).Yields() {
		t.Error("it yields because of a party that waits for it")
	}
}
