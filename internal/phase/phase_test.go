package phase

import (
	"context"
	"maps"
	"testing"
	"testing/synctest"
	"time"
)

// A phase within another one is not counted twice.
func TestPhasesAreExclusive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := With(t.Context())
		time.Sleep(time.Hour) // no phase
		resolved := Begin(ctx, Resolve)
		time.Sleep(time.Second)
		fetched := Begin(ctx, Fetch)
		time.Sleep(time.Minute)
		fetched()
		fetched()
		time.Sleep(2 * time.Second)
		resolved()
		time.Sleep(time.Hour)
		Begin(ctx, Mount)()
		Begin(ctx, Resolve)
		time.Sleep(4 * time.Second) // does not end, as after a panic
		want := map[Phase]time.Duration{Resolve: 7 * time.Second, Fetch: time.Minute, Mount: 0}
		if got := w.Took(); !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestWithoutWatch(t *testing.T) {
	Begin(context.Background(), Build)()
}
