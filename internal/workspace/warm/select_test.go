package warm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// TestKeysShareNoState checks that workspaces that differ in any part of the key share no state.
func TestKeysShareNoState(t *testing.T) {
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
		paths, err := w.m.Select(t.Context(), other)
		if err != nil || len(paths[0].Chain) != 0 {
			t.Errorf("%s: %+v, %v", name, paths, err)
		}
	}
	w.sees(base, "target", "x=base")
}

// TestFallback checks that a branch starts with the layers of the default branch, and gets a
// head of its own with the first change.
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
	// A branch that removed the directory does not get that of the default branch again.
	w.run(branch, func(s *session) { s.remove("target") })
	w.sees(branch, "target")
	w.sees(base, "target", "x=base 2")
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers", got)
	}
}

// TestSelectWaits checks that a new workspace gets the layers that a workspace is about to
// publish at its end.
func TestSelectWaits(t *testing.T) {
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
			paths, err := w.m.Select(t.Context(), want)
			answers <- answer{paths, err}
		}()
	}
	if paths, err := w.m.Select(t.Context(), w.want("other")); err != nil || len(paths) != 1 {
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
	// The wait is limited.
	w.m.config.Wait = time.Millisecond
	defer w.m.Ending(cloneKey, s.Paths)()
	if _, err := w.m.Select(t.Context(), nm); err != nil {
		t.Error(err)
	}
	w.m.config.Wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.m.Select(ctx, nm); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestClockSetBack checks that a head that was built at a time that is still to come is left out, and replaced by what the
// workspace leaves.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/a", "a") })
	now := w.m.config.Now
	w.m.config.Now = func() time.Time { return now().Add(-time.Hour) }
	w.run(nm, func(s *session) {
		s.has("nm")
		if p := s.Paths[0]; p.LeftOut != fromFuture || len(p.Chain) > 0 {
			t.Errorf("%+v", p)
		}
		s.write("nm/b", "b")
		s.touch("nm/b", w.m.config.Now())
		s.touch("nm", w.m.config.Now())
	})
	w.sees(nm, "nm", "b=b")
	if got := w.layers(); !slices.Equal(got, w.chain()) || len(got) != 1 {
		t.Errorf("layers %q, head %q", got, w.chain())
	}
}

// touch sets the time of a file or a directory.
func (s *session) touch(rel string, at time.Time) {
	s.t.Helper()
	if err := os.Chtimes(filepath.Join(s.dir, rel), at, at); err != nil {
		s.t.Fatal(err)
	}
}

// TestTimesToCome checks that a directory with a file that was written before the clock was set back is left out, as if it
// had been built then, and that one whose file has a time of a far future is not.
func TestTimesToCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, tt := range map[string]struct {
		ahead   time.Duration
		leftOut string
	}{
		"past":  {-time.Hour, ""},
		"clock": {10 * time.Minute, fromFuture},
		"zone":  {14 * time.Hour, fromFuture},
		"tool":  {75 * 365 * 24 * time.Hour, ""},
	} {
		want := w.want(path)
		w.run(want, func(s *session) {
			s.write(path+"/a", "a")
			s.touch(path+"/a", time.Now().Add(tt.ahead))
			s.write(path+"/b", "b")
		})
		w.run(want, func(s *session) {
			if p := s.Paths[0]; p.LeftOut != tt.leftOut || p.BuiltAt.After(time.Now()) {
				t.Errorf("%s: %+v", path, p)
			}
		})
	}
}
