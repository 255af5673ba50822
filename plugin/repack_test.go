package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestPacksAreJoined checks that the store is repacked in the background when it has many packs,
// because every fetch adds one. Workspaces that link the old packs keep working, and new workspaces
// have all objects.
func TestPacksAreJoined(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	first := p.mount("v", "first")
	const fetches = 45 // more than the store keeps without a repack
	for i := range fetches {
		if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "n", Content: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		p.mount("v", "next")
		p.unmount("v", "next")
	}
	p.waitFor("repacked")
	packs, err := filepath.Glob(filepath.Join(p.at.data, "clones/default/*/store/full.git/objects/pack/*.pack"))
	if err != nil || len(packs) >= fetches {
		t.Errorf("%d packs after %d fetches, %v", len(packs), fetches, err)
	}
	if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "n", Content: "last"}); err != nil {
		t.Fatal(err)
	}
	last := p.mount("v", "last")
	for _, dir := range []string{first, last} {
		testgit.Git(t, dir, "fsck", "--full", "--strict", "--no-dangling")
		if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("status %q, want clean", got)
		}
	}
	p.unmount("v", "first")
	p.unmount("v", "last")
}
