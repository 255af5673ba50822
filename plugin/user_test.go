package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// withUser puts a user into the URL of a repository.
func withUser(url, user string) string { return strings.Replace(url, "://", "://"+user+"@", 1) }

// TestURLWithUser: a user in the URL of a volume is in origin, as after git clone, makes no other
// clone, and is sent only to a server that asks, if there is no credential.
func TestURLWithUser(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	repo := newRepo(t, s, "sample")
	repo.commit(map[string]string{"file": "one\n"}, nil)
	p := start(t, scratch(t))
	named := withUser(s.URL("sample"), "jane%40example.com")
	p.create("plain", map[string]string{"repo": s.URL("sample")})
	p.create("named", map[string]string{"repo": named})
	p.mount("plain", "1")
	dir := p.mount("named", "2")
	if got := testgit.Git(t, dir, "remote", "get-url", "origin"); got != named {
		t.Errorf("origin is %q, want %q", got, named)
	}
	if got := testgit.About(t, dir)["repo"]; got != named {
		t.Errorf("helmdeck.json has %q, want %q", got, named)
	}
	if got := testgit.Git(t, dir, "status", "--porcelain"); got != "" {
		t.Errorf("status: %q", got)
	}
	if got := s.Stats("sample").Clones; got != 1 {
		t.Errorf("it was cloned %d times, want once", got)
	}
	logins := func() string {
		t.Helper()
		got := fmt.Sprint(s.Logins("sample"))
		s.Reset()
		return got
	}
	if got := logins(); strings.Contains(got, "jane") || strings.Contains(got, "Basic") {
		t.Errorf("a server that does not ask got %s", got)
	}
	again := func(name, id string) error {
		t.Helper()
		repo.commit(nil, nil) // which the next mount fetches
		return p.tryMount(name, id)
	}

	// A server that asks gets the user, and nothing else.
	s.Protect("sample", gitserver.Login{User: "jane@example.com"})
	repo.url = s.Path("sample")
	s.Reset()
	if err := again("named", "3"); err != nil {
		t.Errorf("with the user that the server asks for: %v", err)
	}
	if got := s.Logins("sample"); got[gitserver.Login{User: "jane@example.com"}] == 0 || len(got) > 2 {
		t.Errorf("the server that asks got %v", got)
	}
	s.Route("sample", gitserver.ProtocolZero()) // through git
	if err := again("named", "3b"); err != nil {
		t.Errorf("through git: %v", err)
	}
	s.Route("sample")
	if err := again("plain", "4"); err == nil || !strings.Contains(err.Error(), "store a credential for it") {
		t.Errorf("without the user: %v, want a refusal", err)
	}

	// A credential wins, with its own user.
	s.Protect("sample", gitserver.Login{User: "me", Password: "tok3n"})
	if err := again("named", "5"); err == nil || !strings.Contains(err.Error(), "store a credential for it") {
		t.Errorf("with a user that the server refuses: %v, want a refusal", err)
	}
	if err := p.admin().PutCredential(t.Context(), "sample", api.PutCredential{Kind: api.HTTPS, Scope: s.URL("sample"), User: "me", Secret: "tok3n"}); err != nil {
		t.Fatal(err)
	}
	s.Reset()
	for i, name := range []string{"named", "plain"} {
		if err := again(name, fmt.Sprint("6", i)); err != nil {
			t.Errorf("%s with a credential: %v", name, err)
		}
	}
	if got := logins(); strings.Contains(got, "jane") {
		t.Errorf("with a credential the server got %s", got)
	}
	// A bearer token has no user.
	s.Protect("sample", gitserver.Login{Bearer: "tok3n"})
	if err := p.admin().PutCredential(t.Context(), "sample", api.PutCredential{Kind: api.Bearer, Scope: s.URL("sample"), Secret: "tok3n"}); err != nil {
		t.Fatal(err)
	}
	if err := again("named", "7"); err != nil {
		t.Errorf("with a bearer token: %v", err)
	}
}

// TestURLWithUserInContainer: with auth=container the credential is for the volume's repository,
// whatever user origin names.
func TestURLWithUserInContainer(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t))
	const token = "tok3n-of-sample"
	s := private(t, p, token)
	p.create("v", map[string]string{"repo": withUser(s.URL("sample"), "jane"), "auth": "container"})
	dir := p.mount("v", "1")
	out, err := inContainer(dir, "0", "git remote get-url origin; git fetch; git push -q origin HEAD:refs/heads/a; git ls-remote "+s.URL("sample")+" HEAD")
	if err != nil || !strings.HasPrefix(out, withUser(s.URL("sample"), "jane")+"\n") || strings.Contains(out, token) {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := inContainer(dir, "0", "git ls-remote "+withUser(s.URL("sample"), "other")); err == nil || !strings.Contains(out, "is not for the user that the URL names") {
		t.Errorf("for another user: %v: %s", err, out)
	}
	// The plugin pushes with the credential too. git in the container tries the user alone first, as
	// curl does with any URL that has one.
	s.Reset()
	if err := p.admin().PutCredential(t.Context(), "sample", api.PutCredential{Kind: api.HTTPS, Scope: s.URL("sample"), User: "me", Secret: token, Allow: "push"}); err != nil {
		t.Fatal(err)
	}
	testgit.GitAny(t, dir, "switch", "-q", "-c", "work")
	testgit.GitAny(t, dir, "commit", "-q", "--allow-empty", "-m", "work")
	if res, err := p.admin().Outbound(p.workspaceOf("v")).Push(t.Context(), api.Push{}, nil); err != nil || res.RemoteBranch != "work" {
		t.Errorf("push: %+v, %v", res, err)
	}
	for login := range s.Logins("sample") {
		if login.User == "jane" {
			t.Errorf("the server got %+v", login)
		}
	}
}

// TestSubmoduleWithUser: as TestURLWithUser, for the URL of a submodule.
func TestSubmoduleWithUser(t *testing.T) {
	t.Parallel()
	s := testgit.Serve(t)
	sub := newRepo(t, s, "sub")
	at := sub.commit(map[string]string{"file": "one\n"}, nil)
	super := newRepo(t, s, "super")
	named := withUser(s.URL("sub"), "jane")
	super.commit(map[string]string{".gitmodules": section("a", "a", named) + section("b", "b", "../sub")}, map[string]string{"a": at, "b": at})
	s.Protect("sub", gitserver.Login{User: "jane"})
	p := start(t, scratch(t))
	p.create("v", map[string]string{"repo": withUser(s.URL("super"), "jane"), "submodules": "true"})
	dir := p.mount("v", "1")
	for _, path := range []string{"a", "b"} { // a relative URL is that of the volume, with its user
		if got := testgit.Git(t, dir, "config", "submodule."+path+".url"); got != named {
			t.Errorf("%s: the URL is %q, want %q", path, got, named)
		}
		if got := testgit.Git(t, dir+"/"+path, "remote", "get-url", "origin"); got != named {
			t.Errorf("%s: origin is %q, want %q", path, got, named)
		}
	}
	if got := s.Stats("sub").Clones; got != 1 {
		t.Errorf("it was cloned %d times, want once", got)
	}
	if got := s.Logins("super"); len(got) != 1 {
		t.Errorf("the server that does not ask got %v", got)
	}
	if got := testgit.Git(t, dir, "submodule", "status"); strings.Contains(got, "\n-") || strings.Contains(got, "+") {
		t.Errorf("submodule status: %q", got)
	}
}
