package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// After a push the next Mount has the new commit. A Mount that finds nothing new asks the server
// once.
func TestNextMountHasPush(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	if got := parseStamp(t, e.sh(t, mount(subject(t)), printStamp)); got.Commit != r.head {
		t.Fatalf("got %+v, want commit %s", got, r.head)
	}

	r.Reset()
	e.sh(t, mount(subject(t)), "git status")
	if got := r.Stats(app); got.LsRefs != 1 || got.Infos != 0 || got.Fetches != 0 {
		t.Errorf("a mount that finds nothing new: the server saw %+v, want only one ls-refs", got)
	}

	running := e.sleeper(t, mount(subject(t)))
	pushed := r.commit(t, "main",
		gitserver.Change{Path: "README.md", Content: "new\n"},
		gitserver.Change{Path: "build.sh", Delete: true},
		gitserver.Change{Path: "deep/er/new", Content: "new\n", Mode: "100755"},
		gitserver.Change{Path: "docs/readme", Content: "../build.bat", Mode: "120000"})
	other := r.commit(t, "brand-new", gitserver.Change{Path: "a", Content: "a\n"})

	got := parseStamp(t, e.sh(t, mount(subject(t)), printStamp))
	if got.Commit != pushed || got.PulledSHA != pushed || !got.Reused {
		t.Errorf("after the push: got %+v, want commit %s, reused", got, pushed)
	}
	if got := running.sh(t, "git rev-parse HEAD; git status --porcelain"); got != r.head {
		t.Errorf("the running container: got %q, want %s and nothing else", got, r.head)
	}
	same(t, "after the push", e.sh(t, mount(subject(t)), portrait), plain(t, r.url, "main"))
	if got := e.sh(t, mount(subject(t)), "git rev-parse origin/brand-new"); got != other {
		t.Errorf("origin/brand-new: got %s, want %s", got, other)
	}
	if got := r.Stats(app).Clones; got != 1 { // the host's own git clone
		t.Errorf("the server saw %d clones, want only the host's", got)
	}
}

// After one branch was rewritten and another one deleted, the next Mount is like a plain git clone.
func TestRewrittenBranch(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	e.sh(t, mount(subject(t)), "git status")

	hostGit(t, r.Path(app), "update-ref", "refs/heads/main", r.head+"~3")
	hostGit(t, r.Path(app), "update-ref", "-d", "refs/heads/feature/x")
	// The new branch "feature" conflicts with the deleted "feature/x", whose name made it a
	// directory.
	hostGit(t, r.Path(app), "update-ref", "refs/heads/feature", r.head)
	hostGit(t, r.Path(app), "update-ref", "refs/tags/nightly", r.head+"~1")
	same(t, "after the rewrite", e.sh(t, mount(subject(t)), portrait), plain(t, r.url, "main"))
}

// A container can commit and push.
func TestPushFromInside(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "subject="+subject(t))
	got := e.sh(t, mount(subject(t)), `
		echo mine >mine; git add mine; git commit -qm mine
		git push -q origin main; git push -q origin HEAD:topic
		git fetch -q; git diff --exit-code origin/main; git log -1 --format=%H origin/topic`)
	if want := r.tip(t, "main"); got != want || want == r.head {
		t.Errorf("pushed %s, the server has %s", got, want)
	}
	if got := r.Stats(app).Pushes; got != 2 {
		t.Errorf("the server saw %d pushes, want 2", got)
	}
	if got := parseStamp(t, e.sh(t, mount(subject(t)), printStamp)).Commit; got != r.tip(t, "main") {
		t.Errorf("the next mount is at %s, want %s", got, r.tip(t, "main"))
	}
}

// The remote is not asked within the time of the option refresh, nor for a commit that the clone
// has.
func TestRefresh(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	cases := []struct {
		name   string
		option string
		asked  bool
	}{
		{"always", "refresh=always", true},
		{"within the time", "refresh=1h", false},
		{"after the time", "refresh=1ns", true},
		{"never", "refresh=never", false},
		{"commit", "ref=" + r.head, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			name := subject(t)
			e.create(t, name, "repo="+r.url, "subject="+name, c.option)
			e.sh(t, mount(name), "git status")
			r.Reset()
			if got := e.sh(t, mount(name), "git rev-parse HEAD"); got != r.head {
				t.Errorf("got %s, want %s", got, r.head)
			}
			if got := r.Stats(app); (got.LsRefs > 0) != c.asked || got.Fetches != 0 {
				t.Errorf("the server saw %+v, want it asked: %v", got, c.asked)
			}
		})
	}
}

// A push that ended before docker run began is in the container, in the first seconds of a volume too, whoever pushed. The
// volumes have the default of the option refresh.
func TestPushInTheFirstSeconds(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	create := func(name, ref string) (volume string) {
		t.Helper()
		e.create(t, subject(t)+name, "repo="+r.url, "ref="+ref, "subject="+subject(t), "refresh=auto")
		return mount(subject(t) + name)
	}
	wantHead := func(what, volume, commit string) {
		t.Helper()
		if got := e.sh(t, volume, "git rev-parse HEAD"); got != commit {
			t.Errorf("%s: got %s, want %s", what, got, commit)
		}
	}

	first := create("-first", "main")
	wantHead("the first run", first, r.commit(t, "main", gitserver.Change{Path: "new", Content: "1"}))

	loop := create("-loop", "main")
	running := e.sleeper(t, loop)
	running.sh(t, "echo mine >mine; git add mine; git commit -qm mine; git push -q origin main")
	mine := r.tip(t, "main")
	if got := running.sh(t, "git rev-parse HEAD"); got != mine {
		t.Errorf("the container is at %s, want %s, which it has pushed", got, mine)
	}
	wantHead("after a push of a container that runs", loop, mine)
	running.remove(t)
	wantHead("after a push of somebody else", loop, r.commit(t, "main", gitserver.Change{Path: "new", Content: "2"}))

	side := r.commit(t, "side", gitserver.Change{Path: "side", Content: "1"})
	branch := create("-side", "side")
	wantHead("a new branch", branch, side)
	hostGit(t, r.Path(app), "update-ref", "refs/heads/side", r.head+"~1")
	wantHead("the same branch, rewritten", branch, r.tip(t, "side"))

	r.Reset()
	wantHead("nothing new", create("-last", "main"), r.tip(t, "main"))
	if got := r.Stats(app); got.LsRefs != 2 || got.Fetches != 0 {
		t.Errorf("the server saw %+v, want an ls-refs of the creation, and one of the mount", got)
	}
}

// docker run asks the remote once for a volume without a name, also if the engine mounts it twice, and has what was
// pushed before.
func TestOneQuestionForRun(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	m := mount("", "repo="+r.url, "ref=main", "subject="+subject(t))
	e.sh(t, m, "git status")
	for _, args := range [][]string{nil, {"--workdir", "/w"}} {
		// A run whose mounts come later than two seconds after the volume's creation asks again.
		wait.For(t, fmt.Sprintf("a run on a machine that is not too busy: %q", args), func() error {
			r.Reset()
			if got := e.sh(t, m, "git rev-parse HEAD", args...); got != r.tip(t, "main") {
				t.Errorf("%q: got %s, want %s", args, got, r.tip(t, "main"))
			}
			got := r.Stats(app)
			return wait.Check(got.LsRefs == 1 && got.Fetches == 0, "the server saw %+v, want only one ls-refs", got)
		})
		pushed := r.commit(t, "main", gitserver.Change{Path: "new", Content: strings.Join(args, " ")})
		if got := e.sh(t, m, "git rev-parse HEAD", args...); got != pushed {
			t.Errorf("%q, after a push: got %s, want %s", args, got, pushed)
		}
	}
}
