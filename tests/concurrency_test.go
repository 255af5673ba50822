package tests

import (
	"fmt"
	"sync"
	"testing"
)

// Twenty containers at once on a volume that nobody has used yet: one clone, and a private tree for each that is what
// git clone gives.
func TestTwentyOnColdVolume(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	want := plain(t, r.url, "main")
	r.Reset()

	m := mount(subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	t.Cleanup(func() { e.Try("volume", "rm", "--force", subject(t)) })
	const containers = 20
	portraits := make([]string, containers)
	errs := make([]error, containers)
	var all sync.WaitGroup
	for i := range containers {
		all.Go(func() {
			// A tree that another one shared would show the other's file in its status and in its list of files.
			script := fmt.Sprintf("%s touch mine-%d; git add -A; git commit -qm %d", portrait, i, i)
			portraits[i], errs[i] = e.Try(shArgs(m, script)...)
		})
	}
	all.Wait()
	for i := range containers {
		if errs[i] != nil {
			t.Errorf("container %d: %v", i, errs[i])
			continue
		}
		same(t, fmt.Sprintf("container %d", i), portraits[i], want)
	}
	if got := r.Stats(app); got.Clones != 1 || got.Fetches != 1 {
		t.Errorf("the server saw %+v, want one clone and no other fetch", got)
	}
	e.docker(t, "volume", "rm", subject(t))
	e.reclaimed(t, subject(t))
}

// What one container does to its checkout, no other sees, neither at the same time nor after it.
func TestPrivateTrees(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	want := plain(t, r.url, "main")

	one, two := e.sleeper(t, mount(subject(t))), e.sleeper(t, mount(subject(t)))
	one.sh(t, `
		echo changed >README.md; rm build.sh; mkdir junk; echo junk >junk/file
		git commit -qam mine; echo dirty >>README.md; git branch topic; git tag mark
		git config core.hooksPath /w/junk; git config user.name Mallory
		echo '*' >.git/info/exclude; rm -rf docs; git pack-refs --all; git gc --quiet`)
	same(t, "the neighbour", two.sh(t, portrait), want)

	leases, _ := e.status(t, subject(t))["leases"].([]any)
	if got := len(leases); got != 2 {
		t.Errorf("status shows %d leases, want 2", got)
	}
	one.remove(t)
	same(t, "the neighbour afterwards", two.sh(t, portrait), want)
	two.remove(t)
	same(t, "the next one", e.sh(t, mount(subject(t)), portrait), want)
	e.reclaimed(t, subject(t))
}

// git compares whole seconds: an edit of the same size right after the checkout must be seen all the same.
func TestEditAtOnce(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "subject="+subject(t))
	for i := range 2 {
		got := e.sh(t, m, `tr a-z b-za <README.md >/tmp/new; cat /tmp/new >README.md; git status --porcelain`)
		if want := " M README.md"; got != want {
			t.Errorf("run %d: status says %q, want %q", i, got, want)
		}
	}
}
