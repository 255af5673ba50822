package clone

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/short"
)

// Each kind of ref is prepared on a clone of its own and then on a common clone, and
// checked as a container sees it.
func TestRefKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.remote("tag", "-a", "-m", "outer", "nested", "v1.0.0")
	main := w.remote("rev-parse", "refs/heads/main")
	first := w.remote("rev-parse", "v1.0.0^{}")
	// A pull request, and a commit without a ref.
	pull := w.Push("refs/pull/7/head")
	lost := w.Push("refs/heads/lost")
	w.remote("update-ref", "-d", "refs/heads/lost")
	w.remote("update-ref", "refs/heads/deadbee", first)
	w.remote("tag", "both", first)
	w.remote("branch", "both", main)
	for _, tt := range []struct{ name, ref, full, commit, pulled string }{
		{"HEAD", "", "refs/heads/main", main, main},
		{"branch", "main", "refs/heads/main", main, main},
		{"branch with a slash", "feature/x", "refs/heads/feature/x", w.remote("rev-parse", "feature/x"), w.remote("rev-parse", "feature/x")},
		{"full branch", "refs/heads/main", "refs/heads/main", main, main},
		{"lightweight tag", "nightly", "refs/tags/nightly", main, main},
		{"annotated tag", "v1.0.0", "refs/tags/v1.0.0", first, w.remote("rev-parse", "v1.0.0")},
		{"tag of a tag", "nested", "refs/tags/nested", first, w.remote("rev-parse", "nested")},
		{"full tag", "refs/tags/v1.0.0", "refs/tags/v1.0.0", first, w.remote("rev-parse", "v1.0.0")},
		{"a branch before a tag", "both", "refs/heads/both", main, main},
		{"the tag by its full name", "refs/tags/both", "refs/tags/both", first, first},
		{"pull request", "refs/pull/7/head", "refs/pull/7/head", pull, pull},
		{"commit", first, "", first, first},
		{"upper case", strings.ToUpper(first), "", first, first},
		{"commit that nothing reaches", lost, "", lost, lost},
		{"abbreviated", first[:10], "", first, first},
		{"a branch before an abbreviation", "deadbee", "refs/heads/deadbee", first, first},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 3)
			s := w.spec("ref", tt.ref)
			for _, subject := range []string{"for all", "of " + tt.name} {
				co, err := w.m.get(meta.Clone{Key: subject + "/1", Subject: "x", Repo: "y"}).Prepare(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				defer co.Release()
				r := co.Resolution
				if r.Ref != tt.full || r.Commit != tt.commit || r.Pulled != tt.pulled {
					t.Errorf("%s: %+v, want %s at %s, pulled %s", subject, r, tt.full, tt.commit, tt.pulled)
				}
				dir := w.Mount(co.Lower, 0)
				if got := run(t, dir, 0, "rev-parse", "HEAD"); got != tt.commit {
					t.Errorf("HEAD is %s, want %s", got, tt.commit)
				}
				if got := run(t, dir, 0, "status", "--porcelain"); got != "" {
					t.Errorf("status %q, want clean", got)
				}
				want := strings.TrimPrefix(tt.full, "refs/heads/")
				if want == tt.full {
					want = "" // detached
				}
				if got := run(t, dir, 0, "branch", "--show-current"); got != want {
					t.Errorf("on branch %q, want %q", got, want)
				}
				if want != "" {
					if got := run(t, dir, 0, "rev-parse", "--abbrev-ref", "@{upstream}"); got != "origin/"+want {
						t.Errorf("upstream %q, want origin/%s", got, want)
					}
				}
				if got := run(t, dir, 0, "rev-parse", "--abbrev-ref", "origin/HEAD"); got != "origin/main" {
					t.Errorf("origin/HEAD is %q", got)
				}
				run(t, dir, 0, "fsck", "--strict", "--connectivity-only")
			}
		})
	}
}

func TestUnknownRefs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, ref := range []string{
		"nobody", "refs/heads/nobody", "refs/pull/9/head", strings.Repeat("1", 40), "1111111", "heads/main", "refs/heads/refs/heads/main",
	} {
		s := w.spec("ref", ref)
		_, err := w.clone(s).Prepare(t.Context(), s)
		if giterror.KindOf(err) != giterror.KindRefNotFound || !strings.Contains(err.Error(), w.Server.URL("r")) {
			t.Errorf("%s: %v, want a ref that is not found", ref, err)
		}
	}
}

// One clone follows the changes of the remote.
func TestRemoteMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	main := func() string { return w.remote("rev-parse", "refs/heads/main") }
	detached := main()
	for _, step := range []struct {
		name, ref string
		do        func()
		want      func() string // the commit; nil for not found
	}{
		{"push", "main", func() { w.Push("main") }, main},
		{"force push", "main", func() { w.remote("update-ref", "refs/heads/main", w.remote("rev-parse", "v1.0.0^{}")) }, main},
		{"moved tag", "v1.0.0", func() { w.remote("tag", "-f", "-a", "-m", "x", "v1.0.0", "feature/x") },
			func() string { return w.remote("rev-parse", "feature/x") }},
		{"default branch renamed", "", func() {
			w.remote("branch", "trunk", "feature/x")
			w.remote("symbolic-ref", "HEAD", "refs/heads/trunk")
		}, func() string { return w.remote("rev-parse", "trunk") }},
		{"branch deleted", "main", func() { w.remote("update-ref", "-d", "refs/heads/main") }, nil},
		{"directory in place of a branch", "main/x", func() { w.remote("branch", "main/x", "trunk~1") },
			func() string { return w.remote("rev-parse", "main/x") }},
		{"and back", "main", func() {
			w.remote("branch", "-D", "main/x")
			w.remote("branch", "main", "trunk")
		}, main},
		{"detached HEAD", "", func() { w.remote("update-ref", "--no-deref", "HEAD", detached) }, func() string { return detached }},
		{"detached HEAD moves", "", func() { w.remote("update-ref", "--no-deref", "HEAD", main()) }, main},
	} {
		step.do()
		s := w.spec("ref", step.ref)
		co, err := w.clone(s).Prepare(t.Context(), s)
		if step.want == nil {
			if giterror.KindOf(err) != giterror.KindRefNotFound {
				t.Errorf("%s: %v, want a ref that is not found", step.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", step.name, err)
			continue
		}
		if got, want := co.Resolution.Commit, step.want(); got != want {
			t.Errorf("%s: %s, want %s", step.name, got, want)
		}
		dir := w.Mount(co.Lower, 0)
		if got := run(t, dir, 0, "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q", step.name, got)
		}
		want := strings.ReplaceAll(w.remote("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads"), "refs/heads/", "refs/remotes/origin/")
		var got []string
		for line := range strings.SplitSeq(run(t, dir, 0, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes"), "\n") {
			if !strings.HasSuffix(line, " refs/remotes/origin/HEAD") {
				got = append(got, line)
			}
		}
		if got := strings.Join(got, "\n"); got != want {
			t.Errorf("%s: branches\n got %s\nwant %s", step.name, got, want)
		}
		co.Release()
	}
}
