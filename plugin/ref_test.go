package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// emptyRemote starts a git server with an empty repository "r" in an object format.
func emptyRemote(t *testing.T, format string) *gitserver.Server {
	t.Helper()
	s := testgit.Serve(t)
	testgit.Git(t, "/", "-c", "init.defaultBranch=main", "init", "-q", "--bare", "--object-format="+format, s.Path("r"))
	return s
}

// push commits to a ref of the remote, like a push from another clone.
func push(t *testing.T, s *gitserver.Server, ref, text string) string {
	t.Helper()
	id, err := gitserver.Commit(s.Path("r"), ref, gitserver.Change{Path: "file", Content: text})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestEveryKindOfRef(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			short.OneOf(t, 4)
			s := emptyRemote(t, format)
			url, bare := s.URL("r"), s.Path("r")
			at := map[string]string{}
			for _, ref := range []string{
				"main", "both", "feature/a/b", "c++", "issue#7", "Grüße/世界", "deadbee", "-x", `quo"te`, "per%cent",
				"refs/pull/7/head", "refs/merge-requests/1/head", "refs/helmdeck/HEAD", "refs/strange",
			} {
				at[ref] = push(t, s, ref, ref)
			}
			first := push(t, s, "main", "second")
			at["main"], first = first, at["main"]
			testgit.Git(t, bare, "tag", "light", first)
			testgit.Git(t, bare, "tag", "-am", "annotated", "annotated", first)
			testgit.Git(t, bare, "tag", "-am", "nested", "nested", "annotated")
			testgit.Git(t, bare, "tag", "-am", "nested again", "nested-again", "nested")
			testgit.Git(t, bare, "tag", "both", first)
			testgit.Git(t, bare, "tag", "-am", "a pull request's", "of-a-pull", at["refs/pull/7/head"])
			testgit.Git(t, bare, "tag", "of-a-tree", first+"^{tree}")
			testgit.Git(t, bare, "tag", "-am", "of a blob", "of-a-blob", first+":file")

			p := start(t, scratch(t))
			for i, c := range []struct {
				ref    string
				commit string
				branch string // the branch of HEAD; empty: detached
			}{
				{"", at["main"], "main"},
				{"HEAD", at["main"], "main"},
				{"main", at["main"], "main"},
				{"both", at["both"], "both"},
				{"refs/heads/both", at["both"], "both"},
				{"refs/tags/both", first, ""},
				{"feature/a/b", at["feature/a/b"], "feature/a/b"},
				{"c++", at["c++"], "c++"},
				{"issue#7", at["issue#7"], "issue#7"},
				{"Grüße/世界", at["Grüße/世界"], "Grüße/世界"},
				{"deadbee", at["deadbee"], "deadbee"}, // a branch takes precedence over a commit
				{"refs/heads/-x", at["-x"], "-x"},
				{`quo"te`, at[`quo"te`], `quo"te`},
				{"per%cent", at["per%cent"], "per%cent"},
				{"light", first, ""},
				{"annotated", first, ""},
				{"nested", first, ""},
				{"nested-again", first, ""},
				{"refs/tags/nested-again", first, ""},
				{"of-a-pull", at["refs/pull/7/head"], ""},
				{"refs/pull/7/head", at["refs/pull/7/head"], ""},
				{"refs/merge-requests/1/head", at["refs/merge-requests/1/head"], ""},
				{"refs/helmdeck/HEAD", at["refs/helmdeck/HEAD"], ""},
				{"refs/strange", at["refs/strange"], ""},
				{first, first, ""},
				{strings.ToUpper(first), first, ""},
				{first[:9], first, ""},
				{at["refs/pull/7/head"], at["refs/pull/7/head"], ""}, // the commit is on no branch
			} {
				name := "v" + strconv.Itoa(i)
				options := map[string]string{"repo": url, "ref": c.ref}
				if c.ref == "" {
					delete(options, "ref")
				}
				p.create(name, options)
				dir := p.mount(name, "1")
				if got := testgit.Git(t, dir, "rev-parse", "HEAD"); got != c.commit {
					t.Errorf("ref %q: at %s, want %s", c.ref, got, c.commit)
				}
				if got, want := content(t, dir, ".git/HEAD"), headOf(c.branch, c.commit); got != want {
					t.Errorf("ref %q: HEAD is %q, want %q", c.ref, got, want)
				}
				clean(t, dir)
				if c.branch != "" {
					if got, want := testgit.Git(t, dir, "rev-parse", "--abbrev-ref", "@{upstream}"), "origin/"+c.branch; got != want {
						t.Errorf("ref %q: upstream %q, want %q", c.ref, got, want)
					}
				}
				p.unmount(name, "1")
			}
			dir := p.mount("v0", "2")
			same(t, dir, plainClone(t, url), "for-each-ref", "fsck --full --no-dangling", "rev-parse --show-object-format")

			for i, c := range []struct{ ref, want string }{
				{"nothing", `find ref "nothing" at`},
				{"refs/pull/8/head", `find ref "refs/pull/8/head" at`},
				{"abcdef123456", `find ref "abcdef123456" at`},
				{strings.Repeat("0123456789abcdef", 4)[:len(first)], "ref not found"},
				{"of-a-tree", "not a commit"},
				{"of-a-blob", "not a commit"},
			} {
				name := "bad" + strconv.Itoa(i)
				err := p.tryCreate(name, map[string]string{"repo": url, "ref": c.ref})
				if err == nil {
					err = p.tryMount(name, "1")
				}
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("ref %q: %v, want %q", c.ref, err, c.want)
				}
			}
		})
	}
}

// headOf returns the content of .git/HEAD.
func headOf(branch, commit string) string {
	if branch == "" {
		return commit + "\n"
	}
	return "ref: refs/heads/" + branch + "\n"
}

// TestMovedRefs mounts a volume, changes the remote, and mounts again.
func TestMovedRefs(t *testing.T) {
	t.Parallel()
	const gone = "error: "
	for _, c := range []struct {
		name   string
		ref    string
		change func(t *testing.T, s *gitserver.Server)
		want   string // a revision of the remote, or gone with a part of the error
		branch string
	}{
		{"a push", "main", func(t *testing.T, s *gitserver.Server) {
			push(t, s, "main", "more")
		}, "main", "main"},
		{"a force-push", "main", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "update-ref", "refs/heads/main", "main~1")
			push(t, s, "main", "instead")
		}, "main", "main"},
		{"a force-push to an older commit", "main", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "update-ref", "refs/heads/main", "main~1")
		}, "main", "main"},
		{"a moved tag", "tag", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "tag", "-f", "tag", "other")
		}, "other", ""},
		{"a tag that becomes annotated at the same commit", "tag", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "tag", "-fam", "now annotated", "tag", "tag")
		}, "tag^{commit}", ""},
		{"a tag that is a tree now", "tag", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "tag", "-f", "tag", "other^{tree}")
		}, gone + "not a commit", ""},
		{"a tag that gets a branch of its name", "tag", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "tag", "other")
		}, "refs/heads/tag", "tag"},
		{"a deleted branch", "other", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "-D", "other")
		}, gone + `find ref "other" at`, ""},
		{"a deleted tag", "tag", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "tag", "-d", "tag")
		}, gone + `find ref "tag" at`, ""},
		{"a file that becomes a directory", "other", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "-m", "other", "spare")
			testgit.Git(t, s.Path("r"), "branch", "other/deeper", "main")
			testgit.Git(t, s.Path("r"), "tag", "-d", "tag")
			testgit.Git(t, s.Path("r"), "tag", "tag/deeper", "main")
		}, gone + `find ref "other" at`, ""},
		{"a directory that becomes a file, under another branch", "main", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "-D", "dir/branch")
			testgit.Git(t, s.Path("r"), "branch", "dir", "other")
			push(t, s, "main", "more")
		}, "main", "main"},
		{"a directory that becomes a file", "dir/branch", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "-m", "dir/branch", "dir")
		}, gone + `find ref "dir/branch" at`, ""},
		{"a renamed default branch", "HEAD", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "branch", "-m", "main", "trunk")
			testgit.Git(t, s.Path("r"), "symbolic-ref", "HEAD", "refs/heads/trunk")
		}, "trunk", "trunk"},
		{"another default branch", "HEAD", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "symbolic-ref", "HEAD", "refs/heads/other")
		}, "other", "other"},
		{"a default branch that is detached", "HEAD", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "update-ref", "--no-deref", "HEAD", "main~1")
		}, "HEAD", ""},
		{"a moved pull request", "refs/pull/7/head", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "update-ref", "refs/pull/7/head", "other")
		}, "other", ""},
		{"a pull request that becomes a directory", "refs/pull/7/head", func(t *testing.T, s *gitserver.Server) {
			testgit.Git(t, s.Path("r"), "update-ref", "-d", "refs/pull/7/head")
			testgit.Git(t, s.Path("r"), "update-ref", "refs/pull/7/head/deeper", "other")
		}, gone + `find ref "refs/pull/7/head" at`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			short.OneOf(t, 4)
			s := emptyRemote(t, "sha1")
			if err := s.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
				t.Fatal(err)
			}
			for _, ref := range []string{"main", "main", "other", "dir/branch", "refs/pull/7/head"} {
				push(t, s, ref, ref+"'s")
			}
			testgit.Git(t, s.Path("r"), "tag", "tag", "main")
			p := start(t, scratch(t))
			shapes := []map[string]string{{"cold": "shallow"}, {}, {"depth": "1", "filter": "blob:none"}}
			for i, shape := range shapes {
				shape["repo"] = s.URL("r")
				name := "v" + strconv.Itoa(i)
				p.create(name, mapWith(shape, "ref", c.ref))
				p.mount(name, "1")
			}
			c.change(t, s)
			plain := plainClone(t, s.URL("r"))
			for i, shape := range shapes {
				name := "v" + strconv.Itoa(i)
				if text, ok := strings.CutPrefix(c.want, gone); ok {
					if err := p.tryMount(name, "2"); err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("%v: mount: %v, want %q", shape, err, text)
					}
					p.create("main"+name, mapWith(shape, "ref", "main")) // other refs still work
					same(t, p.mount("main"+name, "1"), plain, "for-each-ref", "status --porcelain")
					continue
				}
				dir := p.mount(name, "2")
				commit := testgit.Git(t, s.Path("r"), "rev-parse", c.want)
				if got, want := content(t, dir, ".git/HEAD"), headOf(c.branch, commit); got != want {
					t.Errorf("%v: HEAD is %q, want %q", shape, got, want)
				}
				if got := testgit.Git(t, dir, "rev-parse", "HEAD"); got != commit {
					t.Errorf("%v: at %s, want %s", shape, got, commit)
				}
				clean(t, dir)
				same(t, dir, plain, "for-each-ref refs/remotes refs/tags")
			}
		})
	}
}

func mapWith(m map[string]string, key, value string) map[string]string {
	with := map[string]string{key: value}
	for k, v := range m {
		with[k] = v
	}
	return with
}

// TestFetchForAnotherRef checks which commits volumes with refresh=never or a duration get after a
// fetch for another volume.
func TestFetchForAnotherRef(t *testing.T) {
	t.Parallel()
	s := emptyRemote(t, "sha1")
	push(t, s, "main", "main's")
	push(t, s, "other", "other's")
	push(t, s, "refs/pull/7/head", "pull's")
	p := start(t, scratch(t))
	p.create("head", map[string]string{"repo": s.URL("r"), "refresh": "never"})
	p.create("pull", map[string]string{"repo": s.URL("r"), "refresh": "never", "ref": "refs/pull/7/head"})
	p.create("other", map[string]string{"repo": s.URL("r"), "ref": "other"})
	for _, name := range []string{"head", "pull", "other"} {
		p.mount(name, "1")
	}
	testgit.Git(t, s.Path("r"), "symbolic-ref", "HEAD", "refs/heads/other")
	pulled := testgit.Git(t, s.Path("r"), "rev-parse", "refs/pull/7/head")
	testgit.Git(t, s.Path("r"), "update-ref", "refs/pull/7/head", "main")
	push(t, s, "other", "more")
	p.mount("other", "2")
	if got, want := content(t, p.mount("head", "2"), ".git/HEAD"), "ref: refs/heads/other\n"; got != want {
		t.Errorf("HEAD after a fetch that saw another default branch: %q, want %q", got, want)
	}
	if got := testgit.Git(t, p.mount("pull", "2"), "rev-parse", "HEAD"); got != pulled {
		t.Errorf("a ref that was not fetched: at %s, want %s", got, pulled)
	}
}

func TestNamedCommitSurvivesForcePush(t *testing.T) {
	t.Parallel()
	for _, shape := range []map[string]string{{}, {"depth": "1"}, {"filter": "blob:none"}} {
		for _, abbreviated := range []bool{false, true} {
			s := emptyRemote(t, "sha1")
			if err := s.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
				t.Fatal(err)
			}
			bare := s.Path("r")
			push(t, s, "main", "one")
			named := push(t, s, "main", "two")
			shape := mapWith(shape, "repo", s.URL("r"))
			ref := named
			if abbreviated {
				ref = named[:10]
			}
			p := start(t, scratch(t))
			p.create("named", mapWith(shape, "ref", ref))
			p.create("main", mapWith(shape, "ref", "main"))
			dir := p.mount("named", "1")
			if got := testgit.Git(t, dir, "rev-parse", "HEAD"); got != named {
				t.Errorf("%v: at %s, want %s", shape, got, named)
			}
			p.unmount("named", "1")

			testgit.Git(t, bare, "update-ref", "refs/heads/main", "main~1")
			instead := push(t, s, "main", "instead")
			testgit.Git(t, bare, "-c", "gc.pruneExpire=now", "-c", "gc.reflogExpire=now", "gc", "-q", "--prune=now")
			if got := testgit.Git(t, p.mount("main", "1"), "rev-parse", "HEAD"); got != instead {
				t.Errorf("%v: main at %s, want %s", shape, got, instead)
			}
			for _, store := range p.glob("clones/*/*/store/*.git") {
				if got := testgit.Git(t, store, "-c", "safe.directory=*", "for-each-ref", "--format=%(objectname)", "refs/helmdeck/commits"); !slices.Contains(strings.Fields(got), named) {
					t.Errorf("%v: the store keeps %q, want %s", shape, got, named)
				}
			}
			again := p.mount("named", "2")
			if got := testgit.Git(t, again, "log", "-1", "--format=%H"); got != named {
				t.Errorf("%v: after a force-push at %s, want %s", shape, got, named)
			}
			clean(t, again)

		}
	}
}

func TestKnownCommitNeedsNoRemote(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t))
	p.create("main", map[string]string{"repo": s.URL("sample")})
	p.mount("main", "1")
	old := testgit.Git(t, s.Path("sample"), "rev-parse", "main~2")
	s.Wrap(gitserver.Fail(http.StatusServiceUnavailable))
	p.create("old", map[string]string{"repo": s.URL("sample"), "ref": old})
	dir := p.mount("old", "1")
	if got := testgit.Git(t, dir, "rev-parse", "HEAD"); got != old {
		t.Errorf("at %s, want %s", got, old)
	}
	clean(t, dir)
}

func TestShapesOfSHA256(t *testing.T) {
	t.Parallel()
	s := emptyRemote(t, "sha256")
	if err := s.Configure("r", "uploadpack.allowFilter", "true"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "two", "three"} {
		if _, err := gitserver.Commit(s.Path("r"), "main",
			gitserver.Change{Path: "a/file", Content: text}, gitserver.Change{Path: "b/file", Content: text}); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, scratch(t))
	for i, shape := range []map[string]string{
		{"cold": "shallow"}, {"depth": "1"}, {"filter": "blob:none"}, {"sparse": "a"}, {"depth": "2", "filter": "blob:none", "sparse": "b"},
	} {
		name := "v" + strconv.Itoa(i)
		p.create(name, mapWith(shape, "repo", s.URL("r")))
		dir := p.mount(name, "1")
		clean(t, dir)
		testgit.Git(t, dir, "log", "-p")
		if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		testgit.Git(t, dir, "add", "new")
		testgit.Git(t, dir, "commit", "-qm", "mine")
		testgit.Git(t, dir, "push", "-q", "origin", "HEAD:mine/"+name)
	}
}
