package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

func sortedLines(s string) []string {
	return slices.Sorted(strings.SplitSeq(strings.TrimSpace(s), "\n"))
}

func TestDepthMatchesGitClone(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	url := s.URL("sample")
	p.create("full", map[string]string{"repo": url})
	full := p.mount("full", "1")
	for _, depth := range []int{1, 3, 1000} {
		name := "depth" + strconv.Itoa(depth)
		p.create(name, map[string]string{"repo": url, "depth": strconv.Itoa(depth)})
		dir := p.mount(name, "1")
		plain := plainClone(t, url, "--no-single-branch", "--depth", strconv.Itoa(depth))
		clean(t, dir)
		same(t, dir, plain, "rev-parse HEAD", "symbolic-ref HEAD", "for-each-ref", "ls-files -s",
			"rev-list --all", "rev-parse --is-shallow-repository", "fsck --full --strict")
		if got, want := sortedLines(content(t, dir, ".git/shallow")), sortedLines(content(t, plain, ".git/shallow")); !slices.Equal(got, want) {
			t.Errorf("depth %d: shallow %q, want %q", depth, got, want)
		}
	}

	// A shallow fetch of another volume leaves the full history complete.
	pushed, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "pushed", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	shallow := p.mount("depth1", "2")
	if got := testgit.Git(t, shallow, "log", "--format=%H"); got != pushed {
		t.Errorf("log after a push: %s, want only %s", got, pushed)
	}
	again := p.mount("full", "2")
	same(t, again, plainClone(t, url), "rev-list --all", "for-each-ref", "rev-parse --is-shallow-repository", "fsck --full")
	if got, want := testgit.Git(t, full, "rev-list", "--count", "HEAD"), "6"; got != want {
		t.Errorf("the first full workspace has %s commits now, want %s", got, want)
	}

	// The container can fetch the rest.
	testgit.Git(t, shallow, "fetch", "-q", "--unshallow")
	same(t, shallow, again, "rev-list --all", "rev-parse --is-shallow-repository")
	older := p.mount("depth3", "2")
	testgit.Git(t, older, "commit", "-q", "--allow-empty", "-m", "mine")
	testgit.Git(t, older, "push", "-q", "origin", "HEAD:mine")
	if got, want := testgit.Git(t, s.Path("sample"), "rev-parse", "mine"), testgit.Git(t, older, "rev-parse", "HEAD"); got != want {
		t.Errorf("pushed %s, want %s", got, want)
	}
}

// protocol0 makes a server speak git's protocol version 0: it serves only commits that it has
// advertised.
func protocol0(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("Git-Protocol")
		next.ServeHTTP(w, r)
	})
}

func TestDepthWithDeeperCommit(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	old := testgit.Git(t, s.Path("sample"), "rev-parse", "main~3")
	t.Run("by name", func(t *testing.T) {
		p := start(t, scratch(t))
		p.create("v", map[string]string{"repo": url, "depth": "1", "ref": old})
		dir := p.mount("v", "1")
		if got := testgit.Git(t, dir, "log", "--format=%H"); got != old {
			t.Errorf("log: %s, want only %s", got, old)
		}
		clean(t, dir)
	})
	for _, c := range []struct {
		name, ref string
	}{
		{"a full one that the remote refuses to name", old},
		{"an abbreviated one", old[:12]},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Wrap(protocol0)
			defer s.Wrap(nil)
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": url, "depth": "1", "ref": c.ref})
			err := p.tryMount("v", "1")
			if err == nil || !strings.Contains(err.Error(), "ref not found") || !strings.Contains(err.Error(), "depth greater than 1") {
				t.Errorf("mount: %v, want ref not found with a hint about the depth", err)
			}
			p.create("full", map[string]string{"repo": url, "ref": c.ref})
			if got := testgit.Git(t, p.mount("full", "1"), "rev-parse", "HEAD"); got != old {
				t.Errorf("full history: at %s, want %s", got, old)
			}
		})
	}
}
