package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/testgit"
)

// pusher is a work tree that pushes its commits to a repository of a server.
type pusher struct {
	t   *testing.T
	dir string
	url string
}

// newRepo makes an empty repository on the server, and a pusher for it.
func newRepo(t *testing.T, s *gitserver.Server, name string) pusher {
	t.Helper()
	testgit.Git(t, "/", "init", "-q", "--bare", "--initial-branch=main", s.Path(name))
	w := pusher{t, filepath.Join(t.TempDir(), name), s.URL(name)}
	testgit.Git(t, "/", "init", "-q", "--initial-branch=main", w.dir)
	return w
}

// commit writes files (contents by path), stages them and gitlinks (commits by
// path), pushes main, and returns the commit.
func (w pusher) commit(files, gitlinks map[string]string) string {
	w.t.Helper()
	for path, text := range files {
		full := filepath.Join(w.dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
		testgit.Git(w.t, w.dir, "add", "-f", "--", path)
	}
	for path, commit := range gitlinks {
		testgit.Git(w.t, w.dir, "update-index", "--add", "--cacheinfo", "160000,"+commit+","+path)
	}
	testgit.Git(w.t, w.dir, "commit", "-q", "--allow-empty", "-m", "change")
	testgit.Git(w.t, w.dir, "push", "-q", w.url, "HEAD:refs/heads/main")
	return testgit.Git(w.t, w.dir, "rev-parse", "HEAD")
}

// section returns a section of .gitmodules.
func section(name, path, url string) string {
	return fmt.Sprintf("[submodule \"%s\"]\n\tpath = %s\n\turl = %s\n", name, path, url)
}

// gitUser is testgit.GitAs in a workspace. It makes the parent of dir accessible, because a user in a
// container does not need access to the path above dir.
func gitUser(t *testing.T, uid, dir string, args ...string) string {
	t.Helper()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	id, err := strconv.Atoi(uid)
	if err != nil {
		t.Fatal(err)
	}
	return testgit.GitAs(t, id, dir, args...)
}

func TestSubmodulesMatchGitClone(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	nested := newRepo(t, s, "nested")
	nestedAt := nested.commit(map[string]string{"n": "nested\n"}, nil)
	sub := newRepo(t, s, "sub")
	first := sub.commit(map[string]string{
		"file": "one\n", ".gitmodules": section("deep/n", "deep/n", "../nested"),
	}, map[string]string{"deep/n": nestedAt})
	sub.commit(map[string]string{"file": "two\n"}, nil)
	super := newRepo(t, s, "super")
	super.commit(map[string]string{
		"top": "top\n",
		".gitmodules": section("na me", "lib/x", "../sub.git") +
			section("again", "again", s.URL("sub")) +
			section("unused", "unused", "ext::sh -c id") +
			section("later", "later", "https://10.0.0.1/later") + "\tupdate = none\n",
	}, map[string]string{"lib/x": first, "again": first, "unmapped": first, "later": first})

	for _, tt := range []struct {
		word, uid string
		update    []string
	}{
		{"true", "0", []string{"submodule", "update", "--init", "lib/x", "again"}},
		{"recursive", "0", []string{"submodule", "update", "--init", "--recursive", "lib/x", "again"}},
		{"recursive", "1000", []string{"submodule", "update", "--init", "--recursive", "lib/x", "again"}},
	} {
		t.Run(tt.word+" "+tt.uid, func(t *testing.T) {
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": s.URL("super"), "submodules": tt.word, "uid": tt.uid, "gid": tt.uid})
			dir := p.mount("v", "1")
			plain := filepath.Join(scratch(t), "plain")
			testgit.Git(t, "/", "clone", "-q", s.URL("super"), plain)
			testgit.Git(t, plain, tt.update...)

			places := []string{".", "lib/x", "again"}
			if tt.word == "recursive" {
				places = append(places, "lib/x/deep/n", "again/deep/n")
			}
			for _, place := range places {
				for _, args := range [][]string{
					{"status", "--porcelain"}, {"rev-parse", "HEAD"}, {"ls-files", "-s"}, {"for-each-ref"},
					{"config", "remote.origin.url"}, {"config", "--get-regexp", `^submodule\.`}, {"rev-parse", "--git-dir"},
					{"fsck", "--full"}, {"config", "core.worktree"}, {"log", "--format=%H"},
				} {
					switch args[len(args)-1] { // git config fails if the value does not exist
					case "core.worktree":
						if place == "." {
							continue
						}
					case `^submodule\.`:
						if strings.HasSuffix(place, "deep/n") || tt.word == "true" && place != "." {
							continue
						}
					}
					got := gitUser(t, tt.uid, filepath.Join(dir, place), args...)
					want := testgit.Git(t, filepath.Join(plain, place), args...)
					got, want = strings.ReplaceAll(got, dir, "TOP"), strings.ReplaceAll(want, plain, "TOP")
					if !slices.Equal(sortedLines(got), sortedLines(want)) {
						t.Errorf("%s: git %s\n got %s\nwant %s", place, strings.Join(args, " "), got, want)
					}
				}
			}
			before := s.Stats("sub")
			if got := gitUser(t, tt.uid, dir, tt.update...); got != "" {
				t.Errorf("git %s: %q, want nothing to do", strings.Join(tt.update, " "), got)
			}
			if got := gitUser(t, tt.uid, dir, "submodule", "status", "lib/x", "again"); !strings.HasPrefix(got, " "+first) || strings.Contains(got, "\n+") || strings.Contains(got, "\n-") {
				t.Errorf("submodule status: %q", got)
			}
			if after := s.Stats("sub"); after != before {
				t.Errorf("the container asked the remote: %+v, before %+v", after, before)
			}
			// git status shows an edit of the same size in the same second.
			if err := os.WriteFile(filepath.Join(dir, "lib/x/file"), []byte("1ne\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			if got := gitUser(t, tt.uid, filepath.Join(dir, "lib/x"), "status", "--porcelain"); got != " M file" {
				t.Errorf("status after an edit: %q", got)
			}
			for _, name := range []string{"unmapped", "later"} {
				if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) > 0 {
					t.Errorf("%s: %v, %v, want an empty directory", name, left, err)
				}
			}
			p.unmount("v", "1")
		})
	}
}

func TestSubmodulesAreFetchedOnceAndSharedByCommits(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "sub")
	first := sub.commit(map[string]string{"file": "one\n"}, nil)
	second := sub.commit(map[string]string{"file": "two\n"}, nil)
	super := newRepo(t, s, "super")
	modules := map[string]string{".gitmodules": section("sub", "sub", "../sub")}
	super.commit(modules, map[string]string{"sub": first})

	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("super"), "submodules": "true"})
	p.create("without", map[string]string{"repo": s.URL("super")})
	p.mount("v", "1")
	super.commit(nil, map[string]string{"sub": second})
	before := s.Stats("sub")
	dir := p.mount("v", "2")
	if got, err := os.ReadFile(filepath.Join(dir, "sub/file")); err != nil || string(got) != "two\n" {
		t.Errorf("sub/file after a push: %q, %v, want the new commit's", got, err)
	}
	if after := s.Stats("sub"); after != before {
		t.Errorf("the remote was asked for a stored commit: %+v, before %+v", after, before)
	}
	if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status: %q, want clean", got)
	}
	without := p.mount("without", "3")
	if left, err := os.ReadDir(filepath.Join(without, "sub")); err != nil || len(left) > 0 {
		t.Errorf("submodules=false: %v, %v, want an empty directory", left, err)
	}
	if got := testgit.Git(t, without, "status", "--porcelain"); got != "" {
		t.Errorf("status without submodules: %q, want clean", got)
	}
	for id, name := range map[string]string{"1": "v", "2": "v", "3": "without"} {
		p.unmount(name, id)
	}
}

func TestHostileSubmodulesAreRefused(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	other := testgit.Serve(t) // on loopback, but not the server of the volume
	canary := filepath.Join(t.TempDir(), "canary")
	self := newRepo(t, s, "self")
	selfAt := self.commit(nil, nil)
	for range 12 {
		selfAt = self.commit(map[string]string{".gitmodules": section("self", "self", "../self")}, map[string]string{"self": selfAt})
	}
	for _, tt := range []struct {
		name, url, module, path string
		want                    string
	}{
		{"option as URL", "--upload-pack=touch " + canary, "m", "m", "dash"},
		{"helper", "ext::sh -c 'touch " + canary + "'", "m", "m", "helper"},
		{"file", "file:///etc", "m", "m", "scheme file"},
		{"local path", "/etc", "m", "m", "not a URL"},
		{"ssh option as host", "ssh://-oProxyCommand=touch " + canary + "/x", "m", "m", "m"},
		{"ssh is not allowed here", "ssh://git@github.com/x", "m", "m", "ALLOW_SCHEMES"},
		{"loopback", "http://127.0.0.1:1/x", "m", "m", "may not lead there"},
		{"another server on loopback", other.URL("x"), "m", "m", "may not lead there"},
		{"localhost", "http://localhost:2375/x", "m", "m", "may not lead there"},
		{"link-local", "http://169.254.169.254/latest", "m", "m", "may not lead there"},
		{"private", "https://10.1.2.3/x", "m", "m", "may not lead there"},
		{"CGNAT", "https://100.64.0.1/x", "m", "m", "may not lead there"},
		{"IPv6 loopback", "http://[::1]:80/x", "m", "m", "may not lead there"},
		{"IPv4 in IPv6", "http://[::ffff:127.0.0.1]/x", "m", "m", "may not lead there"},
		{"unspecified", "http://0.0.0.0:1/x", "m", "m", "may not lead there"},
		{"above the top", "../../../x", "m", "m", "above the top"},
		{"password", "https://u:p@github.com/x", "m", "m", "password"},
		{"name leads out", "../sub", "../../hooks", "m", "empty, . or .."},
		{"name leads out with backslashes", "../sub", `..\\..\\hooks`, "m", "empty, . or .."},
		{"name begins with a dash", "../sub", "-n", "m", "dash"},
		{"name in .git", "../sub", "a/.git/b", "m", ".git"},
		{"name with a carriage return", "../sub", "m\r", "m", "control character"},
		{"path begins with a dash", "../sub", "m", "-p", "dash"},
		{"path with a carriage return", "../sub", "m", "\"m\r\"", "control character"},
		{"the repository is not there", "../missing", "m", "m", s.URL("missing")},
		{"no end", "../self", "m", "m", "nested more than 10 deep"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			short.OneOf(t, 4)
			commit := at
			if tt.url == "../self" {
				commit = selfAt
			}
			super := newRepo(t, s, "super")
			defer os.RemoveAll(s.Path("super"))
			super.commit(map[string]string{"top": "x", ".gitmodules": section(tt.module, tt.path, tt.url)},
				map[string]string{strings.Trim(tt.path, `"`): commit})
			p := start(t, scratch(t))
			p.create("v", map[string]string{"repo": s.URL("super"), "submodules": "recursive"})
			_, err := p.Mount(t.Context(), "v", "1")
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "submodule") {
				t.Errorf("mount: %v, want an error about the submodule with %q", err, tt.want)
			}
			if _, err := os.Lstat(canary); err == nil {
				t.Error("the canary ran")
			}
			p.stop() // Create's work in the background may still try it again
			if points, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*/trees/*")); err != nil || len(points) > 0 {
				t.Errorf("left behind: %v, %v", points, err)
			}
			t.Log(err)
		})
	}
	if got := other.Stats("x"); got != (gitserver.Stats{}) {
		t.Errorf("another server on loopback was asked: %+v", got)
	}
}

func TestSubmodulesAndLFSInOtherShapes(t *testing.T) {
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	in, out := lfs.Put("in the cone\n"), lfs.Put("out of the cone\n")
	sub := lfsRepo(t, s, lfs, "sub")
	first := sub.commit(map[string]string{"file": "one\n"}, nil)
	sub.commit(map[string]string{"file": "two\n"}, nil)
	super := lfsRepo(t, s, lfs, "super")
	for _, option := range []string{"uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"} {
		if err := s.Configure("super", option, "true"); err != nil {
			t.Fatal(err)
		}
	}
	super.commit(map[string]string{"a/early": "x"}, nil)
	super.commit(map[string]string{
		".gitattributes": lfsserver.Attributes, "a/in.bin": in.String(), "b/out.bin": out.String(),
		".gitmodules": section("in", "a/sub", "../sub") + section("out", "b/sub", "../sub"),
	}, map[string]string{"a/sub": first, "b/sub": first})
	p := start(t, scratch(t))
	for i, tt := range []struct {
		name, option, value string
		sparse              bool
	}{
		{name: "sparse", option: "sparse", value: "a", sparse: true}, // first, to check that nothing outside of the cone is fetched
		{name: "depth", option: "depth", value: "1"},
		{name: "filter", option: "filter", value: "blob:none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.create(tt.name, map[string]string{"repo": s.URL("super"), "submodules": "true", tt.option: tt.value})
			dir := p.mount(tt.name, "1")
			want := map[string]string{"a/in.bin": "in the cone\n", "a/sub/file": "one\n"}
			if !tt.sparse {
				want["b/out.bin"], want["b/sub/file"] = "out of the cone\n", "one\n"
			} else if _, err := os.Lstat(filepath.Join(dir, "b")); err == nil {
				t.Error("b exists, but is not in the cone")
			}
			for path, text := range want {
				if got := readFile(t, filepath.Join(dir, path)); got != text {
					t.Errorf("%s: %q, want %q", path, got, text)
				}
			}
			for _, place := range []string{"", "a/sub"} {
				if got := testgit.Git(t, filepath.Join(dir, place), "status", "--porcelain"); got != "" {
					t.Errorf("status in %q: %q, want clean", place, got)
				}
			}
			if i == 0 && lfs.Stats(out.OID).Asked != 0 {
				t.Error("an object out of the cone was asked for")
			}
			p.unmount(tt.name, "1")
		})
	}
	if got := s.Stats("sub").Clones; got != 1 {
		t.Errorf("the submodule was cloned %d times, want once", got)
	}
}
