package work

import (
	"context"
	"time"
)

// Linger returns a context with the values of ctx that ends, without a deadline, when ctx has ended for that long: for the rest
// of work that must not stay half done. The caller calls end when it is done.
func Linger(ctx context.Context, most time.Duration) (_ context.Context, end func()) {
	lingering, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(most, func() { cancel(context.Cause(ctx)) })
	})
	return lingering, func() {
		stop()
		cancel(nil)
	}
}
