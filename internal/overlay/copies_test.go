package overlay

import (
	"context"
	"errors"
	"testing"
)

// TestSeen checks that the copy of a container is found whatever its propagation, and that
// namespaces that have the mount at its own place do not count.
func TestSeen(t *testing.T) {
	p := newPlugin(t)
	want := func(when string, want bool) {
		t.Helper()
		if got, err := Seen(t.Context(), p.target); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", when, got, err, want)
		}
	}
	host := unshare(t, "unchanged")
	service := unshare(t, "slave")
	want("nobody", false)
	for _, propagation := range []string{"slave", "private"} {
		c := unshare(t, propagation)
		at := t.TempDir()
		c.run("mount --bind " + p.target + " " + at + " && umount -l " + p.points)
		want(propagation, true)
		c.end()
		want(propagation+" has ended", false)
	}
	host.run("true")
	service.run("true")
	mustDetach(t, p.target)
	if _, err := Seen(t.Context(), p.target); !errors.Is(err, ErrNotMounted) {
		t.Errorf("not mounted: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("the client has hung up")
	cancel(reason)
	p = newPlugin(t)
	if _, err := Seen(ctx, p.target); !errors.Is(err, reason) {
		t.Errorf("after the end of its context: %v", err)
	}
}
