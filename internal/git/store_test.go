package git

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitserver"
)

// names returns the names of a store's refs.
func names(t *testing.T, store string) []string {
	t.Helper()
	refs, err := new(Git).Refs(store)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, r := range refs {
		list = append(list, r.Name)
	}
	return list
}

func TestFetch(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	dir := store(t, g)
	var last gitprogress.Progress
	f := Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything, Prune: true, Progress: func(p gitprogress.Progress) { last = p }}
	fetch := func() {
		t.Helper()
		if err := g.Fetch(t.Context(), f); err != nil {
			t.Fatal(err)
		}
		want := gitAt(t, s.Path("r"), "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
		if got := gitAt(t, dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags"); got != want {
			t.Errorf("refs\n got %s\nwant %s", got, want)
		}
		if got := len(names(t, dir)); got != len(strings.Split(want, "\n")) {
			t.Errorf("%d packed refs, want %d", got, len(strings.Split(want, "\n")))
		}
	}
	fetch()
	if last.Phase == "" {
		t.Error("no progress was reported")
	}
	bare := s.Path("r")
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"nothing new", func() {}},
		{"a branch in place of a directory of branches", func() {
			gitAt(t, bare, "branch", "-D", "feature/x")
			gitAt(t, bare, "branch", "feature", "main~1")
		}},
		{"a directory of branches in place of a branch", func() {
			gitAt(t, bare, "branch", "-D", "feature")
			gitAt(t, bare, "branch", "feature/x/deep", "main~2")
		}},
		{"a moved tag", func() { gitAt(t, bare, "tag", "-f", "-a", "-m", "again", "v1.0.0", "main~1") }},
		{"a tag like a branch", func() { gitAt(t, bare, "tag", "main", "main~1") }},
		{"a force push", func() {
			gitAt(t, bare, "update-ref", "refs/heads/main", gitAt(t, bare, "rev-parse", "refs/heads/main~2"))
		}},
		{"a few small objects", func() {
			if _, err := gitserver.Commit(bare, "main", gitserver.Change{Path: "new", Content: "new"}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		step.do()
		fetch()
		if t.Failed() {
			t.Fatalf("after %s", step.name)
		}
	}
	// Git layers hard-link packs only, so no object may be loose.
	loose, err := filepath.Glob(filepath.Join(dir, "objects/[0-9a-f][0-9a-f]"))
	if err != nil || len(loose) > 0 {
		t.Errorf("loose objects: %v, %v", loose, err)
	}
	// A ref that was fetched by its name is not pruned by fetches that do not name it.
	gitAt(t, bare, "update-ref", "refs/pull/7/head", "nightly")
	extra := f
	extra.Refspecs = append(slices.Clone(everything), "+refs/pull/7/head:refs/pull/7/head")
	if err := g.Fetch(t.Context(), extra); err != nil {
		t.Fatal(err)
	}
	if err := g.Fetch(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(names(t, dir), "refs/pull/7/head") {
		t.Error("refs/pull/7/head was pruned")
	}
}

func TestFailedFetchLeavesNothing(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for _, tt := range []struct {
		name     string
		fault    func(http.Handler) http.Handler
		refspecs []string
		want     giterror.Kind
	}{
		{"cut at the start of the pack", onFetch(gitserver.Cut(200)), everything, giterror.KindServer},
		{"cut within the pack", onFetch(gitserver.Cut(60000)), everything, giterror.KindServer},
		{"500 at the pack", onFetch(gitserver.Fail(500)), everything, giterror.KindServer},
		{"no such ref", nil, []string{"+refs/pull/9/head:refs/pull/9/head"}, giterror.KindRefNotFound},
		{"no such commit", nil, []string{"+" + strings.Repeat("1", 40) + ":refs/x/y"}, giterror.KindRefNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := remote(t)
			s.Wrap(tt.fault)
			dir := store(t, g)
			err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: tt.refspecs})
			if got := giterror.KindOf(err); got != tt.want {
				t.Errorf("%v: kind %q, want %q", err, got, tt.want)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			s.Wrap(nil)
			if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
				t.Errorf("the next fetch: %v", err)
			}
		})
	}
}

// onFetch applies a fault to all POST requests after the first, which is ls-refs. Their answers
// have the pack.
func onFetch(fault func(http.Handler) http.Handler) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		posts := 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if r.Method == http.MethodPost {
				posts++
			}
			faulty := posts > 1
			mu.Unlock()
			if faulty {
				fault(next).ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// TestStoppedFetch ends the context while the server is silent, before its first answer and in
// the middle of a pack.
func TestStoppedFetch(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before int // bytes of each answer that arrive
		cause  error
		want   giterror.Kind
	}{
		{"cancelled at the question", 0, context.Canceled, giterror.KindCanceled},
		{"out of time in the pack", 40000, context.DeadlineExceeded, giterror.KindTimeout},
	} {
		g, s := newGit(t), remote(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		dir := store(t, g)
		ran := func() []string { return processes(fetcher, dir, s.URL("r")) }
		stop := func() {
			if len(ran()) == 0 {
				t.Errorf("%s: no process is found while it runs", tt.name)
			}
			cancel(tt.cause)
		}
		silent := func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.before > 0 {
					next.ServeHTTP(&stopper{ResponseWriter: w, left: tt.before, r: r, reached: stop}, r)
					return
				}
				stop()
				<-r.Context().Done()
			})
		}
		s.Wrap(silent)
		err := g.Fetch(ctx, Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything})
		cancel(nil)
		if got := giterror.KindOf(err); got != tt.want {
			t.Errorf("%s: %v: kind %q, want %q", tt.name, err, got, tt.want)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("%s: left %q", tt.name, left)
		}
		if left := ran(); len(left) > 0 {
			t.Errorf("%s: still running: %q", tt.name, left)
		}
	}
}

// stopper sends the first bytes of an answer, and then waits until the client hangs up.
type stopper struct {
	http.ResponseWriter
	r       *http.Request
	left    int
	reached func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if s.left -= len(p); s.left > 0 {
		return s.ResponseWriter.Write(p)
	}
	_ = http.NewResponseController(s.ResponseWriter).Flush()
	s.reached()
	<-s.r.Context().Done()
	return 0, context.Cause(s.r.Context())
}

func TestSweepStore(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	dir := store(t, g)
	f := Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}
	if err := g.Fetch(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	before := gitAt(t, dir, "for-each-ref")
	for _, name := range []string{
		"packed-refs.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_abc", "objects/pack/tmp_idx_abc", "shallow.lock", "config.lock",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := SweepStore(dir); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if got := gitAt(t, dir, "for-each-ref"); got != before {
		t.Errorf("refs\n got %s\nwant %s", got, before)
	}
	gitAt(t, dir, "fsck", "--strict")
}

func TestCommit(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	dir := store(t, g)
	if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
		t.Fatal(err)
	}
	rev := func(name string) string { return gitAt(t, s.Path("r"), "rev-parse", name) }
	main := rev("refs/heads/main")
	for _, tt := range []struct{ name, rev, want string }{ // an empty want means not found
		{"full", main, main},
		{"abbreviated", main[:7], main},
		{"annotated tag's object", rev("v1.0.0"), rev("v1.0.0^{}")},
		{"tree", rev("main^{tree}"), ""},
		{"blob", rev("main:README.md"), ""},
		{"missing", strings.Repeat("1", 40), ""},
		{"missing abbreviation", "1111111", ""},
		{"option", "--all", ""},
	} {
		id, ok, err := g.Commit(t.Context(), dir, tt.rev)
		if err != nil || id != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v, %v; want %q", tt.name, id, ok, err, tt.want)
		}
	}
	if _, _, err := g.Commit(t.Context(), filepath.Dir(dir), main); err == nil {
		t.Error("no error for a directory that is not a store")
	}
}
