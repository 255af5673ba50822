package warm

import (
	"fmt"
	"path/filepath"
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
