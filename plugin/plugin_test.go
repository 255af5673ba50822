package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

func TestMountIsACleanPrivateCheckout(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	a, b := p.mount("v", "1"), p.mount("v", "2")
	if a == b {
		t.Fatalf("both workspaces are at %s", a)
	}
	if got := testgit.Git(t, a, "status", "--porcelain"); got != "" {
		t.Errorf("status: %q, want clean", got)
	}
	plain := filepath.Join(scratch(t), "plain")
	testgit.Git(t, "/", "clone", "-q", "--branch", "main", s.URL("sample"), plain)
	for _, args := range [][]string{
		{"rev-parse", "HEAD"}, {"symbolic-ref", "HEAD"}, {"for-each-ref"}, {"ls-files", "-s"},
		{"config", "remote.origin.url"}, {"config", "branch.main.merge"}, {"log", "--format=%H %s"},
		{"fsck", "--full", "--strict"}, {"diff", "--stat", "origin/release-1.0"},
	} {
		if got, want := testgit.Git(t, a, args...), testgit.Git(t, plain, args...); got != want {
			t.Errorf("git %s\n got %s\nwant %s", strings.Join(args, " "), got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(a, "new"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	testgit.Git(t, a, "add", "new")
	testgit.Git(t, a, "commit", "-qm", "mine")
	if got := testgit.Git(t, b, "status", "--porcelain"); got != "" {
		t.Errorf("status of the other workspace: %q, want clean", got)
	}
	p.unmount("v", "1")
	p.unmount("v", "2")
	c := p.mount("v", "3")
	if got := testgit.Git(t, c, "status", "--porcelain"); got != "" {
		t.Errorf("status after a reset: %q, want clean", got)
	}
	if got := testgit.About(t, c)["reused"]; got != true {
		t.Errorf("reused: %v, want true", got)
	}
	p.unmount("v", "3")
}
