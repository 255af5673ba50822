package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/cli/cli"
)

// terminated is the cause of a context that a signal has ended.
type terminated struct{ signal syscall.Signal }

func (terminated) Error() string { return "" }

// withSignals returns a context that ends with the first SIGINT, SIGTERM or SIGHUP. The second one kills the
// process, because then the handler is gone. A closed pipe becomes an error of the write, so that the
// command ends in order and removes what it has started.
func withSignals(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Ignore(syscall.SIGPIPE)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case <-ctx.Done():
		case s := <-signals:
			signal.Stop(signals)
			cancel(terminated{s.(syscall.Signal)})
		}
	}()
	return ctx, func() { cancel(nil) }
}

// outcome returns what docker prints for the error of a command that ran with ctx, and its exit code: 128
// and the number of the signal that ended the command, also that of a closed pipe, 0 if the user declined,
// the code of a cli.StatusError (125 for wrong flags), and otherwise 1.
func outcome(ctx context.Context, err error) (text string, code int) {
	signaled, interrupted := errors.AsType[terminated](context.Cause(ctx))
	status, ok := errors.AsType[cli.StatusError](err)
	switch {
	case err == nil:
		return "", 0
	case interrupted:
		return "", 128 + int(signaled.signal)
	case is[*fs.PathError](err) && errors.Is(err, syscall.EPIPE): // of a file, such as stdout: not of a socket
		return "", 128 + int(syscall.SIGPIPE)
	case errors.Is(err, context.Canceled): // docker has ended the connection to its plugin, after a signal
		return "", 128 + int(syscall.SIGINT)
	case errdefs.IsCanceled(err):
		return "", 0
	case ok && status.StatusCode != 0:
		return err.Error(), status.StatusCode
	}
	return err.Error(), 1
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}
