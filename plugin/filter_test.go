package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// missing lists the objects of all refs that a partial clone does not have.
func missing(t *testing.T, dir string, revs ...string) []string {
	t.Helper()
	var ids []string
	out := testgit.Git(t, dir, append([]string{"rev-list", "--objects", "--missing=print"}, revs...)...)
	for line := range strings.Lines(out) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "?"); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestFilterLeavesBlobsAtTheRemote(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": url, "filter": "blob:none"})
	dir := p.mount("v", "1")
	if n := s.Stats("sample").Fetches; n > 4 {
		t.Errorf("%d fetch requests, want one round for the history and one for the files", n)
	}
	plain := plainClone(t, url, "--filter=blob:none")
	same(t, dir, plain, "rev-parse HEAD", "for-each-ref", "ls-files -s", "config remote.origin.promisor",
		"config remote.origin.partialclonefilter", "config core.repositoryformatversion", "fsck --connectivity-only")
	if got, want := missing(t, dir, "--all"), missing(t, plain, "--all"); len(got) == 0 || !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("%d objects are missing, want the %d that git clone leaves", len(got), len(want))
	}

	// git does not ask the remote for checked-out files, because their objects are local.
	s.Reset()
	clean(t, dir)
	testgit.Git(t, dir, "grep", "-q", "-e", "the", "HEAD")
	if n := s.Stats("sample").Fetches; n != 0 {
		t.Errorf("%d fetches for checked-out files, want none", n)
	}
	// git fetches other objects when it needs them.
	testgit.Git(t, dir, "log", "-p", "--all")
	if n := s.Stats("sample").Fetches; n == 0 {
		t.Error("log -p fetched nothing")
	}
	if got := missing(t, dir, "--all"); len(got) != 0 {
		t.Errorf("%d objects are missing after log -p, want none", len(got))
	}
	testgit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "mine")
	testgit.Git(t, dir, "push", "-q", "origin", "HEAD:mine")

	pushed, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "pushed", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	next := p.mount("v", "2")
	clean(t, next)
	if got := testgit.Git(t, next, "rev-parse", "HEAD"); got != pushed {
		t.Errorf("after a push: at %s, want %s", got, pushed)
	}
	if got, _ := p.get("v").Status["filter"].(string); !strings.HasPrefix(got, "blob:none: ") {
		t.Errorf("Status has filter %q", got)
	}
	for _, store := range p.glob("clones/*/*/store/*.git") {
		if got := filepath.Base(store); got != "blob-none.git" {
			t.Errorf("store %s, want only blob-none.git", got)
		}
		if got := content(t, store, "config"); strings.Contains(got, "promisor") || strings.Contains(got, "remote") {
			t.Errorf("the configuration of the store names a remote:\n%s", got)
		}
	}
}

func TestFilterBesideFullHistory(t *testing.T) {
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("full", map[string]string{"repo": url})
	p.create("shallow", map[string]string{"repo": url, "filter": "blob:none", "depth": "2"})
	p.create("v", map[string]string{"repo": url, "filter": "blob:none"})
	p.mount("full", "1")
	for _, name := range []string{"shallow", "v"} {
		dir := p.mount(name, "1")
		s.Reset()
		// The tree existed before. The contents of its files must be in this store too.
		testgit.Git(t, dir, "rm", "-rqf", ".")
		testgit.Git(t, dir, "reset", "-q", "--hard")
		if n := s.Stats("sample").Fetches; n != 0 {
			t.Errorf("%s: %d fetches for checked-out files, want none", name, n)
		}
		if len(missing(t, dir, "--all")) == 0 {
			t.Errorf("%s: no object is missing, want some", name)
		}
		testgit.Git(t, dir, "log", "-p", "--all")
		clean(t, dir)
	}
	if got := missing(t, p.mount("full", "2"), "--all"); len(got) != 0 {
		t.Errorf("the full history lacks %d objects, want none", len(got))
	}
}

func TestFilterIgnoredByRemote(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "filter": "blob:none"})
	dir := p.mount("v", "1")
	clean(t, dir)
	same(t, dir, plainClone(t, s.URL("sample")), "ls-files -s", "for-each-ref", "rev-list --objects --all")
	if got := missing(t, dir, "--all"); len(got) != 0 {
		t.Errorf("%d objects are missing, want none", len(got))
	}
}

func TestFilterWithProtocol0(t *testing.T) {
	t.Parallel()
	s := remote(t)
	s.Wrap(protocol0)
	if err := s.Configure("sample", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "filter": "blob:none"})
	if err := p.tryMount("v", "1"); err == nil || !strings.Contains(err.Error(), "use filter=none") {
		t.Errorf("mount: %v, want an error that says to use filter=none", err)
	}
	if err := s.Configure("sample", "uploadpack.allowAnySHA1InWant", "true"); err != nil {
		t.Fatal(err)
	}
	clean(t, p.mount("v", "2"))
}
