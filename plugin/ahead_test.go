package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestAhead: status counts the commits that the remote lacks now. The right number is that of git, with the branches that
// the remote lists and the volume began with, and not with what the container says of them.
func TestAhead(t *testing.T) {
	t.Parallel()
	s := testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 20, Commits: 2})
	if err := s.Configure("r", "http.receivepack", "true"); err != nil {
		t.Fatal(err)
	}
	base := scratch(t)
	other := filepath.Join(base, "other") // somebody else's clone
	testgit.Git(t, base, "clone", "-q", s.URL("r"), other)
	write := func(dir, name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		testgit.GitAny(t, dir, "add", "-A")
		testgit.GitAny(t, dir, "commit", "-q", "-m", name)
	}
	pushed := func(branch string, names ...string) {
		t.Helper()
		testgit.Git(t, other, "fetch", "-q")
		testgit.Git(t, other, "checkout", "-q", "-B", branch, "origin/"+branch)
		for _, name := range names {
			write(other, name)
		}
		testgit.Git(t, other, "push", "-q", "origin", branch)
	}
	testgit.Git(t, other, "push", "-q", "origin", "main:dev")

	p := startWith(t, base, func(at *places) { at.askWait = time.Hour }) // a slow machine may take long
	p.create("v", map[string]string{"repo": s.URL("r"), "mode": "keep"})
	dir := p.mount("v", "m1")
	id, began := p.workspaceOf("v"), testgit.GitAny(t, dir, "rev-parse", "HEAD")
	status := func() api.WorkspaceStatus {
		t.Helper()
		st, err := p.admin().WorkspaceStatus(t.Context(), id, api.Compare{})
		if err != nil || st.Ahead == nil {
			t.Fatalf("%+v, %v", st, err)
		}
		return st
	}
	// check compares the number with that of git in the workspace, which has all objects once it has fetched them from url.
	check := func(what string, branches ...string) {
		t.Helper()
		st := status()
		testgit.GitAny(t, dir, "fetch", "-q", s.Path("r"), "+refs/heads/*:refs/check/*")
		args := []string{"rev-list", "--count", "HEAD", "--not"}
		for _, b := range branches {
			args = append(args, "refs/check/"+b)
		}
		want, err := strconv.ParseInt(testgit.GitAny(t, dir, args...), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if *st.Ahead != want || !st.AheadAsOf.IsZero() {
			t.Errorf("%s: %d ahead as of %v, want %d, as of now", what, *st.Ahead, st.AheadAsOf, want)
		}
	}
	check("at first", "main", "dev")
	pushed("main", "one", "two", "three")
	testgit.GitAny(t, dir, "pull", "-q", "--no-rebase")
	check("after a pull", "main", "dev")
	write(dir, "mine")
	check("with a commit", "main", "dev")
	pushed("main", "four", "five")
	check("when the remote has moved on, and the container has not fetched that", "main", "dev")
	pushed("dev", "six", "seven")
	testgit.GitAny(t, dir, "fetch", "-q")
	testgit.GitAny(t, dir, "merge", "-q", "--no-edit", "origin/dev")
	check("with another branch merged", "main", "dev")
	testgit.GitAny(t, dir, "update-ref", "refs/remotes/origin/main", "HEAD")
	testgit.GitAny(t, dir, "update-ref", "refs/remotes/origin/dev", "HEAD")
	check("when the container says that the remote has all", "main", "dev")
	testgit.Git(t, dir, "-c", "safe.directory=*", "push", "-q", s.Path("r"), "HEAD:refs/heads/elsewhere")
	check("when they are on a branch of another name", "main", "dev")
	testgit.GitAny(t, dir, "worktree", "add", "-q", "-b", "side", "side")
	write(filepath.Join(dir, "side"), "eight")
	if st := status(); len(st.Worktrees) != 1 || *st.Worktrees[0].Ahead != *st.Ahead+1 {
		t.Errorf("%+v, %d ahead", st.Worktrees, *st.Ahead)
	}
	testgit.GitAny(t, dir, "switch", "-q", "-c", "topic")
	write(dir, "topic")
	testgit.Git(t, dir, "-c", "safe.directory=*", "push", "-q", s.Path("r"), "topic")
	check("when they are on the branch of the same name", "main", "dev", "topic")

	first := testgit.Git(t, s.Path("r"), "rev-list", "--max-parents=0", "main")
	for name, ref := range map[string]string{"commit": first, "abbreviated": first[:8]} {
		p.create(name, map[string]string{"repo": s.URL("r"), "ref": ref})
		at := p.mount(name, "m1")
		pushed("main", name)
		testgit.GitAny(t, at, "fetch", "-q")
		testgit.GitAny(t, at, "checkout", "-q", "origin/main")
		st, err := p.admin().WorkspaceStatus(t.Context(), p.workspaceOf(name), api.Compare{})
		if err != nil || st.Ahead == nil || *st.Ahead != 0 || !st.AheadAsOf.IsZero() {
			t.Errorf("a volume of a commit, %s: %+v, %v", name, st, err)
		}
	}

	write(dir, "last")
	p.stop()
	p = startWith(t, base, func(at *places) { at.askWait = time.Second })
	before := time.Now()
	for name, fault := range map[string]http.HandlerFunc{
		"an error":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusServiceUnavailable) },
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	} {
		s.Wrap(func(http.Handler) http.Handler { return fault })
		if st := status(); *st.Ahead != 1 || st.AheadAsOf.IsZero() || st.AheadAsOf.After(before) {
			t.Errorf("%s: %d ahead as of %v", name, *st.Ahead, st.AheadAsOf)
		}
	}
	s.Wrap(nil)
	pushed("main", "nine")
	s.Wrap(gitserver.On(gitserver.Fetch, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	}))
	// While a fetch has the store, what the volume began with counts.
	most := testgit.GitAny(t, dir, "rev-list", "--count", "HEAD", "--not", began)
	if st := status(); *st.Ahead != 1 && fmt.Sprint(*st.Ahead) != most || st.AheadAsOf.IsZero() {
		t.Errorf("when the fetch takes too long: %d ahead as of %v, want 1 or %s", *st.Ahead, st.AheadAsOf, most)
	}
	s.Wrap(nil)
}
