package phase

import (
	"context"
	"fmt"
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
	Waited(context.Background(), "a turn", time.Second)
}

// TestWaits checks that waits are added by name, and that there are not too many names.
func TestWaits(t *testing.T) {
	ctx, w := Ensure(t.Context())
	if again, same := Ensure(ctx); again != ctx || same != w {
		t.Error("Ensure made a second Watch")
	}
	Waited(ctx, "a turn", time.Second)
	Waited(ctx, "a turn", time.Second)
	for i := range 100 {
		Waited(ctx, fmt.Sprint(i), time.Millisecond)
	}
	got := w.Waits()
	if got["a turn"] != 2*time.Second || got["0"] != time.Millisecond || got[elsewhere] != 85*time.Millisecond || len(got) != maxWaits+1 {
		t.Errorf("got %v", got)
	}
}
