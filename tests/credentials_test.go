package tests

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/sshserver"
)

// Every kind of credential works with the git and the ssh of the plugin's root filesystem. The test
// stores them over the admin socket, as root on the host does.
func TestCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e := own(t, []string{"ALLOW_SCHEMES=ssh"})
	client := e.admin(t)
	put := func(name string, c api.PutCredential, secret string) {
		t.Helper()
		c.Secret = secret
		if err := client.PutCredential(t.Context(), name, c); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		name  string
		cred  api.PutCredential
		login gitserver.Login
	}{
		{"token", api.PutCredential{Kind: api.HTTPS, User: "me"}, gitserver.Login{User: "me", Password: "s3cret"}},
		{"bearer", api.PutCredential{Kind: api.Bearer}, gitserver.Login{Bearer: "s3cret"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRemote(t)
			r.Protect(app, c.login)
			if said := e.wantError(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+r.url); !strings.Contains(said, "authentication failed") {
				t.Errorf("without a credential: %s", said)
			}
			c.cred.Scope = r.url
			put(c.name, c.cred, "s3cret")
			if got := e.sh(t, mount("", "repo="+r.url), "git rev-parse HEAD"); got != r.head {
				t.Errorf("HEAD: got %s, want %s", got, r.head)
			}
			if got := r.Logins(app)[c.login]; got == 0 {
				t.Errorf("the server saw no login as %+v", c.login)
			}
			put(c.name, c.cred, "wrong")
			if said := e.wantError(t, shArgs(mount("", "repo="+r.url), "true")...); !strings.Contains(said, "refused the stored credential") {
				t.Errorf("with a wrong credential: %s", said)
			}
		})
	}

	t.Run("ssh", func(t *testing.T) {
		r := newRemote(t)
		s, err := sshserver.Start(strings.TrimSuffix(r.Path(app), "/"+app+".git"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		said := e.wantError(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+s.URL(app))
		if !strings.Contains(said, s.Fingerprints()[0]) {
			t.Errorf("the message does not show the key of the unknown host: %s", said)
		}
		put("key", api.PutCredential{Kind: api.SSHKey, Scope: "ssh://git@" + s.Address()}, string(s.ClientKey()))
		put("host", api.PutCredential{Kind: api.KnownHosts, Scope: "ssh://" + s.Address()}, s.KnownHosts())
		if got := e.sh(t, mount("", "repo="+s.URL(app)), "git rev-parse HEAD"); got != r.head {
			t.Errorf("HEAD: got %s, want %s", got, r.head)
		}
	})
}
