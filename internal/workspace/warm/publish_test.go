package warm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/tests/wait"
)

// TestTurns: four caches are published at a time, and two of one subject.
func TestTurns(t *testing.T) {
	t.Parallel()
	s := work.NewScheduler([3]work.Limits{work.CPU: turns})
	for i, tt := range []struct {
		subject string
		want    bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"d", false}} {
		if got := s.Try(work.WithOwner(t.Context(), work.Owner{Subject: tt.subject}), work.CPU, false) != nil; got != tt.want {
			t.Errorf("publication %d, of %s, begins at once: %v, want %v", i, tt.subject, got, tt.want)
		}
	}
}

// caching opens a workspace with the cache.
func (w *world) caching() *session {
	w.t.Helper()
	s := w.open(w.want())
	base, err := w.m.Cache(w.t.Context(), cloneKey, user, user)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Paths = append(s.Paths, base)
	return s
}

// stored is the path of a file that npm names by its content.
func stored(name string) string { return filepath.Join(cache.Mount, "npm/_cacache/content-v2", name) }

// published checks which files the cache has.
func (w *world) published(names ...string) {
	w.t.Helper()
	got := make(map[string]bool)
	for _, l := range w.m.CacheLayers(cloneKey) {
		for _, file := range list(w.t, filepath.Join(w.filesOf(l.ID), cache.Mount)) {
			got[file] = true
		}
	}
	for _, name := range names {
		if file := "npm/_cacache/content-v2/" + name + "=" + name; !got[file] {
			w.t.Errorf("%s is not published", name)
		}
	}
	if len(got) != len(names) {
		w.t.Errorf("published %v, want %q", got, names)
	}
}

// TestStoppedPublication: what a publication has moved when the plugin stops is published, and the rest after the next start,
// unless a part of a unit was moved: then nothing of what is left can be trusted.
func TestStoppedPublication(t *testing.T) {
	t.Parallel()
	for _, unit := range []bool{false, true} {
		w := newWorld(t)
		s := w.caching()
		names := []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			s.write(stored(name), name)
			if unit {
				s.write(filepath.Join(cache.Mount, "go-mod/m@v1.0.0", name), name)
			}
		}
		detach(t, s.dir)
		ctx, stop := context.WithCancel(t.Context())
		var moved []string
		s.Leave = func(_ context.Context, path string) error {
			dir, err := os.Readlink(filepath.Dir(path)) // of the descriptor
			moved = append(moved, filepath.Base(path))
			if !unit && len(moved) == 2 || unit && strings.Contains(dir, "/go-mod/") {
				stop()
			}
			return err
		}
		if err := s.m.Promote(ctx, s.Ended); !errors.Is(err, context.Canceled) {
			t.Errorf("the plugin stops: %v", err)
		}
		var kept []string
		for _, name := range names {
			if !unit && slices.Contains(moved, name) {
				kept = append(kept, name)
			}
		}
		if !unit {
			w.published(kept...)
		}
		for _, l := range w.m.CacheLayers(cloneKey) {
			if got := list(t, filepath.Join(w.filesOf(l.ID), cache.Mount, "go-mod")); len(got) > 0 {
				t.Errorf("published a part of a module: %q", got)
			}
		}
		before := len(w.m.CacheLayers(cloneKey))
		w.restart(w.boot)
		s.Leave = nil
		if err := s.m.Promote(t.Context(), s.Ended); err != nil {
			t.Error(err)
		}
		if !unit {
			w.published(names...)
		} else if n := len(w.m.CacheLayers(cloneKey)); n != before {
			t.Errorf("%d layers, want %d: the rest was published", n, before)
		}
	}
}

// TestPublicationsTakeTurns: a subject that publishes twice waits with the third, and no other subject waits for it.
func TestPublicationsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.caching()
	s.write(stored("a"), "a")
	take := func(subject string) *work.Slot {
		return w.m.turns.Try(work.WithOwner(t.Context(), work.Owner{Subject: subject}), work.CPU, false)
	}
	first, second := take(filepath.Dir(cloneKey)), take(filepath.Dir(cloneKey))
	ended := make(chan error)
	detach(t, s.dir)
	go func() { ended <- s.m.Promote(t.Context(), s.Ended) }()
	wait.For(t, "the publication to wait", func() error {
		if load := w.m.turns.Load()[work.CPU]; load.Waiting != 1 {
			return fmt.Errorf("%+v", load)
		}
		return nil
	})
	w.published()
	other := take("other")
	if other == nil {
		t.Error("another subject waits")
	}
	first.Release()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	w.published("a")
	second.Release()
	other.Release()
	if load := w.m.turns.Load()[work.CPU]; load.Held != 0 {
		t.Errorf("%+v", load)
	}
}
