package clone

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

// shown lists the branches and tags that a container sees, in the format of there.
func (w *world) shown(s Spec) string {
	w.T.Helper()
	co := w.prepare(s)
	defer co.Release()
	dir := w.Mount(co.Lower, 0)
	if got := run(w.T, dir, 0, "status", "--porcelain"); got != "" {
		w.T.Errorf("status %q", got)
	}
	list := run(w.T, dir, 0, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", "refs/remotes", "refs/tags")
	var refs []string
	for line := range strings.SplitSeq(list, "\n") {
		if !strings.HasPrefix(line, "refs/remotes/origin/HEAD ") {
			refs = append(refs, strings.TrimSpace(strings.Replace(line, "refs/remotes/origin/", "refs/heads/", 1)))
		}
	}
	return strings.Join(refs, "\n")
}

// there lists the branches and tags of the remote.
func (w *world) there() string {
	w.T.Helper()
	var refs []string
	for line := range strings.SplitSeq(w.remote("for-each-ref", "--format=%(refname) %(objectname) %(*objectname)", "refs/heads", "refs/tags"), "\n") {
		refs = append(refs, strings.TrimSpace(line))
	}
	return strings.Join(refs, "\n")
}

// When refs of the remote change, except the volume's own, a mount shows at once those
// that need no fetch, and the rest after a fetch in the background.
func TestOtherRefs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []string
		fault   gitserver.Fault
	}{
		{"full", nil, nil},
		{"depth", []string{"depth", "1"}, nil},
		{"filter", []string{"filter", "blob:none"}, nil},
		{"protocol 0", nil, gitserver.ProtocolZero()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 2)
			t.Parallel()
			w := newWorld(t, "")
			if err := w.Server.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
				t.Fatal(err)
			}
			w.Server.Wrap(tt.fault)
			s := w.spec(append([]string{"ref", "main"}, tt.options...)...)
			w.remote("tag", "-a", "-m", "outer", "outer", "v1.0.0")
			if got, want := w.shown(s), w.there(); got != want {
				t.Fatalf("at first\n got %s\nwant %s", got, want)
			}
			w.idle(w.clone(s))
			x := w.remote("rev-parse", "feature/x")
			outer := w.remote("rev-parse", "outer")
			for _, step := range []struct {
				name  string
				do    func()
				fetch bool // its objects are to be fetched
			}{
				{"nothing", func() {}, false},
				{"deleted branch", func() { w.remote("update-ref", "-d", "refs/heads/feature/x") }, false},
				{"deleted tag", func() { w.remote("update-ref", "-d", "refs/tags/outer") }, false},
				{"branch at a known commit", func() { w.remote("update-ref", "refs/heads/feature/x", x) }, false},
				{"annotated tag that was there", func() { w.remote("update-ref", "refs/tags/outer", outer) }, false},
				{"tag moved to a known commit", func() { w.remote("tag", "-f", "nightly", x) }, false},
				{"directory in place of a branch", func() {
					w.remote("update-ref", "-d", "refs/heads/feature/x")
					w.remote("update-ref", "refs/heads/feature", x)
				}, false},
				{"new branch", func() { w.Push("new") }, true},
				{"pushed branch", func() { w.Push("new") }, true},
				{"new annotated tag", func() { w.remote("tag", "-a", "-m", "x", "v2", "new") }, true},
				{"one of each", func() {
					w.Push("another")
					w.remote("update-ref", "-d", "refs/heads/new")
					w.remote("branch", "back", x)
				}, true},
				{"force-pushed back", func() { w.remote("update-ref", "refs/heads/another", x) }, false},
			} {
				step.do()
				w.Server.Reset()
				got, want := w.shown(s), w.there()
				asked := w.Server.Stats("r").LsRefs
				if !step.fetch {
					if got != want {
						t.Errorf("%s:\n got %s\nwant %s", step.name, got, want)
					}
					if n := w.Server.Stats("r").Fetches; n > 0 {
						t.Errorf("%s: %d fetches, want none", step.name, n)
					}
					if tt.fault == nil && asked != 1 {
						t.Errorf("%s: %d questions, want 1", step.name, asked)
					}
					continue
				}
				if step.name == "one of each" && (strings.Contains(got, "refs/heads/new ") || !strings.Contains(got, "refs/heads/back ")) {
					t.Errorf("%s, at once: %s", step.name, got)
				}
				w.idle(w.clone(s))
				if got := w.shown(s); got != want {
					t.Errorf("%s, at the next mount:\n got %s\nwant %s", step.name, got, want)
				}
				w.idle(w.clone(s))
			}
			// All that lasts.
			w.remote("update-ref", "-d", "refs/tags/nightly")
			w.prepare(s).Release()
			w.idle(w.clone(s))
			w.restart("boot 1")
			w.Server.Reset()
			if got, want := w.shown(s), w.there(); got != want {
				t.Errorf("after a restart\n got %s\nwant %s", got, want)
			}
			if n := w.Server.Stats("r").Fetches; n > 0 {
				t.Errorf("after a restart: %d fetches, want none", n)
			}
			if !s.History.NoBlobs {
				run(t, w.clone(s).remote.StoreDir(s.History.Name()), testworld.Fetcher, "--git-dir=.", "fsck", "--connectivity-only")
			}
		})
	}
}

// fetchingOthers has the other refs of a new clone fetched. The fetch waits at the server until the gate opens.
func (w *world) fetchingOthers(s Spec) gate {
	w.T.Helper()
	w.prepare(s).Release()
	w.idle(w.clone(s))
	w.Push("new")
	g := newGate()
	w.Server.Wrap(gitserver.On(gitserver.Fetch, g.wrap))
	w.prepare(s).Release()
	<-g.arrived
	return g
}

// A mount does not wait for the fetch of other refs, nor do mounts that come meanwhile.
func TestOtherRefsDoNotBlock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	g := w.fetchingOthers(s)
	w.prepare(s).Release()
	w.Push("newer")
	w.prepare(s).Release()
	if n := len(g.arrived); n != 0 {
		t.Errorf("%d more fetches began", n)
	}
	close(g.open)
	wait.For(t, "new and newer", func() error { return wait.Equal(w.shown(s), w.there()) })
}

// A remote lists refs that it does not have. Mounts succeed, and not each of them repeats
// the fetch that fails.
func TestOtherRefsMissingAtRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	w.idle(c)
	main := w.remote("rev-parse", "main")
	advertise := func(refs ...gitserver.Ref) {
		w.Server.Wrap(gitserver.Advertise(slices.Values(append([]gitserver.Ref{
			{ID: main, Name: "HEAD", Target: "refs/heads/main"}, {ID: main, Name: "refs/heads/main"},
		}, refs...))))
	}
	advertise(gitserver.Ref{ID: strings.Repeat("1", 40), Name: "refs/heads/gone"}, gitserver.Ref{ID: main, Name: "refs/tags/known"})
	for _, want := range []int{2, 0, 0} { // the plugin asks for the missing ref, and then git
		w.Server.Reset()
		if got, want := w.shown(s), "refs/heads/main "+main+"\nrefs/tags/known "+main; got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
		w.idle(c)
		if _, fetches, _ := w.requests(); fetches != want {
			t.Errorf("%d fetches, want %d", fetches, want)
		}
	}
	w.Advance(2 * time.Minute)
	w.Server.Reset()
	w.prepare(s).Release()
	w.idle(c)
	// The plugin asks for the refs that were listed, and then git fetches all that there are.
	if _, fetches, _ := w.requests(); fetches != 2 {
		t.Errorf("%d fetches after two minutes, want 2", fetches)
	}
	// Names that collide, or that git does not store, change nothing.
	for _, refs := range [][]gitserver.Ref{
		{{ID: main, Name: "refs/heads/a"}, {ID: main, Name: "refs/heads/a/b"}},
		{{ID: main, Name: "refs/heads/a..b"}},
		{{ID: main, Name: "refs/heads/a\n" + main + " refs/heads/b"}},
		{{ID: w.remote("rev-parse", "main^{tree}"), Name: "refs/heads/tree"}},
	} {
		advertise(append(refs, gitserver.Ref{ID: main, Name: "refs/tags/known"})...)
		if got, want := w.shown(s), "refs/heads/main "+main+"\nrefs/tags/known "+main; got != want {
			t.Errorf("%+v: got %s\nwant %s", refs, got, want)
		}
		w.idle(c)
	}
}

// A mount of a repository with many refs waits only for an answer about the volume's own.
func TestManyOtherRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	w.manyBranches(3000)
	w.prepare(s).Release()
	w.idle(w.clone(s))
	gate := gitserver.NewGate()
	w.wrapListings(gate.Fault)
	defer close(gate.Open)
	w.Server.Reset()
	w.prepare(s).Release()
	if got := w.Server.Stats("r"); got.BytesOut > 4<<10 || got.Fetches > 0 {
		t.Errorf("%+v: a mount with nothing new asked for more than its ref", got)
	}
	if got, want := w.shown(s), w.there(); got != want {
		t.Errorf("got %d bytes of refs, want %d", len(got), len(want))
	}
}

// A warm mount without changes reads no refs of the store.
func TestOtherRefsAreNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	w.idle(c)
	w.Server.Reset()
	packed := filepath.Join(c.remote.StoreDir("full"), "packed-refs")
	if err := os.Rename(packed, packed+".aside"); err != nil {
		t.Fatal(err)
	}
	w.prepare(s).Release()
	if l, f, _ := w.requests(); l != 1 || f != 0 {
		t.Errorf("%d questions and %d fetches, want 1 and 0", l, f)
	}
}

// The refs on disk differ from the record, because the plugin died after it wrote them.
func TestOtherRefsAfterCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	w.idle(c)
	packed := filepath.Join(c.remote.StoreDir("full"), "packed-refs")
	data, err := os.ReadFile(packed)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for line := range strings.SplitAfterSeq(string(data), "\n") {
		if !strings.Contains(line, "refs/heads/feature/x") {
			kept = append(kept, line)
		}
	}
	w.remote("update-ref", "-d", "refs/heads/feature/x")
	if err := os.WriteFile(packed, []byte(strings.Join(kept, "")), 0o644); err != nil {
		t.Fatal(err)
	}
	w.restart("boot 1")
	if got, want := w.shown(s), w.there(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// After the clock was set back, the remote is asked with refresh=always, and with an
// interval, because the elapsed time is unknown.
func TestClockWentBack(t *testing.T) {
	t.Parallel()
	for _, refresh := range []string{"always", "10m"} {
		t.Run(refresh, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "")
			s := w.spec("ref", "main", "refresh", refresh)
			w.prepare(s).Release()
			want := w.Push("main")
			w.Advance(-time.Hour)
			co := w.prepare(s)
			defer co.Release()
			if got := co.Resolution.Commit; got != want {
				t.Errorf("at %s, want %s", got, want)
			}
		})
	}
}

// The ref moves before each tree is built.
func TestRefMovesBeforeEachBuild(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	path := w.Server.Path("large")
	if _, err := gitserver.Generate(path, gitserver.Spec{Seed: 2, Files: 1500, Commits: 1}); err != nil {
		t.Fatal(err)
	}
	s := w.spec("repo", w.Server.URL("large"), "ref", "main")
	c := w.clone(s)
	stop, moved := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(moved)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// No tree can be built on the one before.
			if _, err := gitserver.Commit(path, "main", gitserver.Change{Path: ".gitattributes", Content: fmt.Sprintln("*.x", i)}); err != nil {
				t.Error(err)
				return
			}
			if _, err := c.Refresh(t.Context(), s); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	co, err := c.Prepare(t.Context(), s)
	close(stop)
	<-moved
	if err != nil {
		t.Fatal(err)
	}
	defer co.Release()
	dir := w.Mount(co.Lower, 0)
	if got := run(t, dir, 0, "rev-parse", "HEAD"); got != co.Resolution.Commit {
		t.Errorf("HEAD is %s, want %s", got, co.Resolution.Commit)
	}
	if got := run(t, dir, 0, "status", "--porcelain", "--branch"); got != "## main...origin/main" {
		t.Errorf("status %q, want it clean and at its upstream", got)
	}
	run(t, dir, 0, "fsck", "--strict", "--connectivity-only")
}
