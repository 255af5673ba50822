package work

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestWorkThatEnds checks that work whose callers all said so ends with the last of them, with
// its parts, and that work which another owner has wanted goes on.
func TestWorkThatEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		// second joins the part or the whole, and gives up before the first caller does.
		part, whole *Owner
		want        string // how many of whole and part have ended when all gave up
	}{
		{"alone", nil, nil, "both"},
		{"another that ends", nil, &Owner{Name: "b", Ends: true}, "both"},
		{"another that does not", nil, &Owner{Name: "b"}, "none"},
		{"a mount that wants a part", &Owner{Name: "b", Urgent: true}, nil, "whole"},
		{"a part that ends too", &Owner{Name: "b", Ends: true}, nil, "both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewGroup()
				defer g.Close()
				report := func(err error) { t.Error(err) }
				var whole, part atomic.Bool
				inner := func(ctx context.Context) (int, error) {
					return Share(ctx, g, "part", report, func(ctx context.Context) (int, error) {
						<-ctx.Done()
						if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
							t.Errorf("the cause of the end is %v, want one that says nothing of the work", err)
						}
						part.Store(true)
						return 0, context.Cause(ctx)
					})
				}
				outer := func(ctx context.Context) (int, error) {
					return Share(ctx, g, "whole", report, func(ctx context.Context) (int, error) {
						defer whole.Store(true)
						return inner(ctx)
					})
				}
				first, giveUp := context.WithCancel(WithOwner(t.Context(), Owner{Name: "a", Ends: true}))
				go func() {
					if _, err := outer(first); !errors.Is(err, context.Canceled) {
						t.Errorf("the first caller got %v", err)
					}
				}()
				synctest.Wait()
				for call, owner := range map[*func(context.Context) (int, error)]*Owner{&inner: tt.part, &outer: tt.whole} {
					if owner == nil {
						continue
					}
					ctx, giveUp := context.WithCancel(WithOwner(t.Context(), *owner))
					go (*call)(ctx)
					synctest.Wait()
					giveUp()
					synctest.Wait()
				}
				if whole.Load() || part.Load() {
					t.Error("it ended while a caller waited")
				}
				giveUp()
				synctest.Wait()
				got := map[[2]bool]string{{true, true}: "both", {true, false}: "whole", {false, false}: "none"}[[2]bool{whole.Load(), part.Load()}]
				if got != tt.want {
					t.Errorf("ended: %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// TestCallerAfterTheEnd checks that a caller that comes while abandoned work ends gets the
// result of new work, which begins only then.
func TestCallerAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGroup()
		defer g.Close()
		release := make(chan struct{})
		var running, begun atomic.Int32
		share := func(ctx context.Context) (int, error) {
			return Share(ctx, g, "k", func(err error) { t.Error(err) }, func(ctx context.Context) (int, error) {
				if running.Add(1) > 1 {
					t.Error("two run at once")
				}
				defer running.Add(-1)
				if begun.Add(1) > 1 {
					return 7, ctx.Err()
				}
				<-ctx.Done()
				<-release // git takes a while to end
				return 0, context.Cause(ctx)
			})
		}
		first, giveUp := context.WithCancel(WithOwner(t.Context(), Owner{Ends: true}))
		go share(first)
		synctest.Wait()
		giveUp()
		synctest.Wait()
		got := make(chan int, 3)
		for _, o := range []Owner{{Urgent: true}, {Ends: true}, {}} {
			go func() {
				n, err := share(WithOwner(t.Context(), o))
				if err != nil {
					t.Error(err)
				}
				got <- n
			}()
		}
		synctest.Wait()
		close(release)
		for range 3 {
			if n := <-got; n != 7 {
				t.Errorf("got %d of the work that was cancelled", n)
			}
		}
		if n := begun.Load(); n < 2 {
			t.Errorf("it began %d times", n)
		}
	})
}
