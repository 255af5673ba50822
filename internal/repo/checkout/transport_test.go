package checkout

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestOnlyFetchesReachTheRemote runs commands on a partial clone whose own configuration says where to fetch from,
// and where plain git does.
func TestOnlyFetchesReachTheRemote(t *testing.T) {
	dir := testdir.New(t, "checkout")
	s := testgit.Remote(t, "r", gitserver.Spec{Files: 10, Commits: 2, Changes: 3})
	if err := s.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store.git")
	testgit.Git(t, dir, "clone", "-q", "--bare", "--filter=blob:none", s.URL("r"), store)
	g, err := git.New(git.Config{Schemes: []string{"http"}})
	if err != nil {
		t.Fatal(err)
	}
	commit, blob := testgit.Git(t, store, "rev-parse", "main"), testgit.Git(t, store, "rev-parse", "main:README.md")
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(filepath.Join(work, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}

	s.Reset()
	for _, c := range []struct {
		name string
		run  func() error
	}{
		{"look up a blob", func() error {
			_, ok, err := g.Commit(t.Context(), store, blob)
			if ok {
				return fmt.Errorf("%s is a commit", blob)
			}
			return err
		}},
		{"list what is missing", func() error {
			_, err := g.MissingBlobs(t.Context(), store, commit, nil)
			return err
		}},
		{"check out", func() error {
			_, err := Make(t.Context(), g, Spec{Store: store, Commit: commit, Dir: work})
			return err
		}},
	} {
		err := c.run()
		t.Logf("%s: %v", c.name, err)
		if got := s.Stats("r"); got != (gitserver.Stats{}) {
			t.Errorf("%s asked the remote: %+v", c.name, got)
		}
	}

	// The control: plain git fetches in that store.
	testgit.Git(t, store, "cat-file", "-p", blob)
	if s.Stats("r").Fetches == 0 {
		t.Error("plain git did not fetch either: the test proves nothing")
	}

	// What a store of ours lacks comes in one request, and then the checkout has it all.
	store = filepath.Join(dir, "ours.git")
	if err := os.Mkdir(store, 0o755); err != nil {
		t.Fatal(err)
	}
	fetch := git.Fetch{Store: store, Remote: git.Remote{URL: s.URL("r")}, NoBlobs: true}
	if _, err := g.Clone(t.Context(), fetch, gitref.SHA1); err != nil {
		t.Fatal(err)
	}
	ids, err := g.MissingBlobs(t.Context(), store, commit, nil)
	if err != nil || len(ids) == 0 {
		t.Fatalf("missing: %q, %v; want some", ids, err)
	}
	s.Reset()
	if err := g.FetchObjects(t.Context(), fetch, ids); err != nil {
		t.Fatal(err)
	}
	if got := s.Stats("r").Fetches; got != 1 {
		t.Errorf("%d rounds of fetching, want 1", got)
	}
	if ids, err := g.MissingBlobs(t.Context(), store, commit, nil); err != nil || len(ids) != 0 {
		t.Errorf("still missing: %q, %v", ids, err)
	}
	fresh := filepath.Join(dir, "fresh")
	if err := os.MkdirAll(filepath.Join(fresh, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(t.Context(), g, Spec{Store: store, Commit: commit, Dir: fresh}); err != nil {
		t.Error(err)
	}
}
