package warm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
)

// TestGenerations: what a workspace left is what the next one finds, whatever it
// did to what it had found.
func TestGenerations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("node_modules")
	w.run(nm, func(s *session) {
		s.has("node_modules")
		s.write("node_modules/a/index.js", "a1")
		s.write("node_modules/b/index.js", "b1")
		s.write("node_modules/b/lib/x.js", "x1")
		s.write("node_modules/c/index.js", "c1")
		s.write("other", "reset")
	})
	w.run(nm, func(s *session) {
		s.has("", "README=tree", "node_modules/a/index.js=a1", "node_modules/b/index.js=b1", "node_modules/b/lib/x.js=x1",
			"node_modules/c/index.js=c1", "web/package.json=tree")
		s.write("node_modules/a/index.js", "a2") // changed
		s.remove("node_modules/b")               // replaced
		s.write("node_modules/b/new.js", "b2")
		s.remove("node_modules/c") // removed
		s.write("node_modules/d/index.js", "d2")
	})
	second := []string{"a/index.js=a2", "b/new.js=b2", "d/index.js=d2"}
	w.run(nm, func(s *session) {
		s.has("node_modules", second...)
		if got := len(s.Paths[0].Chain); got != 2 {
			t.Errorf("it stands on %d layers", got)
		}
	})
	w.sees(nm, "node_modules", second...)
	if got := len(w.chain()); got != 2 {
		t.Errorf("a workspace that wrote nothing moved the head: %d layers", got)
	}
	w.run(nm, func(s *session) { // removed, and made anew
		s.remove("node_modules")
		s.write("node_modules/e", "e3")
	})
	w.sees(nm, "node_modules", "e=e3")
	if got := w.layers(); !slices.Equal(got, w.chain()) || len(got) != 1 {
		t.Errorf("layers %q, head %q", got, w.chain())
	}
	w.run(nm, func(s *session) { s.remove("node_modules") })
	w.sees(nm, "node_modules")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q of an empty head", got)
	}
	w.run(nm, func(s *session) { s.write("node_modules/f", "f4") })
	w.sees(nm, "node_modules", "f=f4")
}

// TestHardLinksOfALayerSplit: two names of one file are two files once one of them is
// written to in place, as the README says. What is replaced is not concerned. (With
// index=on they would stay one in that workspace alone: what it promotes has no
// index. The file would have a name outside of the upper too, so it would be
// dropped; and the kernel would not say any more whether the upper is in use.)
func TestHardLinksOfALayerSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	link := func(s *session, name string) {
		t.Helper()
		if err := os.Link(filepath.Join(s.dir, "nm/a"), filepath.Join(s.dir, "nm", name)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(nm, func(s *session) {
		s.write("nm/a", "1")
		link(s, "b")
		s.write("nm/a", "2") // both, in the workspace that has linked them
		s.has("nm", "a=2", "b=2")
	})
	w.run(nm, func(s *session) {
		s.has("nm", "a=2", "b=2")
		s.write("nm/a", "3")
		s.has("nm", "a=3", "b=2")
		link(s, "c")
	})
	w.run(nm, func(s *session) {
		s.has("nm", "a=3", "b=2", "c=3")
		s.remove("nm/a")
		s.write("nm/a", "4")
	})
	w.sees(nm, "nm", "a=4", "b=2", "c=3")
}

// TestUpperAfterwards: warm paths are no changes of the workspace's, the rest is.
func TestUpperAfterwards(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, f := range []func(s *session){
		func(s *session) { s.write("web/dist/x", "x") },
		func(s *session) { s.remove("web/dist") },
	} {
		s := w.open(w.want("web/dist"))
		f(s)
		s.write("web/mine", "m")
		s.end()
		if got := list(t, s.Upper); !slices.Equal(got, []string{"web/mine=m"}) {
			t.Errorf("%d: the upper has %q", i, got)
		}
	}
	// What lies below a directory that is gone is gone.
	w.run(w.want("web/dist"), func(s *session) { s.write("web/dist/y", "y") })
	w.run(w.want("web/dist"), func(s *session) { s.has("web/dist", "y=y"); s.remove("web"); s.write("web/z", "z") })
	w.sees(w.want("web/dist"), "web", "package.json=tree")
	// One in a directory that was made anew stands alone.
	w.run(w.want("web/dist"), func(s *session) { s.write("web/dist/y", "y") })
	w.run(w.want("web/dist"), func(s *session) { s.remove("web"); s.write("web/dist/z", "z") })
	w.sees(w.want("web/dist"), "web", "dist/z=z", "package.json=tree")
}

// TestParents: the directories that a warm path is in look as in the tree.
func TestParents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.Chown(filepath.Join(w.tree, "web"), user, user); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		w.run(w.want("web/dist", "gen/a/b"), func(s *session) {
			s.write("web/dist/x", "x")
			s.write("gen/a/b/y", "y")
		})
	}
	s := w.open(w.want("web/dist", "gen/a/b"))
	defer s.end()
	s.has("gen", "a/b/y=y")
	for _, dir := range []string{"web", "gen", "gen/a"} {
		st, err := stat(unix.AT_FDCWD, filepath.Join(s.dir, dir))
		if err != nil || st.Mode&0o7777 != 0o755 || st.Uid != user || st.Gid != user {
			t.Errorf("%s: mode %o, owner %d:%d, %v", dir, st.Mode, st.Uid, st.Gid, err)
		}
	}
}

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

// TestCompareAndSwap: of two that start from one head the first to end wins.
func TestCompareAndSwap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	a, b := w.open(nm), w.open(nm)
	a.write("nm/a", "a")
	b.write("nm/b", "b")
	b.end()
	a.end()
	w.sees(nm, "nm", "b=b")
	if got := list(t, a.Upper); len(got) != 0 {
		t.Errorf("the loser's upper has %q", got)
	}
	a, b = w.open(nm), w.open(nm)
	a.remove("nm")
	b.write("nm/c", "c")
	b.end()
	a.end()
	w.sees(nm, "nm", "b=b", "c=c")
	if got := w.layers(); len(got) != 2 {
		t.Errorf("layers %q", got)
	}
	// A head that was evicted is not where they found it.
	a = w.open(nm)
	a.write("nm/d", "d")
	if err := w.m.Evict(t.Context(), cloneKey, w.m.Heads(cloneKey)[0].Key); err != nil {
		t.Fatal(err)
	}
	a.end()
	w.sees(nm, "nm")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	readonly := nm
	readonly.ReadOnly = true
	w.run(readonly, func(s *session) { s.write("nm/evil", "e") })
	w.sees(nm, "nm")
	w.run(nm, func(s *session) { s.write("nm/a", "a") })
	w.run(readonly, func(s *session) { s.has("nm", "a=a"); s.write("nm/evil", "e") })
	s := w.open(readonly)
	s.remove("nm")
	s.end()
	if got := list(t, s.Upper); len(got) != 0 {
		t.Errorf("the upper has %q", got)
	}
	w.sees(nm, "nm", "a=a")
}

// TestHeld: what a workspace stands on stays while it does.
func TestHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	old := w.open(nm)
	w.run(nm, func(s *session) { s.remove("nm"); s.write("nm/a", "2") })
	if h := w.m.Heads(cloneKey)[0]; h.Held || h.Size.Inodes == 0 || h.Used.IsZero() {
		t.Errorf("head %+v", h)
	}
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers", got)
	}
	old.has("nm", "a=1")
	// It is held by its record after a restart.
	w.restart("boot 1")
	w.m.Hold(cloneKey, old.Paths)
	if err := w.m.SweepAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := len(w.layers()); got != 2 {
		t.Errorf("%d layers after a restart", got)
	}
	old.end()
	if got := w.layers(); !slices.Equal(got, w.chain()) {
		t.Errorf("layers %q, head %q", got, w.chain())
	}
	s := w.open(nm)
	if h := w.m.Heads(cloneKey)[0]; !h.Held {
		t.Errorf("head %+v", h)
	}
	s.has("nm", "a=2")
	s.end()
	_, undo := w.m.Evicting(cloneKey)
	undo()
	heads := w.m.Heads(cloneKey)
	if len(heads) != 1 {
		t.Fatalf("%d heads after an eviction that failed, want 1", len(heads))
	}
	if size := w.m.Size(cloneKey); size != heads[0].Size || size.Inodes == 0 {
		t.Errorf("a clone's warm layers take %+v, want %+v", size, heads[0].Size)
	}
	del, _ := w.m.Evicting(cloneKey)
	layers := w.m.Set(cloneKey)
	if err := layers.Forget(layers.List(), del, del); err != nil { // a transaction may be tried again
		t.Fatal(err)
	}
	w.sees(nm, "nm")
	if state := w.records(); len(w.layers())+len(state.WarmHeads)+len(state.WarmLayers) > 0 || w.m.Size(cloneKey).Inodes != 0 {
		t.Errorf("left: %q, %+v, %+v", w.layers(), state.WarmHeads, state.WarmLayers)
	}
}

// TestEvictedCountsAtOnce: what goes with a head is in the trash with its size.
func TestEvictedCountsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	w.run(nm, func(s *session) { s.write("nm/b", "2") })
	h, before := w.m.Heads(cloneKey)[0], w.m.Trash.Stats()
	if err := w.m.Evict(t.Context(), cloneKey, h.Key); err != nil {
		t.Fatal(err)
	}
	after := w.m.Trash.Stats()
	if got := after.Size.Sub(before.Size); got != h.Size || got.Inodes == 0 || after.Unmeasured != before.Unmeasured {
		t.Errorf("%+v more in the trash, want the head's %+v", got, h.Size)
	}
}

// TestRestart: what the database says is there again; what was not on disk when
// the machine went down is not, and what lies below it is.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	for i := range 3 {
		w.run(nm, func(s *session) { s.write(fmt.Sprintf("nm/%d", i), "x") })
	}
	w.restart("boot 1")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	w.restart("boot 2")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	chain := w.chain()
	if err := w.db.Update(func(tx *meta.Tx) error {
		return tx.PutLayer(meta.Layer{Kind: meta.WarmLayer, Clone: cloneKey, ID: chain[1], Boot: "boot 2"})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 2")
	w.sees(nm, "nm", "0=x", "1=x", "2=x")
	if err := w.db.Update(func(tx *meta.Tx) error {
		return tx.PutLayer(meta.Layer{Kind: meta.WarmLayer, Clone: cloneKey, ID: chain[1], Boot: "boot 1"})
	}); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 3")
	w.sees(nm, "nm", "0=x")
	if got := w.layers(); !slices.Equal(got, chain[2:]) {
		t.Errorf("layers %q, want %q", got, chain[2:])
	}
	// Directories that are gone, and strange ones.
	w.mkdir(w.dirOf("stranger"), filepath.Join(w.dirOf(".tmp-1"), "nm"))
	if err := os.RemoveAll(w.dirOf(chain[2])); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 3")
	w.sees(nm, "nm")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
	}
	if state := w.records(); len(state.WarmHeads)+len(state.WarmLayers) > 0 {
		t.Errorf("left: %+v, %+v", state.WarmHeads, state.WarmLayers)
	}
}

// TestLostDatabase: workspaces that are found keep their layers, and publish nothing
// that lies on them.
func TestLostDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	topic := nm
	topic.Ref = "refs/heads/topic"
	w.run(nm, func(s *session) { s.write("nm/a", "1") })
	s, other := w.open(nm), w.open(topic)
	w.stop()
	if err := os.Remove(filepath.Join(w.root, "meta.db")); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	w.m.Hold(cloneKey, s.Paths)
	w.m.Hold(cloneKey, other.Paths)
	w.sees(nm, "nm")
	if got := len(w.layers()); got != 1 {
		t.Errorf("%d layers while workspaces stand on one", got)
	}
	for _, s := range []*session{s, other} {
		s.has("nm", "a=1")
		s.write("nm/b", "2")
		s.end()
	}
	w.sees(nm, "nm")
	w.sees(topic, "nm")
	if got := w.layers(); len(got) != 0 {
		t.Errorf("layers %q", got)
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
