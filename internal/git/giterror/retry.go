package giterror

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// retries bounds the tries after a transient failure. With the waits below they take
	// some three seconds, enough for a server that restarts.
	retries = 3
	// retryFirst is the wait before the second try. It doubles each time, and is
	// randomized by half, so that many clients don't come back at once.
	retryFirst = 400 * time.Millisecond
)

// Retry calls f until it succeeds, fails with an error that is not Transient, or ctx
// ends.
func Retry(ctx context.Context, f func() error) error {
	wait := retryFirst
	for try := 0; ; try++ {
		err := f()
		if err == nil || !KindOf(err).Transient() || try == retries || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait *= 2
	}
}
