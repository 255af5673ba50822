package driver

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/wait"
)

// TestUnmountAfterForcedRelease checks that the engine's own Unmounts do nothing after a forced
// release, however many Mounts they are for, and that the ID can be mounted again.
func TestUnmountAfterForcedRelease(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create("v", "mode", mode)
			first := w.mountOK("v", "a")
			w.mountOK("v", "a") // docker cp
			// Another program that just made a mount namespace, such as a container that starts, has the mount for a moment.
			wait.For(t, "the end of the leases", func() error {
				err := w.core.ForceRelease(t.Context(), "v", "a")
				if _, inUse := errors.AsType[*workspace.InUseError](err); err != nil && !inUse {
					t.Fatal(err)
				}
				return err
			})
			for range 3 {
				w.unmountOK("v", "a")
			}
			again := w.mountOK("v", "a")
			if _, err := os.Lstat(filepath.Join(again, "README.md")); err != nil || mode != "keep" && again == first {
				t.Errorf("mounted again: %s, before %s, %v", again, first, err)
			}
			w.mountOK("v", "a")
			if got := w.core.Leases("v"); len(got) != 2 {
				t.Errorf("leases %q", got)
			}
			w.unmountOK("v", "a")
			w.unmountOK("v", "a")
			w.removeOK("v")
		})
	}
}

// TestForcedReleaseRaces checks that Mounts and Unmounts at the same time as forced releases
// neither fail nor leave a lease, and that a Mount is answered with a mounted workspace.
func TestForcedReleaseRaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "refresh", "never")
	var engines, operator sync.WaitGroup
	stop := make(chan struct{})
	for i := range 3 {
		id := fmt.Sprint("c", i)
		engines.Go(func() {
			for range 30 {
				w.mountOK("v", id)
				w.mountOK("v", id)
				w.unmountOK("v", id)
				w.unmountOK("v", id)
			}
		})
		operator.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := w.core.ForceRelease(t.Context(), "v", id); err.(type) {
				case nil, *workspace.NoLeaseError, *workspace.InUseError:
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	engines.Wait()
	close(stop)
	operator.Wait()
	wait.For(t, "the end of all leases", func() error {
		for i := range 3 {
			w.unmountOK("v", fmt.Sprint("c", i))
		}
		return wait.Equal(len(w.core.Leases("v")), 0)
	})
	w.removeOK("v")
}
