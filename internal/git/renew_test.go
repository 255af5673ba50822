package git

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
)

// TestRenewedCredential checks that a secret that can be renewed is renewed once when the
// remote refuses it, in this process and in git, and that a static one is sent once.
func TestRenewedCredential(t *testing.T) {
	t.Parallel()
	old, fresh := gitserver.Login{User: "me", Password: "old"}, gitserver.Login{User: "me", Password: "new"}
	for _, way := range []struct {
		name string
		wrap gitserver.Fault
	}{
		{"in this process", nil},
		{"in git", gitserver.ProtocolZero()},
	} {
		for _, tt := range []struct {
			name   string
			renews bool
			takes  gitserver.Login // what the server takes
			kind   giterror.Kind
			sent   map[gitserver.Login]bool
		}{
			{"renewed", true, fresh, "", map[gitserver.Login]bool{old: true, fresh: true}},
			{"renewed, and refused again", true, gitserver.Login{User: "me", Password: "other"}, giterror.KindAuth, map[gitserver.Login]bool{old: true, fresh: true}},
			{"static", false, fresh, giterror.KindAuth, map[gitserver.Login]bool{old: true}},
			{"still good", true, old, "", map[gitserver.Login]bool{old: true}},
		} {
			t.Run(tt.name+" "+way.name, func(t *testing.T) {
				t.Parallel()
				g, s := newGit(t), remote(t)
				s.Wrap(way.wrap)
				s.Protect("r", tt.takes)
				renewed, held := 0, old
				r := Remote{URL: s.URL("r"), Auth: func(context.Context, string) (*Auth, error) {
					a := &Auth{Name: "mine", User: held.User, Password: held.Password, Owner: "mine"}
					if tt.renews {
						a.Renew = func(context.Context) (*Auth, error) {
							renewed++
							held = fresh
							return &Auth{Name: "mine", User: fresh.User, Password: fresh.Password, Owner: "mine"}, nil
						}
					}
					return a, nil
				}}
				_, err := g.LsRefs(t.Context(), r, "refs/heads/main")
				if got := giterror.KindOf(err); got != tt.kind {
					t.Errorf("got %v, want %q", err, tt.kind)
				}
				for login := range s.Logins("r") {
					if login != (gitserver.Login{}) && !tt.sent[login] {
						t.Errorf("%+v was sent", login)
					}
				}
				for login := range tt.sent {
					if s.Logins("r")[login] == 0 {
						t.Errorf("%+v was not sent", login)
					}
				}
				if want := map[bool]int{true: 1}[tt.sent[fresh]]; renewed != want {
					t.Errorf("it was renewed %d times, want %d", renewed, want)
				}
			})
		}
	}
}

// TestProviderOfSecretFails checks that the kind of a provider's error stays, and that it is
// asked once.
func TestProviderOfSecretFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		kind giterror.Kind
	}{
		{&giterror.Error{Op: "ask", Kind: giterror.KindServer}, giterror.KindServer},
		{&giterror.Error{Op: "ask", Kind: giterror.KindTimeout}, giterror.KindTimeout},
		{&giterror.Error{Op: "ask", Kind: giterror.KindCredential}, giterror.KindCredential},
		{errors.New("no such credential"), giterror.KindCredential},
	} {
		g, s := newGit(t), remote(t)
		s.Wrap(func(http.Handler) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the remote was asked") })
		})
		tries := 0
		_, err := g.LsRefs(t.Context(), Remote{URL: s.URL("r"), Auth: func(context.Context, string) (*Auth, error) {
			tries++
			return nil, tt.err
		}}, "refs/heads/main")
		if got := giterror.KindOf(err); got != tt.kind || tries != 1 {
			t.Errorf("%v: got %v after %d tries, want %q after one", tt.err, err, tries, tt.kind)
		}
	}
}

// TestSameSecretIsNotSentAgain checks that a remote that refused a secret gets it once, if there is
// no other in its place yet.
func TestSameSecretIsNotSentAgain(t *testing.T) {
	t.Parallel()
	refused := &giterror.Error{Op: "ask", Kind: giterror.KindAuth}
	a := &Auth{User: "u", Password: "p"}
	a.Renew = func(context.Context) (*Auth, error) { return &Auth{User: "u", Password: "p"}, nil }
	sent := 0
	err := Remote{Auth: func(context.Context, string) (*Auth, error) { return a, nil }}.WithAuth(t.Context(), "ask", "https://h/r", func(*Auth) error {
		sent++
		return refused
	})
	if err != refused || sent != 1 {
		t.Errorf("got %v after it was sent %d times", err, sent)
	}
}
