package remotes

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// hostOf returns a URL without its path.
func hostOf(url string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host
}

func token(name, scope, secret string) credential {
	return credential{name, api.PutCredential{Kind: api.HTTPS, Scope: scope, User: "me", Secret: secret}}
}

// A user meets a private repository, stores a wrong and then the right credential, restarts the
// plugin, and removes the credential.
func TestHTTPSCredential(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Protect(app, gitserver.Login{User: "me", Password: "s3cret%&'\" x"})
	p := start(t)

	err := p.create("none", "repo="+s.url)
	if err := checkError(err, "authentication failed", s.url, "store a credential"); err != nil {
		t.Error(err)
	}
	p.putCredential(token("app", hostOf(s.url)+"/team", "hunter2"))
	err = p.create("wrong", "repo="+s.url)
	if err := checkError(err, "authentication failed", `refused the stored credential "app"`); err != nil {
		t.Error(err)
	}
	addLine("token refused", "create: "+err.Error())
	p.putCredential(token("app", hostOf(s.url)+"/team", "s3cret%&'\" x"))
	s.Reset()
	if err := p.createAndCheck("some", s.head, "repo="+s.url); err != nil {
		t.Error(err)
	}
	// git sends no credential until the server asks for one.
	if first := s.Requests()[0]; first.Header.Get("Authorization") != "" {
		t.Error("the first request has a credential, want none")
	}
	next := s.commit(t, "main")
	if err := p.mountAndCheck("some", next); err != nil {
		t.Error(err)
	}

	for _, path := range []string{"data/credentials/app.json", "run/admin.sock"} {
		info, err := os.Stat(p.path(path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has the mode %o, want 600", path, got)
		}
	}
	list, err := p.Admin.Credentials(t.Context(), api.Filter{})
	if err != nil || len(list) != 1 || list[0].Name != "app" || list[0].User != "me" {
		t.Errorf("the list: %+v, %v", list, err)
	}
	p.restart()
	next = s.commit(t, "main")
	if err := p.mountAndCheck("some", next); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	if err := p.Admin.RemoveCredential(t.Context(), "app"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(p.path("data/credentials/app.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of a removed credential: %v", err)
	}
	_, err = p.mount("some", "x")
	if err := checkError(err, "authentication failed"); err != nil {
		t.Errorf("after the removal: %v", err)
	}
	var refused *api.Error
	if err := p.Admin.RemoveCredential(t.Context(), "app"); !errors.As(err, &refused) || refused.Status != http.StatusNotFound {
		t.Errorf("a second removal: %v", err)
	}
}

// Of several credentials the plugin uses the one with the closest scope, unless an option names
// another.
func TestCredentialChoice(t *testing.T) {
	t.Parallel()
	s := serve(t)
	p := start(t)
	host := hostOf(s.url)
	for _, c := range []credential{
		token("host", host, "host"), token("team", host+"/team", "team"),
		token("exact", host+"/team/app", "exact"), token("sibling", host+"/team/ap", "sibling"),
	} {
		p.putCredential(c)
	}
	bound := token("bound", host+"/team/app", "bound")
	bound.Subject = "tenant"
	p.putCredential(bound)
	for i, c := range []struct {
		options  []string
		password string
	}{
		{nil, "exact"},
		{[]string{"credential=team"}, "team"},
		{[]string{"credential=host"}, "host"},
		{[]string{"subject=tenant"}, "bound"},
	} {
		s.Protect(app, gitserver.Login{User: "me", Password: c.password})
		s.Reset()
		if err := p.createAndCheck(fmt.Sprintf("v%d", i), s.head, append(c.options, "repo="+s.url)...); err != nil {
			t.Errorf("%q: %v", c.options, err)
		}
		for login := range s.Logins(app) {
			if login.Password != "" && login.Password != c.password {
				t.Errorf("%q: the password %q was sent, want only %q", c.options, login.Password, c.password)
			}
		}
	}
	for _, c := range []struct{ option, want string }{
		{"credential=bound", "not for the subject"},
		{"credential=sibling", "is not sent to"},
		{"credential=nobody", `no credential "nobody"`},
	} {
		s.Reset()
		err := p.createAndCheck("refused-"+c.option[11:], "", "repo="+s.url, c.option)
		if err := checkError(err, c.want); err != nil {
			t.Errorf("%s: %v", c.option, err)
		}
		if n := len(s.Requests()); n > 0 {
			t.Errorf("%s: the server got %d requests, want none", c.option, n)
		}
	}
}

// No other host sees a credential, whether it asks for one or not.
func TestCredentialStaysWithItsHost(t *testing.T) {
	t.Parallel()
	mine, other := serve(t), serve(t)
	p := start(t)
	p.putCredential(token("mine", hostOf(mine.url), "secret"))
	mine.Protect(app, gitserver.Login{User: "me", Password: "secret"})
	other.Protect(app, gitserver.Login{User: "me", Password: "secret"})

	if err := checkError(p.create("other", "repo="+other.url), "authentication failed"); err != nil {
		t.Error(err)
	}
	// A redirect to another host is not followed, and that host does not see the secret. This holds
	// for a redirect before the login and for one after it.
	mine.Route("team/moved", gitserver.Redirect(http.StatusMovedPermanently, other.url))
	if err := checkError(p.create("moved", "repo="+mine.URL("team/moved")), "redirected", other.url, "option repo"); err != nil {
		t.Error(err)
	}
	mine.Protect("team/behind", gitserver.Login{User: "me", Password: "secret"})
	mine.Route("team/behind", gitserver.Redirect(http.StatusMovedPermanently, other.url))
	if err := checkError(p.create("behind", "repo="+mine.URL("team/behind")), "redirected", other.url, "option repo"); err != nil {
		t.Error(err)
	}
	for login, n := range other.Logins(app) {
		if login != (gitserver.Login{}) {
			t.Errorf("the other host saw %+v, %d times", login, n)
		}
	}
	// A redirect within the host is followed, with the credential.
	mine.Route("team/old", gitserver.Redirect(http.StatusMovedPermanently, mine.url))
	if err := p.createAndCheck("old", mine.head, "repo="+mine.URL("team/old")); err != nil {
		t.Error(err)
	}
	mine.Protect("team/older", gitserver.Login{User: "me", Password: "secret"})
	mine.Route("team/older", gitserver.Redirect(http.StatusFound, mine.url))
	if err := p.createAndCheck("older", mine.head, "repo="+mine.URL("team/older")); err != nil {
		t.Error(err)
	}
}

// The machine's git may be too old for bearer tokens. Then the error says so, and not that the
// token is wrong.
func TestBearerNeedsNewerGit(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.Protect(app, gitserver.Login{Bearer: "tok"})
	s.Wrap(gitserver.ProtocolZero()) // which only git speaks
	p := start(t)
	p.putCredential(credential{"b", api.PutCredential{Kind: api.Bearer, Scope: hostOf(s.url), Secret: "tok"}})
	var major, minor int
	if _, err := fmt.Sscanf(testgit.GitAny(t, "/", "version"), "git version %d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	err := p.createAndCheck("v", s.head, "repo="+s.url)
	if major > 2 || minor >= 46 {
		if err != nil {
			t.Error(err)
		}
		return
	}
	if err := checkError(err, "bearer", "2.46", fmt.Sprintf("%d.%d", major, minor)); err != nil {
		t.Error(err)
	}
}
