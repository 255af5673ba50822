package git

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitprogress"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// fetched returns a store with all of the remote's branches and tags, and their objects.
func fetched(t *testing.T, g *Git, s *gitserver.Server) (dir string, haves []string) {
	t.Helper()
	dir = store(t, g)
	if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
		t.Fatal(err)
	}
	refs, err := g.Refs(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refs {
		haves = append(haves, r.ID)
	}
	return dir, haves
}

// ask asks, so that FetchPack knows the server.
func ask(t *testing.T, g *Git, s *gitserver.Server) {
	t.Helper()
	if _, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r")}, "refs/heads/"); err != nil {
		t.Fatal(err)
	}
}

// push adds a commit to main and returns its ID.
func push(t *testing.T, s *gitserver.Server, content string) string {
	t.Helper()
	id, err := gitserver.Commit(s.Path("r"), "main", gitserver.Change{Path: "new", Content: content})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestFetchPack(t *testing.T) {
	t.Parallel()
	withBothGits(t, func(t *testing.T, g *Git) {
		s := remote(t)
		bare := s.Path("r")
		dir, haves := fetched(t, g, s)
		ask(t, g, s)
		for _, step := range []struct {
			name string
			want func() string
			err  error
		}{
			{"a commit", func() string { return push(t, s, "1") }, nil},
			{"an annotated tag of a commit", func() string {
				gitAt(t, bare, "tag", "-a", "-m", "x", "new", push(t, s, "2"))
				return gitAt(t, bare, "rev-parse", "new")
			}, nil},
			{"a commit on an old one", func() string {
				return gitAt(t, bare, "commit-tree", "-p", "main~3", "-m", "x", push(t, s, "3")+"^{tree}")
			}, nil},
			{"nothing that is missing", func() string { return haves[0] }, nil},
			{"another history", func() string { return gitAt(t, bare, "commit-tree", "-m", "x", push(t, s, "4")+"^{tree}") }, ErrThroughGit},
		} {
			want := step.want()
			gitAt(t, bare, "update-ref", "refs/wanted", want)
			s.Reset()
			progress := 0
			f := Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Progress: func(gitprogress.Progress) { progress++ }}
			_, err := g.FetchPack(t.Context(), PackFetch{Fetch: f, Wants: []string{want}, Haves: haves})
			if !errors.Is(err, step.err) {
				t.Errorf("%s: %v, want %v", step.name, err, step.err)
			}
			if got := s.Stats("r"); got.Infos != 0 || got.LsRefs != 0 || got.Fetches != 1 {
				t.Errorf("%s: the server saw %+v, want one fetch", step.name, got)
			}
			if err != nil {
				continue
			}
			gitAt(t, dir, "rev-list", "--objects", "--quiet", want)
			if want != haves[0] && progress == 0 {
				t.Errorf("%s: no progress was reported", step.name)
			}
			haves = append(haves, want)
		}
		if loose, err := filepath.Glob(filepath.Join(dir, "objects/[0-9a-f][0-9a-f]")); err != nil || len(loose) > 0 {
			t.Errorf("loose objects: %q, %v", loose, err)
		}
	})
}

// TestFetchFirstPack compares a store that MakeStore, FetchPack and WriteRefs make with what
// Clone makes.
func TestFetchFirstPack(t *testing.T) {
	t.Parallel()
	withBothGits(t, func(t *testing.T, g *Git) {
		for _, format := range []string{gitref.SHA1, gitref.SHA256} {
			s := testgit.Serve(t)
			if format == gitref.SHA1 {
				generate(t, s.Path("r"))
			} else {
				sha256Repository(t, s.Path("r"))
			}
			for _, depth := range []int{0, 1, 2} {
				cloned, made := testgit.Owned(t, g.config.Root, fetcher), testgit.Owned(t, g.config.Root, fetcher)
				refs, err := g.Clone(t.Context(), Fetch{Store: cloned, Remote: Remote{URL: s.URL("r")}, Depth: depth}, format)
				if err != nil {
					t.Fatal(err)
				}
				ask(t, g, s)
				if err := g.MakeStore(made, format); err != nil {
					t.Fatal(err)
				}
				f := PackFetch{Fetch: Fetch{Store: made, Remote: Remote{URL: s.URL("r")}, Depth: depth}}
				for _, r := range refs {
					f.Wants = append(f.Wants, r.ID)
				}
				if _, err := g.FetchPack(t.Context(), f); err != nil {
					t.Fatal(err)
				}
				if err := g.WriteRefs(made, refs, true); err != nil {
					t.Fatal(err)
				}
				if got, want := contents(t, made), contents(t, cloned); got != want {
					t.Errorf("%s, depth %d: got\n%s\nwant\n%s", format, depth, got, want)
				}
				gitAt(t, made, "fsck", "--connectivity-only")
			}
		}
	})
}

// After a failure, git fetches what FetchPack could not, and finds no leftovers.
func TestFetchPackFails(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for _, tt := range []struct {
		name  string
		fault func(path string) gitserver.Fault
	}{
		{"cut before the pack", func(string) gitserver.Fault { return gitserver.Cut(30) }},
		{"cut within the pack", func(string) gitserver.Fault { return gitserver.Cut(40000) }},
		{"500", func(string) gitserver.Fault { return gitserver.Fail(500) }},
		{"401", func(string) gitserver.Fault { return gitserver.Fail(401) }},
		{"a damaged signature", func(string) gitserver.Fault { return gitserver.Corrupt(0) }},
		{"a damaged object", func(string) gitserver.Fault { return gitserver.Corrupt(5000) }},
		{"a damaged checksum", func(string) gitserver.Fault { return gitserver.Corrupt(-1) }},
		{"a commit without its tree", gitserver.Incomplete},
		{"a pack of nothing", func(string) gitserver.Fault {
			return func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					pack := "PACK\x00\x00\x00\x02\x00\x00\x00\x00"
					sum := sha1.Sum([]byte(pack))
					w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
					io.WriteString(w, "0014acknowledgments\n000aready\n0001000dpackfile\n0025\x01"+pack+string(sum[:])+"0000")
				})
			}
		}},
		{"another page", func(string) gitserver.Fault {
			return func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("hello")) })
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := remote(t)
			dir, haves := fetched(t, g, s)
			want := push(t, s, noise())
			ask(t, g, s)
			s.Wrap(gitserver.On(gitserver.Fetch, tt.fault(s.Path("r"))))
			f := PackFetch{Fetch: Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, Wants: []string{want}, Haves: haves}
			if _, err := g.FetchPack(t.Context(), f); !errors.Is(err, ErrThroughGit) {
				t.Errorf("%v, want ErrThroughGit", err)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if tt.name == "a commit without its tree" {
				return // the store may have the commit
			}
			if known, err := g.Known(t.Context(), dir, []string{want}); err != nil || len(known) > 0 {
				t.Errorf("the store has the commit: %v, %v", known, err)
			}
			s.Wrap(nil)
			if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
				t.Errorf("git's fetch: %v", err)
			}
		})
	}
}

// noise returns text of 128 KB that does not compress much.
func noise() string {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "%x\n", sha256.Sum256(fmt.Append(nil, i)))
	}
	return b.String()
}

// Servers that LsRefs has not asked, and remotes other than HTTP servers, are git's.
func TestFetchPackOfOthers(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	dir, haves := fetched(t, g, s)
	want := push(t, s, "1")
	for _, url := range []string{s.URL("r"), "https://user@127.0.0.1/r", "ssh://127.0.0.1/r"} {
		_, err := g.FetchPack(t.Context(), PackFetch{Fetch: Fetch{Store: dir, Remote: Remote{URL: url}}, Wants: []string{want}, Haves: haves})
		if !errors.Is(err, ErrThroughGit) {
			t.Errorf("%s: %v, want ErrThroughGit", url, err)
		}
	}
	if got := s.Stats("r"); got.Fetches != 1 { // that of fetched
		t.Errorf("the server saw %+v", got)
	}
}

// TestSilenceInPack checks that silence ends a fetch, before the answer, within the pack and
// after it, and that the keep-alives of a server that packs are none.
func TestSilenceInPack(t *testing.T) {
	t.Parallel()
	// The server that packs says so a hundred times in the limit, which it must not miss because the machine is busy.
	const short, long = 500 * time.Millisecond, 4 * time.Second
	for _, tt := range []struct {
		name  string
		stall time.Duration
		fault func(release <-chan struct{}) gitserver.Fault
		err   error
	}{
		{"before the answer", short, gitserver.Stall, ErrThroughGit},
		{"within the pack", short, func(release <-chan struct{}) gitserver.Fault { return gitserver.StallAfter(40000, release) }, ErrThroughGit},
		{"keep-alives", long, func(<-chan struct{}) gitserver.Fault { return gitserver.Packing(long+2*time.Second, long/100) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, err := New(Config{UID: fetcher, GID: fetcher, Schemes: []string{"http"}, StallTimeout: tt.stall})
			if err != nil {
				t.Fatal(err)
			}
			s := remote(t)
			dir, haves := fetched(t, newGit(t), s)
			want := push(t, s, noise())
			ask(t, g, s)
			release := make(chan struct{})
			defer close(release)
			s.Wrap(gitserver.On(gitserver.Fetch, tt.fault(release)))
			_, err = g.FetchPack(t.Context(), PackFetch{Fetch: Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, Wants: []string{want}, Haves: haves})
			if !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
		})
	}
}

// TestStoppedFetchPack ends the context while the server is silent in the middle of the pack.
func TestStoppedFetchPack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		cause error // nil: the server stays silent
		want  giterror.Kind
	}{
		{"canceled", context.Canceled, giterror.KindCanceled},
		{"out of time", context.DeadlineExceeded, giterror.KindTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, s := newGit(t), remote(t)
			dir, haves := fetched(t, g, s)
			want := push(t, s, noise())
			ask(t, g, s)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			s.Wrap(gitserver.On(gitserver.Fetch, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(&stopper{ResponseWriter: w, left: 40000, r: r, reached: func() {
						cancel(tt.cause)
					}}, r)
				})
			}))
			_, err := g.FetchPack(ctx, PackFetch{Fetch: Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, Wants: []string{want}, Haves: haves})
			if got := giterror.KindOf(err); got != tt.want || errors.Is(err, ErrThroughGit) {
				t.Errorf("%v: kind %q, want %q", err, got, tt.want)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left %q", left)
			}
		})
	}
}

// TestFetchWithOneThread checks that a fetch whose threads take too much memory is tried once more with one,
// by git and by FetchPack.
func TestFetchWithOneThread(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	if g.config.threads() < 2 {
		t.Fatal("this test needs two processors")
	}
	dir, haves := fetched(t, g, s)
	program := filepath.Join(dir, "program") // which a fetch may read
	if err := os.Rename(testgit.Script(t, `case "$*" in *pack.threads=[!1]* | *pack.threads=1[0-9]*)
	echo 'fatal: Out of memory, malloc failed (tried to allocate 1 bytes)' >&2
	exit 128 ;; esac
exec git "$@"`), program); err != nil {
		t.Fatal(err)
	}
	g.config.Program = program
	want := push(t, s, "by FetchPack")
	ask(t, g, s)
	if _, err := g.FetchPack(t.Context(), PackFetch{Fetch: Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}}, Wants: []string{want}, Haves: haves}); err != nil {
		t.Error(err)
	}
	push(t, s, "by git")
	if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
		t.Error(err)
	}
}
