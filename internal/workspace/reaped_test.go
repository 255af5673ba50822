package workspace

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// TestAwaitReaped checks that AwaitReaped returns at once when the last ended workspace of the clones is
// removed or a checkpoint, and gives up if one stays.
func TestAwaitReaped(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(r *records, w *workspace, rec meta.Workspace)
		want time.Duration
	}{
		{"removed", func(r *records, w *workspace, _ meta.Workspace) { r.drop(w) }, time.Second + time.Millisecond},
		{"a checkpoint", func(r *records, w *workspace, rec meta.Workspace) {
			rec.Phase = meta.Checkpoint
			r.put(w, rec)
		}, time.Second + time.Millisecond},
		{"still used", func(*records, *workspace, meta.Workspace) {}, reapedWait},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &records{all: make(map[string]*workspace), leases: make(map[Lease]*workspace)}
			m := &Manager{records: r}
			add := func(id, clone string) (*workspace, meta.Workspace) {
				w, rec := newWorkspace(id, nil), meta.Workspace{ID: id, Clone: clone, Phase: meta.Ended}
				r.put(w, rec)
				return w, rec
			}
			add("other", "another")
			first, _ := add("first", "a")
			last, rec := add("last", "b")
			go func() {
				time.Sleep(time.Second)
				r.drop(first)
				time.Sleep(time.Millisecond)
				tt.do(r, last, rec)
			}()
			began := time.Now()
			if err := m.AwaitReaped(t.Context(), "a", "b"); err != nil || time.Since(began) != tt.want {
				t.Errorf("%s: %v after %v, want %v", tt.name, err, time.Since(began), tt.want)
			}
			canceled, cancel := context.WithCancel(t.Context())
			cancel()
			if err := m.AwaitReaped(canceled, "another"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: after the end: %v", tt.name, err)
			}
		})
	}
}
