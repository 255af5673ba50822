package tests

import (
	"fmt"
	"sync"
	"testing"
)

// Twenty containers start at once on a volume without a clone. There is one clone, and each
// container has a private tree that equals a plain git clone.
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
			// If containers shared a tree, its portrait would show the other container's file.
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
	e.awaitReclaimed(t, subject(t))
}

// No other container sees the changes of one container to its checkout, neither at the same time
// nor later.
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
	same(t, "the other container", two.sh(t, portrait), want)

	leases, _ := e.status(t, subject(t))["leases"].([]any)
	if got := len(leases); got != 2 {
		t.Errorf("status shows %d leases, want 2", got)
	}
	one.remove(t)
	same(t, "the other container afterwards", two.sh(t, portrait), want)
	two.remove(t)
	same(t, "the next container", e.sh(t, mount(subject(t)), portrait), want)
	e.awaitReclaimed(t, subject(t))
}

// git compares whole seconds. It must still see an edit right after the checkout that keeps the
// file's size.
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
