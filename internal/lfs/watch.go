package lfs

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/helmdeck/repos/internal/git"
)

// watch bounds a request over HTTP: how long nothing may arrive, up to the headers of
// the last answer and then in its body, and how long it may take in all. net/http has
// no limit of the first kind for a body, and its Timeout does not say what it was.
type watch struct {
	ctx     context.Context // of the request
	cancel  context.CancelCauseFunc
	silent  *time.Timer
	late    *time.Timer
	silence time.Duration
}

// newWatch begins to watch a request that is to be made with the watch's context.
// Call stop at its end.
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

// cause prefers the reason why the request was ended to what came of it.
func (w *watch) cause(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	return err
}

// body returns the body of an answer that has just arrived, to be read instead of
// the answer's own.
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

// lateError is why a request was ended that kept something coming. Another try would
// take as long.
type lateError time.Duration

func (l lateError) Error() string {
	return fmt.Sprintf("the answer was not complete after %v", time.Duration(l))
}
