package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"time"
)

// stuckClient does not read: a write ends only when its deadline is over.
type stuckClient struct {
	*httptest.ResponseRecorder
	writing chan struct{}
	over    chan struct{}
	close   sync.Once
}

func (c *stuckClient) SetWriteDeadline(at time.Time) error {
	if !at.After(time.Now()) {
		c.close.Do(func() { close(c.over) })
	}
	return nil
}

func (c *stuckClient) Write([]byte) (int, error) {
	close(c.writing)
	<-c.over
	return 0, os.ErrDeadlineExceeded
}

var _ http.ResponseWriter = (*stuckClient)(nil)

// TestPatientWriter: a write to a client that does not read ends with the context, so a Mount does not
// wait for it, and no other one begins.
func TestPatientWriter(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	c := &stuckClient{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), over: make(chan struct{})}
	w, stop := newTimedWriter(ctx, c)
	defer stop()
	ended := errors.New("the volume is being mounted")
	go func() {
		<-c.writing
		cancel(ended)
	}()
	if _, err := w.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Write([]byte("more")); !errors.Is(err, ended) {
		t.Errorf("got %v, want %v", err, ended)
	}
}
