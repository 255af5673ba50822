package checkpoint

import (
	"context"
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
)

// TestMakeInterrupted: a signal while the containers are paused ends the command in order, and a second one does not
// end it before that.
func TestMakeInterrupted(t *testing.T) {
	c := &box{id: "c", volume: "one", running: true}
	w := newWorld("x", "", c)
	signaled := errors.New("a signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	w.during = func() {
		if !c.paused {
			t.Error("it is not paused")
		}
		// It would end the test. That of a thread has been handled when the call returns.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Tgkill(os.Getpid(), syscall.Gettid(), syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		cancel(signaled)
	}
	if id, err := w.make(ctx, t, false); err == nil || id != "" {
		t.Errorf("%q, %v", id, err)
	}
	if got, want := w.calls.String(), "draft, pause c, catch-up, unpause, drop"; got != want || c.paused {
		t.Errorf("got %q, want %q; paused: %v", got, want, c.paused)
	}
}
