package warm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// TestApart: what differs in a part of the key does not meet.
func TestApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.want("target")
	w.run(base, func(s *session) { s.write("target/x", "base") })
	for name, change := range map[string]func(*Want){
		"key":           func(o *Want) { o.Text = "image" },
		"uid":           func(o *Want) { o.UID = 5 },
		"gid":           func(o *Want) { o.GID = 5 },
		"clone":         func(o *Want) { o.Clone = "other/c" },
		"default":       func(o *Want) { o.Ref, o.Default = "refs/heads/x", "" },
		"other default": func(o *Want) { o.Ref, o.Default = "refs/heads/x", "refs/heads/y" },
		"commit":        func(o *Want) { o.Ref, o.Default = "", "" },
	} {
		other := base
		change(&other)
		paths, err := w.m.Take(t.Context(), other)
		if err != nil || len(paths[0].Chain) != 0 {
			t.Errorf("%s: %+v, %v", name, paths, err)
		}
	}
	w.sees(base, "target", "x=base")
}

// TestFallback: a branch begins with the default branch's, and has its own then.
func TestFallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := w.want("target")
	branch := base
	branch.Ref = "refs/heads/topic"
	w.run(base, func(s *session) { s.write("target/x", "base") })
	w.sees(branch, "target", "x=base")
	w.run(branch, func(s *session) { s.write("target/y", "topic") })
	w.run(base, func(s *session) { s.has("target", "x=base"); s.write("target/x", "base 2") })
	w.sees(branch, "target", "x=base", "y=topic")
	w.sees(base, "target", "x=base 2")
	// A branch that removed it does not go back to the default branch's.
	w.run(branch, func(s *session) { s.remove("target") })
	w.sees(branch, "target")
	w.sees(base, "target", "x=base 2")
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers", got)
	}
}

// TestTakeWaits: a workspace that is opened right after one has ended finds what
// that one is about to publish.
func TestTakeWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	topic := nm
	topic.Ref = "refs/heads/topic"
	s := w.open(nm)
	s.write("nm/a", "1")
	done := w.m.Ending(cloneKey, s.Paths)
	again := w.m.Ending(cloneKey, s.Paths)
	type answer struct {
		paths []meta.WarmPath
		err   error
	}
	answers := make(chan answer)
	for _, want := range []Want{nm, topic} {
		go func() {
			paths, err := w.m.Take(t.Context(), want)
			answers <- answer{paths, err}
		}()
	}
	if paths, err := w.m.Take(t.Context(), w.want("other")); err != nil || len(paths) != 1 {
		t.Errorf("another path: %+v, %v", paths, err)
	}
	again()
	again()
	s.end()
	select {
	case a := <-answers:
		t.Errorf("it did not wait: %+v", a)
	default:
	}
	done()
	for range 2 {
		if a := <-answers; a.err != nil || len(a.paths[0].Chain) != 1 {
			t.Errorf("%+v", a)
		}
	}
	// Not for ever.
	w.m.Wait = time.Millisecond
	defer w.m.Ending(cloneKey, s.Paths)()
	if _, err := w.m.Take(t.Context(), nm); err != nil {
		t.Error(err)
	}
	w.m.Wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.m.Take(ctx, nm); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
