package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"
	"testing"

	"github.com/docker/cli/cli"
)

func TestOutcome(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
		code int
	}{
		{nil, "", 0},
		{errors.New("no"), "no", 1},
		{cli.StatusError{Status: "usage", StatusCode: 125}, "usage", 125},
		{cli.StatusError{Status: "no code"}, "no code", 1},
		{&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, "", 141},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, "write: broken pipe", 1},
		{fmt.Errorf("list: %w", context.Canceled), "", 130},
		{fmt.Errorf("list: %w", declined{}), "", 0},
	} {
		if text, code := outcome(t.Context(), c.err); text != c.text || code != c.code {
			t.Errorf("%v: got %q and %d, want %q and %d", c.err, text, code, c.text, c.code)
		}
	}
}

func TestOutcomeOfSignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(terminated{syscall.SIGINT})
	if text, code := outcome(ctx, fmt.Errorf("list: %w", ctx.Err())); text != "" || code != 130 {
		t.Errorf("got %q and %d, want 130", text, code)
	}
	if text, code := outcome(ctx, nil); text != "" || code != 0 {
		t.Errorf("got %q and %d for a command that had ended, want 0", text, code)
	}
}

// declined is an error of the kind canceled.
type declined struct{}

func (declined) Error() string { return "declined" }
func (declined) Cancelled()    {}
