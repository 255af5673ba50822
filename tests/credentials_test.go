package tests

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/gitserver/sshserver"
)

// Every kind of credential works with the git and the ssh of the plugin's root filesystem. The test
// stores them over the admin socket, as root on the host does.
func TestCredentials(t *testing.T) {
	t.Parallel()
	e := own(t, []string{"ALLOW_SCHEMES=ssh"})
	client := e.admin(t)
	put := func(c credential.Credential, secret string) {
		t.Helper()
		c.Secret = credential.NewSecret(secret)
		if err := client.PutCredential(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}

	for _, c := range []struct {
		cred  credential.Credential
		login gitserver.Login
	}{
		{credential.Credential{Name: "token", Kind: credential.HTTPS, User: "me"}, gitserver.Login{User: "me", Password: "s3cret"}},
		{credential.Credential{Name: "bearer", Kind: credential.Bearer}, gitserver.Login{Bearer: "s3cret"}},
	} {
		t.Run(c.cred.Name, func(t *testing.T) {
			r := newRemote(t)
			r.Protect(app, c.login)
			if said := e.wantError(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+r.url); !strings.Contains(said, "authentication failed") {
				t.Errorf("without a credential: %s", said)
			}
			c.cred.Scope = r.url
			put(c.cred, "s3cret")
			if got := e.sh(t, mount("", "repo="+r.url), "git rev-parse HEAD"); got != r.head {
				t.Errorf("HEAD: got %s, want %s", got, r.head)
			}
			if got := r.Logins(app)[c.login]; got == 0 {
				t.Errorf("the server saw no login as %+v", c.login)
			}
			put(c.cred, "wrong")
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
		put(credential.Credential{Name: "key", Kind: credential.SSHKey, Scope: "ssh://git@" + s.Address()}, string(s.ClientKey()))
		put(credential.Credential{Name: "host", Kind: credential.KnownHosts, Scope: "ssh://" + s.Address()}, s.KnownHosts())
		if got := e.sh(t, mount("", "repo="+s.URL(app)), "git rev-parse HEAD"); got != r.head {
			t.Errorf("HEAD: got %s, want %s", got, r.head)
		}
	})
}
