package work

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLinger: the context outlives the other one by the time that it is given, also one that has ended before.
func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		before, end := Linger(ctx, time.Minute)
		defer end()
		cancel(cause)
		after, end := Linger(ctx, 2*time.Minute)
		defer end()
		began := time.Now()
		for c, want := range map[context.Context]time.Duration{before: time.Minute, after: 2 * time.Minute} {
			if c.Err() != nil {
				t.Errorf("it has ended: %v", c.Err())
			}
			go func() {
				<-c.Done()
				if got := time.Since(began); got != want || context.Cause(c) != cause {
					t.Errorf("it ended after %v with %v, want %v with %v", got, context.Cause(c), want, cause)
				}
			}()
		}
		time.Sleep(time.Hour) // on the test's clock
		synctest.Wait()
		done, end := Linger(t.Context(), time.Minute)
		end()
		if done.Err() == nil {
			t.Error("end does not end it")
		}
	})
}
