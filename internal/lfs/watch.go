package lfs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/helmdeck/repos/internal/git"
)

// watch bounds an HTTP request: how long nothing may arrive, before the headers of the
// last response and then in its body, and how long it may take in total. net/http has no
// limit of the first kind for a body, and the error of its Timeout does not say which
// limit it was.
type watch struct {
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	silent  *time.Timer
	late    *time.Timer
	silence time.Duration
}

// newWatch starts the timers of a request, which must use the context of the watch. Call
// stop at its end.
func newWatch(ctx context.Context, silence, total time.Duration) *watch {
	w := &watch{silence: silence}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.silent = time.AfterFunc(silence, func() { w.cancel(git.SilentError(silence)) })
	w.late = time.AfterFunc(total, func() { w.cancel(lateError(total)) })
	return w
}

func (w *watch) stop() {
	w.silent.Stop()
	w.late.Stop()
	w.cancel(nil)
}

// cause returns why the watch ended the request, or err if it did not.
func (w *watch) cause(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	return err
}

// body returns a reader for the response's body that resets the silence timer.
func (w *watch) body(r *http.Response) io.Reader {
	w.silent.Reset(w.silence)
	return watchedBody{w, r.Body}
}

type watchedBody struct {
	*watch
	body io.Reader
}

func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if n > 0 {
		b.silent.Reset(b.silence)
	}
	return n, err
}

// lateError ends a request that exceeds its total time. It is not retried, because that
// would take as long.
type lateError time.Duration

func (l lateError) Error() string {
	return fmt.Sprintf("the answer was not complete after %v", time.Duration(l))
}
