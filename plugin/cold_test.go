package main

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// shallowness returns what a workspace says of cold=shallow: helmdeck.json in it, the volume's
// Status, and git.
func (p *process) shallowness(name, dir string) (about bool, status string, git bool) {
	p.t.Helper()
	var file struct {
		Shallow bool `json:"shallow"`
	}
	if err := json.Unmarshal([]byte(read(p.t, filepath.Join(dir, ".git/helmdeck.json"))), &file); err != nil {
		p.t.Fatal(err)
	}
	status, _ = p.get(name).Status["shallow"].(string)
	return file.Shallow, status, testgit.Git(p.t, dir, "rev-parse", "--is-shallow-repository") == "true"
}

// TestColdShallow follows a volume with cold=shallow, and what a container did in its first
// workspace, until the cold store is gone.
func TestColdShallow(t *testing.T) {
	t.Parallel()
	s := remote(t)
	gate := gitserver.NewGate()
	s.Route("sample", gitserver.OnDepth(false, gate.Fault))
	p := start(t, scratch(t))
	options := map[string]string{"repo": s.URL("sample"), "ref": "main", "cold": "shallow"}
	p.create("v", options)
	first := p.mount("v", "1")
	clean(t, first)
	same(t, first, plainClone(t, s.URL("sample"), "--depth=1", "--no-tags", "--branch=main"),
		"rev-parse HEAD", "log --format=%H --all", "for-each-ref", "ls-files -s", "config remote.origin.url", "fsck")
	if about, status, shallow := p.shallowness("v", first); !about || !strings.HasPrefix(status, "cold=shallow: ") || !shallow {
		t.Errorf("helmdeck.json says %v, Status %q, git %v", about, status, shallow)
	}
	testgit.Git(t, first, "commit", "-q", "--allow-empty", "-m", "mine")
	mine := testgit.Git(t, first, "rev-parse", "HEAD")
	for option, value := range map[string]string{"mode": "shared", "depth": "2", "filter": "blob:none"} {
		refused := map[string]string{"repo": s.URL("sample"), "cold": "shallow", option: value}
		if err := p.tryCreate("refused", refused); err == nil || !strings.Contains(err.Error(), `option "cold": "shallow" can't be with `) {
			t.Errorf("%s: %v", option, err)
		}
	}

	<-gate.Arrived
	close(gate.Open)
	wait.For(t, "the full history", func() error { return wait.Equal(p.get("v").Status["state"], "ready") })
	next := p.mount("v", "2")
	same(t, next, plainClone(t, s.URL("sample"), "--branch=main"), "rev-parse HEAD", "log --format=%H --all", "for-each-ref", "ls-files -s", "fsck")
	if about, status, shallow := p.shallowness("v", next); about || status != "" || shallow {
		t.Errorf("the next mount: helmdeck.json says %v, Status %q, git %v", about, status, shallow)
	}
	if got := p.glob("clones/*/*/trees/*"); len(got) != 1 {
		t.Errorf("trees %q, want one", got)
	}

	// A checkpoint keeps its commits, and so does a volume that begins with it.
	p.unmount("v", "1")
	p.unmount("v", "2")
	id := p.checkpoints(t, 1)[0].ID
	p.create("restored", map[string]string{"repo": s.URL("sample"), "from": id})
	kept := p.mount("restored", "3")
	if got := testgit.Git(t, kept, "rev-parse", "HEAD"); got != mine {
		t.Errorf("the restored workspace is at %s, want %s", got, mine)
	}
	if about, status, shallow := p.shallowness("restored", kept); !about || status == "" || !shallow {
		t.Errorf("restored: helmdeck.json says %v, Status %q, git %v", about, status, shallow)
	}
	testgit.Git(t, kept, "fetch", "-q", "--unshallow")
	testgit.Git(t, kept, "fsck")
	if got, want := testgit.Git(t, kept, "rev-list", "--count", "HEAD~1"), testgit.Git(t, s.Path("sample"), "rev-list", "--count", "main"); got != want {
		t.Errorf("unshallowed: %s commits, want %s", got, want)
	}
	stores := func() (names []string) {
		for _, store := range p.glob("clones/*/*/store/*") {
			names = append(names, filepath.Base(store))
		}
		return names
	}
	if got := stores(); !slices.Equal(got, []string{"cold.git", "full.git"}) {
		t.Errorf("stores %q while a workspace of the cold one exists", got)
	}
	p.unmount("restored", "3")
	if err := p.Remove(t.Context(), "restored"); err != nil {
		t.Fatal(err)
	}
	for _, d := range slices.Backward(p.checkpoints(t, 2)) { // the later one stands on the other
		if err := api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket)).RemoveCheckpoint(t.Context(), d.ID); err != nil {
			t.Fatal(err)
		}
	}
	wait.For(t, "the end of the cold store", func() error { return wait.Equal(stores(), []string{"full.git"}) })
}

// TestColdFails mounts a volume with cold=shallow after the full history could not be fetched, which
// happened while no workspace and no cache existed.
func TestColdFails(t *testing.T) {
	t.Parallel()
	s := remote(t)
	gate := gitserver.NewGate()
	s.Route("sample", gitserver.OnDepth(false, gate.Fault), gitserver.OnDepth(false, gitserver.Fail(http.StatusForbidden)))
	p := start(t, scratch(t))
	for _, cache := range []string{"off", "shared"} {
		p.create(cache, map[string]string{"repo": s.URL("sample"), "ref": "main", "cold": "shallow", "cache": cache})
	}
	p.mount("off", "1")
	<-gate.Arrived
	p.unmount("off", "1")
	wait.For(t, "the end of the workspace", func() error { return wait.Equal(len(p.glob("clones/*/*/workspaces/*")), 0) })
	close(gate.Open)
	p.waitFor("fetch the full history")
	p.mount("shared", "2")
	p.unmount("shared", "2")
	p.mount("shared", "3")
}
