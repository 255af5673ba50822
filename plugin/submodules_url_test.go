package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// ownSSH returns the URLs of a repository on a server as somebody would write them who reaches it
// over ssh.
func ownSSH(s *gitserver.Server, path string) []string {
	host, _, _ := strings.Cut(s.Addr(), ":")
	return []string{"git@" + host + ":" + path, "ssh://git@" + host + ":2222/" + path, "git://" + host + "/" + path}
}

// TestSubmodulesOfOwnHost: an ssh or git URL of the volume's host is fetched as the volume is, also
// within a submodule, and git submodule finds nothing to do in the container.
func TestSubmodulesOfOwnHost(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	nested := newRepo(t, s, "org/nested")
	nestedAt := nested.commit(map[string]string{"n": "nested\n"}, nil)
	sub := newRepo(t, s, "org/sub")
	subAt := sub.commit(map[string]string{"file": "one\n", ".gitmodules": section("n", "n", ownSSH(s, "org/nested.git")[0])}, map[string]string{"n": nestedAt})
	super := newRepo(t, s, "org/super")
	text, links := "", map[string]string{}
	for i, url := range append(ownSSH(s, "org/sub.git"), ownSSH(s, "org/sub")...) {
		name := string(rune('a' + i))
		text, links[name] = text+section(name, name, url), subAt
	}
	super.commit(map[string]string{".gitmodules": text}, links)
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("org/super"), "submodules": "recursive"})
	dir := p.mount("v", "1")
	for name := range links {
		if got := readFile(t, filepath.Join(dir, name, "n/n")); got != "nested\n" {
			t.Errorf("%s/n/n: %q", name, got)
		}
		want := s.URL("org/sub.git")
		if name >= "d" {
			want = s.URL("org/sub")
		}
		if got := testgit.Git(t, dir, "config", "submodule."+name+".url"); got != want {
			t.Errorf("%s: the URL is %q, want %q", name, got, want)
		}
		if got := testgit.Git(t, filepath.Join(dir, name), "remote", "get-url", "origin"); got != want {
			t.Errorf("%s: origin is %q, want %q", name, got, want)
		}
	}
	if got := s.Stats("org/sub").Clones; got != 1 {
		t.Errorf("it was cloned %d times, want once", got)
	}
	if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status: %q", got)
	}
	if got := testgit.Git(t, dir, "submodule", "update", "--init", "--recursive"); got != "" {
		t.Errorf("git submodule update: %q, want nothing to do", got)
	}
	testgit.Git(t, filepath.Join(dir, "a"), "fetch", "-q")
	p.unmount("v", "1")

	// A credential with the scope of the submodule is for it, and one of another scope is not.
	s.Protect("org/sub", gitserver.Login{User: "u", Password: "tok3n"})
	s.Protect("org/nested", gitserver.Login{User: "u", Password: "other"})
	put := func(name, repo, secret string) {
		t.Helper()
		if err := p.admin().PutCredential(t.Context(), name, api.PutCredential{Kind: api.HTTPS, Scope: s.URL(repo), User: "u", Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	put("sub", "org/sub", "tok3n")
	p.create("private", map[string]string{"repo": s.URL("org/super"), "submodules": "recursive", "subject": "other"})
	err := p.tryMount("private", "2")
	for _, want := range []string{`submodule "a/n" (` + s.URL("org/nested.git") + " for " + ownSSH(s, "org/nested.git")[0] + ")",
		"store a credential for its URL", "submodules=recursive,!a/n, or with submodule_errors=warn"} {
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "; to go without it, create the volume with submodules=recursive,!a,") {
			t.Errorf("mount: %v, want %q", err, want)
		}
	}
	for login := range s.Logins("org/nested") {
		if login.Password == "tok3n" {
			t.Errorf("the secret of another scope was sent: %+v", login)
		}
	}
	put("nested", "org/nested", "other")
	p.mount("private", "3")
	p.unmount("private", "3")
}

// TestSubmodulesBelowAPath: repositories of an http server may be below a path that ssh does not have.
func TestSubmodulesBelowAPath(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "scm/proj/sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	super := newRepo(t, s, "scm/proj/super")
	super.commit(map[string]string{".gitmodules": section("a", "a", ownSSH(s, "proj/sub.git")[1])}, map[string]string{"a": at})
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": s.URL("scm/proj/super"), "submodules": "true"})
	dir := p.mount("v", "1")
	if got, want := testgit.Git(t, dir, "config", "submodule.a.url"), s.URL("scm/proj/sub.git"); got != want {
		t.Errorf("the URL is %q, want %q", got, want)
	}
	if got := readFile(t, filepath.Join(dir, "a/file")); got != "one\n" {
		t.Errorf("a/file: %q", got)
	}
}

// TestSubmodulesAsWritten: with REWRITE_SUBMODULES=false the URL of .gitmodules is the only one.
func TestSubmodulesAsWritten(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "org/sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	super := newRepo(t, s, "org/super")
	super.commit(map[string]string{".gitmodules": section("a", "a", ownSSH(s, "org/sub.git")[0])}, map[string]string{"a": at})
	p := start(t, scratch(t), "REWRITE_SUBMODULES=false")
	p.create("v", map[string]string{"repo": s.URL("org/super"), "submodules": "true"})
	if err := p.tryMount("v", "1"); err == nil || !strings.Contains(err.Error(), "the setting ALLOW_SCHEMES can add it") || !strings.Contains(err.Error(), "submodules=true,!a,") {
		t.Errorf("mount: %v", err)
	}
}

// TestSomeSubmodules: what the volume does not want is not asked for, whatever is wrong with it.
func TestSomeSubmodules(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	nested := newRepo(t, s, "nested")
	nestedAt := nested.commit(map[string]string{"n": "nested\n"}, nil)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"file": "one\n", ".gitmodules": section("in/n", "in/n", "../nested") + section("gone", "gone", "../gone")},
		map[string]string{"in/n": nestedAt, "gone": nestedAt})
	super := newRepo(t, s, "super")
	super.commit(map[string]string{".gitmodules": section("libs/x", "libs/x", "../sub") + section("libs/y", "libs/y", "../missing") +
		section("tools/ssh", "tools/ssh", ownSSH(s, "missing")[0]) + section("bad", "tools/bad", "ext::sh")},
		map[string]string{"libs/x": at, "libs/y": at, "tools/ssh": at, "tools/bad": at})
	p := start(t, scratch(t))
	for i, tt := range []struct {
		option string
		there  []string
	}{
		{"true,libs/x", []string{"libs/x/file"}},
		{"true,!libs/y,!tools", []string{"libs/x/file"}},
		{"true,libs/*,!*/y", []string{"libs/x/file"}},
		{"recursive,libs/x/in/n", []string{"libs/x/file", "libs/x/in/n/n"}},
		{"recursive,libs,!libs/y,!libs/x/gone", []string{"libs/x/file", "libs/x/in/n/n"}},
	} {
		name := string(rune('a' + i))
		p.create(name, map[string]string{"repo": s.URL("super"), "submodules": tt.option})
		dir := p.mount(name, name)
		for _, file := range []string{"libs/x/file", "libs/x/in/n/n"} {
			_, err := os.Lstat(filepath.Join(dir, file))
			if want := strings.Contains(strings.Join(tt.there, " ")+" ", file+" "); (err == nil) != want {
				t.Errorf("%s: %s is there: %v, want %v", tt.option, file, err == nil, want)
			}
		}
		for _, empty := range []string{"libs/y", "tools/bad", "tools/ssh"} {
			if left, err := os.ReadDir(filepath.Join(dir, empty)); err != nil || len(left) > 0 {
				t.Errorf("%s: %s has %v, %v", tt.option, empty, left, err)
			}
		}
		if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("%s: status %q", tt.option, got)
		}
		if got := testgit.Git(t, dir, "submodule", "update", "--recursive"); got != "" {
			t.Errorf("%s: git submodule update: %q, want nothing to do", tt.option, got)
		}
		// git submodule update --init would ask the right server.
		if got, want := testgit.Git(t, dir, "config", "submodule.tools/ssh.url"), s.URL("missing"); got != want {
			t.Errorf("%s: the URL of what is left out is %q, want %q", tt.option, got, want)
		}
	}
	for _, repo := range []string{"missing", "gone"} {
		if got := s.Stats(repo); got != (gitserver.Stats{}) {
			t.Errorf("%s was asked for: %+v", repo, got)
		}
	}
	testgit.Git(t, "/", "clone", "-q", "--bare", s.Path("sub"), s.Path("missing"))
	p.create("later", map[string]string{"repo": s.URL("super"), "submodules": "true,!libs,!tools"})
	dir := p.mount("later", "later")
	testgit.Git(t, dir, "submodule", "update", "--init", "tools/ssh")
	if got := readFile(t, filepath.Join(dir, "tools/ssh/file")); got != "one\n" {
		t.Errorf("after git submodule update --init: %q", got)
	}
	p.create("none", map[string]string{"repo": s.URL("super"), "submodules": "true,libs/x,docs/*"})
	p.mount("none", "1")
	if got := p.warnings("none"); len(got) != 1 || !strings.Contains(got[0], `"docs/*": no submodule that is checked out matches it`) {
		t.Errorf("warnings: %q", got)
	}
}

// warnings returns those in the Status of a volume.
func (p *process) warnings(name string) (list []string) {
	p.t.Helper()
	all, _ := p.get(name).Status["warnings"].([]any)
	for _, text := range all {
		list = append(list, text.(string))
	}
	return list
}

// TestSubmoduleErrorsWarn: with submodule_errors=warn a submodule that can't be had leaves its
// directory empty, with a warning, and a later mount gets it when it is there.
func TestSubmoduleErrorsWarn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	advance := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	pointers := lfsRepo(t, s, lfs, "pointers")
	missing := lfs.Put("content\n")
	pointersAt := pointers.commit(map[string]string{".gitattributes": lfsserver.Attributes, "x.bin": missing.String(), "text": "t\n"}, nil)
	lfs.Deny(missing.OID, http.StatusNotFound)
	super := newRepo(t, s, "super")
	super.commit(map[string]string{".gitmodules": section("good", "good", "../sub") + section("private", "libs/private", "../private") +
		section("inside", "inside", "http://127.0.0.1:1/x") + section("lfs", "lfs", "../pointers") + section("bad", "bad", "ext::sh")},
		map[string]string{"good": at, "libs/private": at, "inside": at, "lfs": pointersAt, "bad": at})
	p := startWith(t, scratch(t), func(at *places) {
		at.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	}, "CHECKPOINT_TTL=0") // a checkpoint would keep the tree of its workspace
	p.create("strict", map[string]string{"repo": s.URL("super"), "submodules": "true"})
	if err := p.tryMount("strict", "0"); err == nil {
		t.Error("without the option the mount succeeds")
	}
	p.create("v", map[string]string{"repo": s.URL("super"), "submodules": "true", "submodule_errors": "warn"})
	first := p.mount("v", "1")
	check := func(dir string, there, empty []string) {
		t.Helper()
		for _, file := range there {
			if _, err := os.Lstat(filepath.Join(dir, file)); err != nil {
				t.Error(err)
			}
		}
		for _, name := range empty {
			if left, err := os.ReadDir(filepath.Join(dir, name)); err != nil || len(left) > 0 {
				t.Errorf("%s: %v, %v, want an empty directory", name, left, err)
			}
		}
		if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
			t.Errorf("status: %q", got)
		}
	}
	check(first, []string{"good/file"}, []string{"libs/private", "inside", "lfs", "bad"})
	warned := strings.Join(p.warnings("v"), "\n")
	for _, want := range []string{`"libs/private" is empty: `, s.URL("private"), `"inside" is empty: `, "may not lead there", `"lfs" is empty: `, `"bad" is empty: its URL "ext::sh" calls a transport helper`} {
		if !strings.Contains(warned, want) {
			t.Errorf("the warnings are %s\nwant %q", warned, want)
		}
	}
	for _, not := range []string{"leave it out here", ".gitmodules gives", "use https"} {
		if strings.Contains(warned, not) {
			t.Errorf("the warnings are %s\nwant no %q", warned, not)
		}
	}
	notUsed, _ := testgit.About(t, first)["not_used"].(map[string]any)
	if text, _ := notUsed["libs/private"].(string); !strings.Contains(text, "could not be had") {
		t.Errorf("helmdeck.json: not_used is %v", notUsed)
	}
	// As after a git submodule update that failed, another one in the container tries again.
	if got := testgit.Git(t, first, "config", "submodule.private.active"); got != "true" {
		t.Errorf("the submodule is active: %s", got)
	}

	// Without a change there is no other tree, and within a minute no other try.
	asked := func() int { return s.Stats("private").LsRefs + s.Stats("private").Infos }
	before := asked()
	p.mount("v", "2")
	if got := asked(); got != before {
		t.Errorf("it was asked for again at once: %d, before %d", got, before)
	}
	advance(time.Minute)
	p.mount("v", "3")
	if got := asked(); got == before {
		t.Error("it was not asked for again after a minute")
	}
	if n := p.partialTrees(); n != 1 {
		t.Errorf("%d trees, want one", n)
	}

	// It comes into being, and the next mount after a minute has it. The others stay.
	testgit.Git(t, "/", "clone", "-q", "--bare", s.Path("sub"), s.Path("private"))
	p.mount("v", "4")
	advance(time.Minute)
	dir := p.mount("v", "5")
	check(dir, []string{"good/file", "libs/private/file"}, []string{"inside", "lfs", "bad"})
	check(first, []string{"good/file"}, []string{"libs/private", "inside", "lfs", "bad"}) // a workspace stays as it is
	if got := testgit.Git(t, first, "submodule", "update", "libs/private"); !strings.Contains(got, "checked out") {
		t.Errorf("git submodule update: %q", got)
	}
	// What was fetched and could not be checked out is tried again after an hour.
	lfs.Deny(missing.OID, 0)
	advance(30 * time.Minute)
	check(p.mount("v", "6"), nil, []string{"lfs"})
	advance(30 * time.Minute)
	if got := readFile(t, filepath.Join(p.mount("v", "7"), "lfs/x.bin")); got != "content\n" {
		t.Errorf("lfs/x.bin: %q", got)
	}
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		p.unmount("v", id)
	}
	if got := p.warnings("v"); len(got) != 2 {
		t.Errorf("without a workspace: %q, want the warnings of the next", got)
	}
	// Only the newest tree stays.
	wait.For(t, "one tree to stay", func() error { return wait.Equal(p.partialTrees(), 1) })
}

// partialTrees returns the number of trees on disk.
func (p *process) partialTrees() int {
	p.t.Helper()
	list, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*/trees/*"))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list)
}

// TestSubmoduleErrorsWarnSlowly: a mount does not wait for a server that does not answer, if there is
// a tree without the submodule.
func TestSubmoduleErrorsWarnSlowly(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	var mu sync.Mutex
	now := time.Now()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	super := newRepo(t, s, "super")
	super.commit(map[string]string{".gitmodules": section("sub", "sub", "../sub")}, map[string]string{"sub": at})
	p := startWith(t, scratch(t), func(at *places) {
		at.now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	s.Route("sub", gitserver.Fail(http.StatusServiceUnavailable))
	p.create("v", map[string]string{"repo": s.URL("super"), "submodules": "true", "submodule_errors": "warn"})
	p.mount("v", "1")
	release := make(chan struct{})
	s.Route("sub", gitserver.Stall(release))
	mu.Lock()
	now = now.Add(time.Minute)
	mu.Unlock()
	dir := p.mount("v", "2")
	if left, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(left) > 0 {
		t.Errorf("%v, %v, want an empty directory", left, err)
	}
	close(release)
	s.Route("sub")
}
