package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// emptyTrunk is emptyRemote with the default branch trunk, which its name alone does not tell.
func emptyTrunk(t *testing.T, format string) *gitserver.Server {
	t.Helper()
	s := emptyRemote(t, format)
	testgit.Git(t, s.Path("r"), "symbolic-ref", "HEAD", "refs/heads/trunk")
	for _, key := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		if err := s.Configure("r", key, "true"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestEmptyRepository compares volumes of a repository without commits with what git clone makes,
// for each shape and mode, before and after the first push, and when the branch is deleted again.
func TestEmptyRepository(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, format string
		fault        gitserver.Fault
	}{{"sha1", "sha1", nil}, {"sha256", "sha256", nil}, {"protocol 0", "sha1", protocol0}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := emptyTrunk(t, tt.format)
			if tt.fault != nil {
				s.Route("r", tt.fault)
			}
			plain := plainClone(t, s.URL("r"))
			branch := testgit.Git(t, plain, "symbolic-ref", "--short", "HEAD")
			if want := "trunk"; tt.fault == nil && branch != want {
				t.Fatalf("git clone is at %s, want %s", branch, want)
			}
			p := start(t, scratch(t))
			shapes := map[string]map[string]string{
				"plain": {}, "depth": {"depth": "1"}, "cold": {"cold": "shallow"}, "filter": {"filter": "blob:none"}, "keep": {"mode": "keep"},
				"shared": {"mode": "shared"}, "sparse": {"sparse": "src"}, "uid": {"uid": "1000", "gid": "1000"}, "warm": {"warm": "out"},
				"submodules": {"submodules": "recursive"}, "all": {"depth": "2", "filter": "blob:none", "sparse": "src"},
			}
			dirs := map[string]string{}
			for name, options := range shapes {
				options["repo"] = s.URL("r")
				p.create(name, options)
				dir := p.mount(name, "1")
				dirs[name] = dir
				for _, args := range [][]string{
					{"symbolic-ref", "HEAD"}, {"status", "--porcelain=v2", "--branch"}, {"for-each-ref"}, {"remote", "get-url", "origin"},
					{"config", "--get-regexp", "^branch"}, {"ls-files"}, {"fsck"},
				} {
					if got, want := testgit.GitAny(t, dir, args...), testgit.Git(t, plain, args...); got != want {
						t.Errorf("%s: git %s: got %q, want %q", name, args, got, want)
					}
				}
				if got := testgit.GitAny(t, dir, "rev-parse", "--show-object-format"); got != tt.format { // git clone copies it from version 2.41 on
					t.Errorf("%s has the format %s", name, got)
				}
				if got := testdir.Names(t, dir); !slices.Equal(slices.DeleteFunc(got, func(n string) bool { return n == "out" }), []string{".git"}) {
					t.Errorf("%s has %q", name, got)
				}
				if st := p.get(name).Status; st["commit"] != "" || st["pulled_sha"] != "" || st["last_error"] != "" || st["state"] != "ready" {
					t.Errorf("%s: status %v", name, st)
				}
			}
			// The first commit.
			write(t, filepath.Join(dirs["plain"], "f"), "x")
			testgit.Git(t, dirs["plain"], "add", "f")
			testgit.Git(t, dirs["plain"], "commit", "-qm", "first")
			testgit.Git(t, dirs["plain"], "push", "-q", s.Path("r"), "HEAD:refs/heads/trunk")
			first := testgit.Git(t, dirs["plain"], "rev-parse", "HEAD")
			for name := range shapes {
				if name == "keep" || name == "shared" {
					continue
				}
				p.unmount(name, "1")
				if tt.fault != nil && branch != "trunk" { // HEAD of the server is at trunk
					branch = "trunk"
				}
				dir := p.mount(name, "2")
				if got := testgit.GitAny(t, dir, "rev-parse", "HEAD"); got != first {
					t.Errorf("%s after the first push: at %s, want %s", name, got, first)
				}
				if got := testgit.GitAny(t, dir, "status", "--porcelain=v2", "--branch"); !strings.Contains(got, "# branch.upstream origin/trunk") || !strings.Contains(got, "+0 -0") {
					t.Errorf("%s after the first push: %s", name, got)
				}
				if st := p.get(name).Status; st["commit"] != first || st["reused"] != true {
					t.Errorf("%s after the first push: status %v", name, st)
				}
				p.unmount(name, "2")
			}
			// The kept workspace stays as it is, one commit behind.
			p.unmount("keep", "1")
			if got := testgit.GitAny(t, p.mount("keep", "2"), "for-each-ref"); got != "" {
				t.Errorf("the kept workspace has %q", got)
			}
			wait.For(t, "how far it is behind", func() error { return wait.Equal[any](p.get("keep").Status["behind"], float64(1)) })
			// The branch is deleted.
			testgit.Git(t, s.Path("r"), "update-ref", "-d", "refs/heads/trunk")
			for _, name := range []string{"plain", "depth", "filter", "cold"} {
				dir := p.mount(name, "3")
				for _, args := range [][]string{{"symbolic-ref", "HEAD"}, {"for-each-ref"}, {"ls-files"}, {"status", "--porcelain"}} {
					got, want := testgit.GitAny(t, dir, args...), map[string]string{"symbolic-ref": "refs/heads/trunk"}[args[0]]
					if args[0] == "symbolic-ref" && tt.fault != nil {
						want = got // whatever git clone takes
					}
					if got != want {
						t.Errorf("%s, empty again: git %s: %q, want %q", name, args, got, want)
					}
				}
				p.unmount(name, "3")
			}
		})
	}
}

// TestEmptyRepositoryRefs checks the errors for a named ref of an empty repository, and for one that
// has branches, and a HEAD at none of them.
func TestEmptyRepositoryRefs(t *testing.T) {
	t.Parallel()
	s := emptyTrunk(t, "sha1")
	p := start(t, scratch(t))
	want := func(options map[string]string, words ...string) {
		t.Helper()
		options["repo"] = s.URL("r")
		err := p.tryCreate("v", options)
		for _, w := range words {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v: %v, want %q", options, err, w)
			}
		}
	}
	for _, ref := range []string{"main", "trunk", "refs/heads/trunk", "v1"} {
		want(map[string]string{"ref": ref}, `find ref "`+ref+`" at`, "no branches yet", "leave the option ref out")
		want(map[string]string{"ref": ref, "depth": "1"}, "no branches yet", "leave the option ref out")
	}
	id := push(t, s, "main", "x")
	want(map[string]string{}, "its HEAD points to refs/heads/trunk, which does not exist", "name a branch")
	want(map[string]string{"depth": "1"}, "its HEAD points to refs/heads/trunk, which does not exist", "name a branch")
	want(map[string]string{"ref": "nothing"}, "ref not found", "name a branch")
	// Tags without branches: git clone leaves HEAD at the default branch, without a commit.
	testgit.Git(t, s.Path("r"), "tag", "v1", id)
	testgit.Git(t, s.Path("r"), "update-ref", "-d", "refs/heads/main")
	p.create("tags", map[string]string{"repo": s.URL("r")})
	same(t, p.mount("tags", "1"), plainClone(t, s.URL("r")), "symbolic-ref HEAD", "for-each-ref", "status --porcelain=v2 --branch", "ls-files")
}

// TestEmptyRepositoryOutbound looks at, pushes, exports, checkpoints, and begins again with, a workspace of an
// empty repository.
func TestEmptyRepositoryOutbound(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			s := emptyTrunk(t, format)
			s.Protect("r", gitserver.Login{User: "u", Password: "secret-of-the-push"})
			p := start(t, scratch(t))
			ctx, admin := t.Context(), p.admin()
			if err := admin.PutCredential(ctx, "c", api.PutCredential{Kind: "https", Scope: s.URL("r"), User: "u", Secret: "secret-of-the-push", Allow: "push"}); err != nil {
				t.Fatal(err)
			}
			p.create("v", map[string]string{"repo": s.URL("r"), "auth": "container"})
			dir := p.mount("v", "1")
			id := p.workspaceOf("v")
			st, err := admin.WorkspaceStatus(ctx, id, api.Compare{})
			if err != nil || st.Commit != "" || st.Branch != "trunk" || st.Head != "" || st.HeadError != "" || st.Ahead == nil || *st.Ahead != 0 || st.Added != 0 {
				t.Errorf("status of an unchanged workspace: %+v, %v", st, err)
			}
			if _, err := admin.Outbound(id).Push(ctx, api.Push{}, nil); err == nil || !strings.Contains(err.Error(), `branch "trunk" of the workspace has no commit yet`) {
				t.Errorf("push without a commit: %v", err)
			}
			write(t, filepath.Join(dir, "f"), "x\n")
			testgit.Git(t, dir, "add", "f")
			testgit.Git(t, dir, "commit", "-qm", "first")
			first := testgit.Git(t, dir, "rev-parse", "HEAD")
			if st, err = admin.WorkspaceStatus(ctx, id, api.Compare{}); err != nil || st.Head != first || st.Ahead == nil || *st.Ahead != 1 || st.Added != 1 {
				t.Errorf("status after a commit: %+v, %v", st, err)
			}
			var patch, bundle bytes.Buffer
			if err := admin.WorkspaceDiff(ctx, id, api.Compare{}, &patch); err != nil || !strings.Contains(patch.String(), "+x\n") {
				t.Errorf("diff: %q, %v", patch.String(), err)
			}
			if _, _, err := admin.Outbound(id).Bundle(ctx, api.Bundle{}, &bundle); err != nil {
				t.Errorf("bundle: %v", err)
			}
			clone := filepath.Join(scratch(t), "from-bundle")
			if err := os.WriteFile(clone+".bundle", bundle.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			testgit.Git(t, "/", "clone", "-q", "-b", "trunk", clone+".bundle", clone)
			if got := testgit.Git(t, clone, "rev-parse", "HEAD"); got != first {
				t.Errorf("the bundle has %s, want %s", got, first)
			}

			// The workspace ends, and another one begins with what it left.
			p.unmount("v", "1")
			d := p.checkpoints(t, 1)[0]
			if d.Commit != "" || d.Ref != "refs/heads/trunk" {
				t.Errorf("checkpoint %+v", d)
			}
			p.create("again", map[string]string{"repo": s.URL("r"), "auth": "container", "from": d.ID})
			dir = p.mount("again", "1")
			if got := testgit.Git(t, dir, "rev-parse", "HEAD"); got != first {
				t.Errorf("restored: at %s, want %s", got, first)
			}
			res, err := admin.Outbound(p.workspaceOf("again")).Push(ctx, api.Push{}, nil)
			if err != nil || res.NewCommit != first || res.OldCommit != "" || res.RemoteBranch != "trunk" || res.Commits != 1 || res.Objects != 3 {
				t.Fatalf("push: %+v, %v", res, err)
			}
			if got := testgit.Git(t, s.Path("r"), "rev-parse", "refs/heads/trunk"); got != first {
				t.Errorf("the remote is at %s, want %s", got, first)
			}
			if dir = p.mount("v", "2"); testgit.Git(t, dir, "rev-parse", "HEAD") != first {
				t.Error("the next mount does not have the commit")
			}
		})
	}
}
