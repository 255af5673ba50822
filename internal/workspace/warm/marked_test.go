package warm

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
)

// leave runs a workspace at a commit, which writes these files, and ends with a mark if label is not nil.
func (w *world) leave(want Want, commit string, label *string, files ...string) {
	w.t.Helper()
	w.run(want, func(s *session) {
		s.Commit = commit
		s.mark(label)
		for _, f := range files {
			s.write(f, commit)
		}
	})
}

func (s *session) mark(label *string) {
	if label != nil {
		s.Marked, s.Label = true, *label
	}
}

// state checks what a Mount finds at the only warm path.
func (w *world) state(when string, want Want, exact bool, commit, label string) State {
	w.t.Helper()
	list, err := w.m.States(w.t.Context(), want)
	if err != nil || len(list) != 1 {
		w.t.Fatalf("%s: %+v, %v", when, list, err)
	}
	s := list[0]
	if s.Path != want.Paths[0] || s.Exact != exact || s.Commit != commit || s.Label != label || s.BuiltAt.IsZero() != (commit == "") || exact && s.Why != "" {
		w.t.Errorf("%s: %+v, want exact %v, commit %q, label %q", when, s, exact, commit, label)
	}
	return s
}

// TestMarked checks that the end of a marked workspace makes what it has the state of its commit, whether it changed that or
// not, and that every other change takes the label away.
func TestMarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.at("1", "nm"), w.at("2", "nm")
	w.state("at first", one, false, "", "")
	w.leave(one, "c1", new("image 1"), "nm/a")
	first := w.state("made", one, true, "c1", "image 1")
	made := w.layers()
	w.leave(one, "c2", nil)
	if got := w.state("untouched", one, true, "c1", "image 1"); !got.BuiltAt.Equal(first.BuiltAt) {
		t.Errorf("built at %v, then %v", first.BuiltAt, got.BuiltAt)
	}
	w.leave(one, "c2", new("image 2"))
	if got := w.state("untouched and marked", one, true, "c2", "image 2"); !got.BuiltAt.After(first.BuiltAt) {
		t.Errorf("built at %v, then %v", first.BuiltAt, got.BuiltAt)
	}
	w.leave(one, "c3", new(""))
	w.state("untouched, and marked without a label", one, true, "c3", "")
	if got := w.layers(); !slices.Equal(got, made) {
		t.Errorf("layers %q, want %q", got, made)
	}
	w.sees(one, "nm", "a=c1")

	// Another one's state becomes its own.
	if got := w.state("of other files", two, false, "c3", ""); got.Why == "" {
		t.Errorf("%+v", got)
	}
	w.leave(two, "c4", new("image 4"))
	w.state("taken over", two, true, "c4", "image 4")
	w.state("that of others", one, true, "c3", "")
	topic := two
	topic.Ref = "refs/heads/topic"
	w.state("of the default branch", topic, false, "c4", "image 4")
	w.leave(topic, "c5", new("image 5"))
	w.state("of the branch", topic, true, "c5", "image 5")
	for _, h := range w.m.Heads(cloneKey) {
		if !slices.Equal(h.Chain, made) {
			t.Errorf("layers %q, want %q", h.Chain, made)
		}
	}
	w.restart("boot 1")
	w.sees(topic, "nm", "a=c1")
	w.state("after a restart", topic, true, "c5", "image 5")

	w.leave(topic, "c6", nil, "nm/b")
	w.state("changed without a mark", topic, true, "c6", "")
	w.leave(topic, "c7", new("image 7"), "nm/c")
	w.state("changed", topic, true, "c7", "image 7")

	// Nothing is a state too.
	none := w.want("none")
	w.leave(none, "c1", nil)
	w.state("nothing", none, false, "", "")
	w.leave(none, "c1", new("image"))
	w.state("marked nothing", none, true, "c1", "image")
	w.run(none, func(s *session) {
		if s.Paths[0].Chain != nil {
			t.Errorf("%+v", s.Paths)
		}
	})

	for _, h := range w.m.Heads(cloneKey) {
		if err := w.m.Evict(t.Context(), cloneKey, h.Key); err != nil {
			t.Error(err)
		}
	}
	if got := w.layers(); len(got) != 0 {
		t.Errorf("States holds the layers %q", got)
	}
}

// TestMarkedOvertaken checks that a marked workspace without changes does not move a head whose layers are others now.
func TestMarkedOvertaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.leave(nm, "c1", new("1"), "nm/a")
	late := w.open(nm)
	late.Commit = "late"
	late.mark(new("late"))
	w.leave(nm, "c2", new("2")) // the same layers: the last one counts
	w.leave(nm, "c3", nil, "nm/b")
	late.end()
	w.state("overtaken", nm, true, "c3", "")
	w.sees(nm, "nm", "a=c1", "b=c3")
	never := w.open(nm)
	never.mark(new("never"))
	never.Publish = false
	never.end()
	w.state("of one that publishes nothing", nm, true, "c3", "")
}

// TestInterrupted checks that nothing is promoted of what a crash has left of a promotion: a directory of the workspace may
// be gone, and the others don't fit what others find in its place.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, label := range []*string{nil, new("label")} {
		w := newWorld(t)
		both := w.want("dist", "nm", "same")
		w.leave(both, "c1", nil, "dist/a", "nm/a", "same/a")
		before := w.m.Heads(cloneKey)
		s := w.open(both)
		s.Commit = "c2"
		s.mark(label)
		s.write("dist/b", "2")
		s.write("nm/b", "2")
		detach(t, s.dir)
		if err := unix.Lsetxattr(s.Upper, movedAttr, nil, 0); err != nil {
			t.Fatal(err)
		}
		if err := w.m.config.Trash.Clear(filepath.Join(s.Upper, "dist"), "test", meta.Measured{}.Size); err != nil {
			t.Fatal(err)
		}
		s.end()
		if got := w.m.Heads(cloneKey); !reflect.DeepEqual(got, before) {
			t.Errorf("heads %+v, want %+v", got, before)
		}
		w.run(both, func(s *session) {
			s.has("", "README=tree", "dist/a=c1", "nm/a=c1", "same/a=c1", "web/package.json=tree")
		})
	}
}

// newEnded makes a world with a workspace that has ended with two warm directories, and that is not promoted yet.
func newEnded(t *testing.T) (*world, *session) {
	t.Helper()
	w := newWorld(t)
	s := w.open(w.want("dist", "nm"))
	s.write("dist/a", "1")
	s.write("nm/a", "1")
	detach(t, s.dir)
	return w, s
}

// TestFailedCommit checks that all directories are in the upper again if the database does not take the change, that
// none has left its project, because the upper would not take it back, and that the next try promotes them.
func TestFailedCommit(t *testing.T) {
	t.Parallel()
	w, s := newEnded(t)
	var gone []string
	s.Leave = func(_ context.Context, path string) error {
		gone = append(gone, path)
		return nil
	}
	before := inodes(t, s.Upper)
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.m.Promote(t.Context(), s.Ended); err == nil {
		t.Error("the change was made without a database")
	}
	if got := inodes(t, s.Upper); !maps.Equal(got, before) {
		t.Errorf("the upper has %v, want what the container left, %v", got, before)
	}
	if left, err := filepath.Glob(filepath.Join(w.root, "clones", cloneKey, "warm", "*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	if len(gone) > 0 {
		t.Errorf("%q have left the workspace", gone)
	}

	w.restart("boot 1")
	s.end()
	w.sees(w.want("dist", "nm"), "", "README=tree", "dist/a=1", "nm/a=1", "web/package.json=tree")
	layers, err := filepath.Glob(filepath.Join(w.root, "clones", cloneKey, "warm", "*", filesPart, "*"))
	if slices.Sort(gone); err != nil || !slices.Equal(gone, layers) {
		t.Errorf("%q have left the workspace, want %q, %v", gone, layers, err)
	}
}

// TestFailedUndo checks that what can't be renamed back to the upper is not removed: there is no other copy of it.
func TestFailedUndo(t *testing.T) {
	t.Parallel()
	w, s := newEnded(t)
	w.placing = func() {
		w.placing = nil
		w.mkdir(filepath.Join(s.Upper, "nm", "in the way"))
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.m.Promote(t.Context(), s.Ended); !errors.Is(err, os.ErrExist) {
		t.Errorf("%v, want why nm can't be renamed back", err)
	}
	if got, want := list(t, s.Upper), []string{"dist/a=1"}; !slices.Equal(got, want) {
		t.Errorf("the upper has %q, want %q", got, want)
	}
	left, err := filepath.Glob(filepath.Join(w.root, "clones", cloneKey, "warm", "*"))
	if err != nil || len(left) != 1 {
		t.Fatalf("%q are left, %v; want one", left, err)
	}
	if got, want := list(t, filepath.Join(left[0], filesPart)), []string{"nm/a=1"}; !slices.Equal(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
}

// TestTidyKeeps checks that a parent that the workspace removed stays removed if one of two paths below it is not promoted.
func TestTidyKeeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	both := w.want("gen/a", "gen/b")
	w.leave(both, "c1", nil, "gen/a/x", "gen/b/x")
	s, other := w.open(both), w.open(w.want("gen/b"))
	other.write("gen/b/y", "y")
	other.end()
	s.remove("gen")
	s.end()
	w.sees(w.want("gen/a"), "gen/a")
	w.sees(w.want("gen/b"), "gen/b", "x=c1", "y=y")
	if st, err := os.Lstat(filepath.Join(s.Upper, "gen")); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("gen is not removed in the upper any more: %v, %v", st, err)
	}
}

// TestMarkedReplaces checks that a marked workspace that began empty, because the head did not fit it, leaves nothing too.
func TestMarkedReplaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.leave(nm, "c1", nil, "nm/a")
	now := w.m.config.Now
	w.m.config.Now = func() time.Time { return now().Add(-time.Hour) }
	if got := w.state("left out", nm, false, "", ""); got.LeftOut != fromFuture || got.Never {
		t.Errorf("%+v", got)
	}
	w.leave(nm, "c2", new("2"))
	w.state("replaced", nm, true, "c2", "2")
	w.sees(nm, "nm")
}

// TestLostLayer checks that a head whose topmost layer is lost has the commit of the next one, and no label.
func TestLostLayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.leave(nm, "c1", new("1"), "nm/a")
	w.leave(nm, "c2", new("2"), "nm/b")
	if err := w.db.Update(func(tx *meta.Tx) error {
		return tx.PutLayer(meta.Layer{Kind: meta.WarmLayer, Clone: cloneKey, ID: w.chain()[0], Boot: "boot 1"})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 2")
	w.sees(nm, "nm", "a=c1")
	w.state("the layer below", nm, true, "c1", "")
}
