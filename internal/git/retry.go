package git

import (
	"context"
	"math/rand/v2"
	"time"
)

// Transient reports whether asking the same again may be answered otherwise.
// Authentication, missing repositories and refs, and whatever the remote has
// said in so many words are not: they fail at once, as themselves.
func (k Kind) Transient() bool { return k == KindServer || k == KindTimeout }

const (
	// retries bounds how often a transient failure is tried again. With the
	// waits below that is some three seconds: a server that restarts is back by
	// then, and one that is down is for the caller to tell.
	retries = 3
	// retryFirst is the wait before the second try; it doubles, and each is
	// spread by half so that many clients don't come back at once.
	retryFirst = 400 * time.Millisecond
)

// Retry calls f until it succeeds, fails for good, or ctx ends.
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
