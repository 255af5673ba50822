package trash

import (
	"context"
	"time"
)

// againFirst and againMax bound the pause between two calls.
const (
	againFirst = 100 * time.Millisecond
	againMax   = 5 * time.Minute
)

// Again calls f with growing pauses until it succeeds or ctx ends. Use it for a path that
// could not be put into the trash after its record was deleted: it would otherwise take
// space, uncounted, until the next start. f must check whether the path is in use again.
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
