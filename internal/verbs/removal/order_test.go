package removal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/wait"
)

// TestRefusedFreshCancelsNothing checks that a Mount goes on that waits for a clone, if a kept
// workspace of the clone turns out to be in use, and that no other clone of the subject goes.
func TestRefusedFreshCancelsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("k", "r", "mode", "keep")
	dir := w.mount("k", "1", "kept")
	w.unmount("k", "1")
	key := w.keys()[0]
	w.idle(key)
	f, err := os.Open(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.create("w", "r", "refresh", "always")
	w.create("o", "other")
	w.mount("o", "1", "")
	w.unmount("o", "1")
	for _, key := range w.keys() {
		w.idle(key)
	}
	clones := w.keys()
	release := make(chan struct{})
	w.server.Route("r", gitserver.Stall(release))
	mounted := make(chan error, 1)
	go func() {
		_, err := w.Acquire(t.Context(), verbs.Lease{Volume: "w", ID: "1"})
		mounted <- err
	}()
	wait.For(t, "the question of the mount", func() error {
		info, _ := w.Remover.config.Clones.Lookup(key).Info()
		return wait.Check(info.Attended, "no mount waits: %+v", info)
	})
	_, err = w.Fresh(t.Context(), key, true)
	if got, want := kinds(t, err), []string{"workspace k"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	_, err = w.FreshSubject(t.Context(), "default", true)
	if got, want := kinds(t, err), []string{"workspace k"}; !slices.Equal(got, want) {
		t.Errorf("in the way of the subject %q, want %q", got, want)
	}
	if got := w.keys(); !slices.Equal(got, clones) {
		t.Errorf("clones %q, want %q", got, clones)
	}
	w.server.Route("r")
	close(release)
	if err := <-mounted; err != nil {
		t.Errorf("the mount that waited: %v", err)
	}
}
