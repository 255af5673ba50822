package download

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/testgit"
)

func TestLFSCredentialsStayAtTheirServer(t *testing.T) {
	own, other := testgit.Serve(t), testgit.Serve(t)
	basic := gitserver.Login{User: "u", Password: "secret"}
	bearer := gitserver.Login{Bearer: "secret"}
	for _, tt := range []struct {
		name     string
		auth     *git.Auth
		login    gitserver.Login
		redirect bool // of the batch, to the other server
		href     bool // downloads from the other server
		want     string
	}{
		{name: "basic", auth: &git.Auth{User: "u", Password: "secret"}, login: basic},
		{name: "bearer", auth: &git.Auth{Bearer: "secret"}, login: bearer},
		{name: "none", login: basic, want: "authentication failed"},
		{name: "download elsewhere", auth: &git.Auth{Bearer: "secret"}, login: bearer, href: true, want: "may not lead there"},
		{name: "redirect elsewhere", auth: &git.Auth{Bearer: "secret"}, login: bearer, redirect: true, want: "may not lead there"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			objects := new(lfsserver.Server)
			p := objects.Put("content\n")
			own.Reset()
			own.Protect("app", tt.login)
			own.Route("app", objects.Serve)
			if tt.redirect {
				own.Route("app", gitserver.Redirect(http.StatusTemporaryRedirect, other.URL("app.git")))
			}
			if tt.href {
				objects.Href(other.URL("app.git/info/lfs/objects"))
			}
			f := Job{
				Endpoint: own.URL("app.git/info/lfs"), Auth: static(tt.auth), Rule: guard.Rule{Own: hostPortOf(t, own)},
				Storage: t.TempDir(), Objects: []lfs.Pointer{{Path: "f", OID: p.OID, Size: int64(p.Size)}},
			}
			err := f.Run(t.Context(), newGit(t))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("fetch: %v, want %q", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the credential: %v", err)
			}
			if left, dirErr := os.ReadDir(f.Storage); dirErr != nil || (len(left) == 1) != (err == nil) {
				t.Errorf("the storage has %v, %v after %v", left, dirErr, err)
			}
		})
	}

	// A question is asked again where a redirect leads, and over several, and the credential goes along within its scope.
	for _, status := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		objects := new(lfsserver.Server)
		p := objects.Put("content\n")
		own.Reset()
		own.Protect("app", bearer)
		own.Route("app", objects.Serve)
		own.Route("older", gitserver.Redirect(status, own.URL("old.git")))
		own.Route("old", gitserver.Redirect(http.StatusTemporaryRedirect, own.URL("app.git")))
		err := Job{
			Endpoint: own.URL("older.git/info/lfs"), Auth: static(&git.Auth{Bearer: "secret"}), Rule: guard.Rule{Own: hostPortOf(t, own)},
			Storage: t.TempDir(), Objects: []lfs.Pointer{{Path: "f", OID: p.OID, Size: int64(p.Size)}},
		}.Run(t.Context(), newGit(t))
		if err != nil {
			t.Errorf("a question with the redirect %d: %v", status, err)
		}
	}

	// If the rule allows another server, the credential does not go there.
	open := guard.Rule{Own: hostPortOf(t, other)}
	for _, redirect := range []bool{false, true} {
		objects := new(lfsserver.Server)
		p := objects.Put("content\n")
		objects.Token("of the action")
		c := newClient(newGit(t), Job{Endpoint: own.URL("app.git/info/lfs"), Auth: static(&git.Auth{Bearer: "secret"}), Rule: open})
		other.Reset()
		other.Route("app", objects.Serve)
		a := action{Href: other.URL("app.git/info/lfs/objects/" + p.OID)}
		if redirect {
			a.Header = map[string]string{"X-Secret": "secret", "Authorization": "Bearer secret"}
			front := testgit.Serve(t)
			// net/http adds the headers of the first request to each, also to one that stays at the other server.
			front.Route("app", gitserver.Redirect(http.StatusFound, other.URL("moved.git")))
			other.Route("moved", gitserver.Redirect(http.StatusFound, other.URL("app.git")))
			a.Href = front.URL("app.git/info/lfs/objects/" + p.OID)
			c.http.Transport = http.DefaultTransport // the rule does not allow front
		}
		response, err := getWith(t, c, a)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		got := other.Requests()
		if want := map[bool]int{false: 1, true: 2}[redirect]; len(got) != want {
			t.Fatalf("redirect %v: the other server got %v, want %d requests", redirect, got, want)
		}
		for _, r := range got {
			for name, values := range r.Header {
				if strings.Contains(strings.Join(values, ""), "secret") {
					t.Errorf("redirect %v: the other server got %s: %s", redirect, name, values)
				}
			}
		}
	}
}

// TestLFSCredentialsStayInTheirScope checks that a URL on the LFS server's own host gets
// the credential only if it is in the credential's scope.
func TestLFSCredentialsStayInTheirScope(t *testing.T) {
	s := testgit.Serve(t)
	auth := &git.Auth{User: "u", Password: "secret", Covers: func(url string) bool {
		return strings.HasPrefix(url, s.URL("team/")) && !strings.Contains(url, "?")
	}}
	c := newClient(newGit(t), Job{
		Endpoint: s.URL("team/app.git/info/lfs"), Auth: static(auth), Rule: guard.Rule{Own: hostPortOf(t, s)},
	})
	s.Route("team/moved", gitserver.Redirect(http.StatusFound, s.URL("other/app.git")))
	for path, want := range map[string]bool{
		"team/app.git/info/lfs/objects/x?a=b": true,
		"other/app.git/info/lfs/objects/x":    false,
		"team/moved/info/lfs/objects/x":       false, // redirects to other
	} {
		s.Reset()
		response, err := getWith(t, c, action{Href: s.URL(path)})
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		list := s.Requests()
		last := list[len(list)-1]
		if got := last.Header.Get("Authorization") != ""; got != want {
			t.Errorf("%s, redirected to %s: the credential was sent: %v, want %v", path, last.URI, got, want)
		}
	}
	// Headers that the server gave for the object are always sent to it.
	s.Reset()
	response, err := getWith(t, c, action{Href: s.URL("team/moved/info/lfs/objects/x"), Header: map[string]string{"Authorization": "Bearer theirs"}})
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for _, r := range s.Requests() {
		if got := r.Header.Get("Authorization"); got != "Bearer theirs" {
			t.Errorf("%s: got %q", r.URI, got)
		}
	}
}

// static returns a function for Job.Auth.
func static(auth *git.Auth) func(context.Context) (*git.Auth, error) {
	return func(context.Context) (*git.Auth, error) { return auth, nil }
}

// getWith requests an object with the credential of c.
func getWith(t *testing.T, c client, a action) (response *http.Response, err error) {
	t.Helper()
	err = c.withAuth(t.Context(), func(ctx context.Context) error {
		response, err = c.get(ctx, a)
		return err
	})
	return response, err
}

// newGit returns a Git, whose settings the client uses.
func newGit(t *testing.T) *git.Git {
	t.Helper()
	g, err := git.New(git.Config{UID: 65532, GID: 65532, Schemes: []string{"https", "http"}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func hostPortOf(t *testing.T, s *gitserver.Server) guard.HostPort {
	t.Helper()
	u, err := url.Parse(s.URL(""))
	if err != nil {
		t.Fatal(err)
	}
	return guard.HostPortOf(u)
}
