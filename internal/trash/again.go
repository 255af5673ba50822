package trash

import (
	"context"
	"time"
)

// againFirst and againMax bound the wait between two tries.
const (
	againFirst = 100 * time.Millisecond
	againMax   = 5 * time.Minute
)

// Again tries something until it succeeds, or ctx ends: what could not be put into the
// trash after its record went, and would otherwise take space until the next start
// without counting anywhere. Its path may be in use again by then: that is for f to
// know.
func Again(ctx context.Context, f func() error) {
	for wait := againFirst; ; wait = min(2*wait, againMax) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		if f() == nil {
			return
		}
	}
}
