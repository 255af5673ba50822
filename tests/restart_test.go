package tests

import (
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// docker restart gives a clean tree at the ref's current commit.
func TestRestartContainer(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	c := e.sleeper(t, mount(subject(t)))
	c.sh(t, "rm -rf src; echo mine >mine; git commit -qam mine; mkdir -p .git/hdcache/mine; echo cached >.git/hdcache/mine/marker")

	pushed := r.commit(t, "main", gitserver.Change{Path: "new", Content: "new\n"})
	e.docker(t, "restart", "--time", "0", c.id)
	same(t, "after the restart", c.sh(t, portrait), plain(t, r.url, "main"))
	if got := parseStamp(t, c.sh(t, printStamp)); got.Commit != pushed || !got.Reused {
		t.Errorf("helmdeck.json: got %+v, want commit %s, reused", got, pushed)
	}
	c.remove(t)
	e.awaitReclaimed(t, subject(t))
	if got := e.sh(t, mount(subject(t)), "cat .git/hdcache/mine/marker"); got != "cached" {
		t.Errorf("the cache has %q, want the first start's marker", got)
	}
	e.awaitReclaimed(t, subject(t))
}

// One volume at two targets of a container gives two trees.
func TestTwoTargets(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	got := e.sh(t, mount(subject(t)), "echo mine >mine; ls /x/mine 2>/dev/null || git -C /x status --porcelain",
		"--volume", subject(t)+":/x")
	if got != "" {
		t.Errorf("the second target shows %q, want no changes", got)
	}
	e.awaitReclaimed(t, subject(t))
}
