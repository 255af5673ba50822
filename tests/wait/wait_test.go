package wait

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMost(t *testing.T) {
	if got := Most(context.Background()); got != endless {
		t.Errorf("without a deadline: %v", got)
	}
	for left, want := range map[time.Duration]time.Duration{time.Hour: 30 * time.Minute, -time.Hour: 0} {
		ctx, cancel := context.WithTimeout(t.Context(), left)
		defer cancel()
		if got := Most(ctx); got > want || got < want-time.Minute {
			t.Errorf("%v before the deadline: %v, want %v", left, got, want)
		}
	}
}

func TestUntil(t *testing.T) {
	calls := 0
	if err := Until(t, func() error { calls++; return Equal(calls, 3) }); err != nil || calls != 3 {
		t.Errorf("%v after %d calls", err, calls)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := Until(ctx, func() error { return Equal("a", "b") }); err == nil || !strings.HasSuffix(err.Error(), ": a, want b") {
		t.Errorf("in vain: %v, want the last state", err)
	}
	broken := errors.New("broken")
	if err := Until(t, func() error { return Final(broken) }); err != broken {
		t.Errorf("an error that waiting does not change: %v", err)
	}
}
