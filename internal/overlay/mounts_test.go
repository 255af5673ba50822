package overlay

import (
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDetachTwice checks that of two concurrent calls one detaches, and the other may return
// ErrNotMounted.
func TestDetachTwice(t *testing.T) {
	p := newPlugin(t)
	spec := Spec{Lower: []string{filepath.Join(p.dir, "lower")}, Upper: filepath.Join(p.dir, "upper2"), Work: filepath.Join(p.dir, "work2"), Target: filepath.Join(p.dir, "twice")}
	mkdir(t, spec.Upper, spec.Work, spec.Target)
	for range 500 {
		mustMount(t, spec)
		var done atomic.Int32
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				release, err := Detach(spec.Target)
				if err == nil {
					done.Add(1)
					err = release()
				} else if errors.Is(err, ErrNotMounted) {
					err = nil
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if n := done.Load(); n < 1 {
			t.Fatal("nobody detached it")
		}
	}
}
