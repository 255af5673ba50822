package warm

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// TestGenerations checks that each workspace has the files that the previous one left,
// whether that one changed, replaced or removed what it got.
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
			t.Errorf("the workspace uses %d layers, want 2", got)
		}
	})
	w.sees(nm, "node_modules", second...)
	if got := len(w.chain()); got != 2 {
		t.Errorf("a workspace that wrote nothing moved the head: %d layers", got)
	}
	w.run(nm, func(s *session) { // removed and made again
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

// TestHardLinksOfALayerSplit checks that two names of one file become two files when one of
// them is written in place, as docs/warm-directories.md says. Replacing a name has no effect on the other.
// (With index=on the names would stay one file, but only in that workspace, because what it
// promotes has no index. Also, the file would have a name outside of the upper, so it would
// not be carried over, and the kernel could not say whether the upper is in use.)
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
		s.write("nm/a", "2") // both names, in the workspace that linked them
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

// TestUpperAfterwards checks that a promotion leaves only the workspace's changes outside of
// the warm paths in the upper.
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
	// Removing a parent removes the warm path.
	w.run(w.want("web/dist"), func(s *session) { s.write("web/dist/y", "y") })
	w.run(w.want("web/dist"), func(s *session) { s.has("web/dist", "y=y"); s.remove("web"); s.write("web/z", "z") })
	w.sees(w.want("web/dist"), "web", "package.json=tree")
	// A warm path in a parent that was made again has no layers below.
	w.run(w.want("web/dist"), func(s *session) { s.write("web/dist/y", "y") })
	w.run(w.want("web/dist"), func(s *session) { s.remove("web"); s.write("web/dist/z", "z") })
	w.sees(w.want("web/dist"), "web", "dist/z=z", "package.json=tree")
}

// TestParents checks that the parents of a warm path have the mode and owner of a checkout's.
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
		st, err := upfile.Stat(unix.AT_FDCWD, filepath.Join(s.dir, dir))
		if err != nil || st.Mode&0o7777 != 0o755 || st.Uid != user || st.Gid != user {
			t.Errorf("%s: mode %o, owner %d:%d, %v", dir, st.Mode, st.Uid, st.Gid, err)
		}
	}
}

// TestCompareAndSwap checks that of two workspaces with the same head the first to end wins.
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
	if got := list(t, a.Upper); !slices.Equal(got, []string{"nm/a=a"}) {
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
	// An evicted head counts as moved.
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

// TestUnpublished checks that a workspace changes nothing for others if it is not to be published, and keeps what it has.
func TestUnpublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	quiet := func(f func(s *session), want ...string) {
		t.Helper()
		s := w.open(nm)
		s.Publish = false
		f(s)
		s.end()
		if got := list(t, s.Upper); !slices.Equal(got, want) {
			t.Errorf("the upper has %q, want %q", got, want)
		}
	}
	quiet(func(s *session) { s.write("nm/evil", "e") }, "nm/evil=e")
	w.sees(nm, "nm")
	w.run(nm, func(s *session) { s.write("nm/a", "a") })
	quiet(func(s *session) { s.has("nm", "a=a"); s.write("nm/evil", "e") }, "nm/evil=e")
	quiet(func(s *session) { s.remove("nm") }, "nm")
	w.sees(nm, "nm", "a=a")
}

// TestHeadsMoveTogether checks that nobody sees the new state of one warm path with the old one of another, also if one has
// hard links to files of the cache, and that one path that can't be promoted does not keep the others back.
func TestHeadsMoveTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := w.want("dist", "nm", "none", "same")
	stored := filepath.Join(cache.Mount, "pnpm/v10/files/00/11")
	leave := func(commit string) *session {
		s := w.open(want)
		base, err := w.m.Cache(t.Context(), cloneKey, user, user)
		if err != nil {
			t.Fatal(err)
		}
		s.Paths = append(s.Paths, base)
		s.Commit = commit
		s.mark(new(commit))
		s.write("dist/x", commit)
		s.write("none/x", commit)
		s.write("nm/x", commit)
		if commit == "c3" {
			s.remove("none")
		}
		s.write(stored+commit, commit)
		if err := os.Link(filepath.Join(s.dir, stored+commit), filepath.Join(s.dir, "nm", commit)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	leave("c1").end()
	for _, commit := range []string{"c2", "c3"} {
		s := leave(commit)
		var seen sync.WaitGroup
		var ended atomic.Bool
		seen.Go(func() {
			for !ended.Load() {
				var commits []string
				for _, h := range w.m.Heads(cloneKey) {
					commits = append(commits, h.Commit)
				}
				if len(slices.Compact(commits)) != 1 {
					t.Errorf("heads of the commits %q at one time", commits)
					return
				}
			}
		})
		s.end()
		ended.Store(true)
		seen.Wait()
		if got := w.m.Heads(cloneKey)[0].Commit; got != commit {
			t.Errorf("the heads are of %q, want %q", got, commit)
		}
	}
	a, b := leave("c4"), w.open(want)
	b.Commit = "overtakes"
	b.write("nm/y", "overtakes")
	b.end()
	a.end()
	w.run(want, func(s *session) {
		s.has("", "README=tree", "dist/x=c4", "nm/c1=c1", "nm/c2=c2", "nm/c3=c3", "nm/x=c3", "nm/y=overtakes", "none/x=c4", "web/package.json=tree")
	})
}

// TestFilesWithoutData checks that files whose mode, times, name or links alone were changed are carried over with their
// data, which is in a layer below.
func TestFilesWithoutData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	nm := w.want("nm")
	at := time.Unix(1_000_000_000, 5)
	w.run(nm, func(s *session) {
		for _, name := range []string{"mode", "owner", "times", "name", "linked", "same"} {
			s.write("nm/"+name, name)
		}
	})
	w.write(filepath.Join(w.tree, "src/code"), "tree")
	w.run(nm, func(s *session) {
		at := at
		path := func(name string) string { return filepath.Join(s.dir, name) }
		for _, err := range []error{
			os.Chmod(path("nm/mode"), 0o755|os.ModeSetuid), os.Chown(path("nm/owner"), 7, 8), os.Chtimes(path("nm/times"), at, at),
			os.Rename(path("nm/name"), path("nm/renamed")), os.Link(path("nm/linked"), path("nm/link")),
			os.Rename(path("src/code"), path("nm/from-the-tree")),
		} {
			if err != nil {
				t.Error(err)
			}
		}
		for _, name := range []string{"mode", "owner", "times", "renamed", "link", "from-the-tree"} {
			if _, ok, err := upfile.Attribute(filepath.Join(s.Upper, "nm", name), upfile.MetacopyAttr); err != nil || !ok {
				t.Fatalf("%s has data in the upper: %v", name, err)
			}
		}
	})
	if got := len(w.layers()); got != 2 {
		t.Fatalf("%d layers, want 2", got)
	}
	w.run(nm, func(s *session) {
		s.has("nm", "from-the-tree=tree", "link=linked", "linked=linked", "mode=mode", "owner=owner", "renamed=name", "same=same", "times=times")
		mode, err1 := upfile.Stat(unix.AT_FDCWD, filepath.Join(s.dir, "nm/mode"))
		owner, err2 := upfile.Stat(unix.AT_FDCWD, filepath.Join(s.dir, "nm/owner"))
		times, err3 := upfile.Stat(unix.AT_FDCWD, filepath.Join(s.dir, "nm/times"))
		if mode.Mode&0o7777 != 0o4755 || owner.Uid != 7 || owner.Gid != 8 || times.Mtim.Nano() != at.UnixNano() {
			t.Errorf("mode %o, owner %d, time %d (%v, %v, %v)", mode.Mode, owner.Uid, times.Mtim.Nano(), err1, err2, err3)
		}
	})
}
