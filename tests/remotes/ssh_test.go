package remotes

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver/sshserver"
)

// key returns a credential with a client key for a server.
func key(s *sshserver.Server, text []byte) credential {
	return credential{"key", api.PutCredential{Kind: api.SSHKey, Scope: "ssh://git@" + s.Address(), Secret: string(text)}}
}

// knownHosts returns a credential with a server's known_hosts lines.
func knownHosts(s *sshserver.Server, lines string) credential {
	return credential{"host", api.PutCredential{Kind: api.KnownHosts, Scope: "ssh://" + s.Address(), Secret: lines}}
}

// A user meets an unknown host, gives its key and a client key, and later meets wrong and changed
// keys.
func TestSSH(t *testing.T) {
	t.Parallel()
	s, url, head := serveSSH(t)
	p := start(t)

	p.putCredential(key(s, s.ClientKey()))
	err := p.create("v", "repo="+url)
	line, _, _ := strings.Cut(s.KnownHosts(), "\n")
	if err := checkError(err, "host key not known", s.Fingerprints()[0], line, "known-hosts"); err != nil {
		t.Error(err)
	}
	addLine("ssh: unknown host", "create: "+err.Error())

	// The line in the error is a valid known_hosts credential.
	p.putCredential(knownHosts(s, line))
	if err := p.createAndCheck("v", head, "repo="+url); err != nil {
		t.Error(err)
	}
	addLine("ssh: given known_hosts and key", "")
	if err := p.createAndCheck("home", head, "repo="+s.HomeURL(app)); err != nil {
		t.Errorf("a path relative to the home directory: %v", err)
	}

	if err := p.Admin.RemoveCredential(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	err = p.create("nokey", "repo="+url)
	if err := checkError(err, "authentication failed", "credential"); err != nil {
		t.Error(err)
	}
	addLine("ssh: no key", "create: "+err.Error())

	other, _, _ := serveSSH(t)
	p.putCredential(key(s, other.ClientKey()))
	err = p.create("wrongkey", "repo="+url)
	if err := checkError(err, "authentication failed", "credential"); err != nil {
		t.Error(err)
	}
	addLine("ssh: wrong key", "create: "+err.Error())
	p.putCredential(key(s, s.ClientKey()))

	err = p.create("missing", "repo="+s.URL("team/nothing"))
	if err := checkError(err, "repository not found"); err != nil {
		t.Error(err)
	}
	addLine("ssh: no such repository", "create: "+err.Error())

	s.ChangeHostKeys()
	err = p.create("changed", "repo="+url)
	changed := strings.Fields(s.ChangedKnownHosts())[2]
	if err := checkError(err, "host key has changed", changed); err != nil {
		t.Error(err)
	}
	addLine("ssh: changed host key", "create: "+err.Error())

	locked := key(s, s.LockedKey())
	if err := p.Admin.PutCredential(t.Context(), locked.Name, locked.PutCredential); err == nil || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("a key with a passphrase: %v, want an error", err)
	}
}

// A server that accepts a connection and sends nothing leads to a timeout.
func TestSSHSilence(t *testing.T) {
	t.Parallel()
	s, url, _ := serveSSH(t)
	p := startImpatient(t)
	p.putCredential(key(s, s.ClientKey()))
	p.putCredential(knownHosts(s, s.KnownHosts()))
	s.Silence(true)
	if err := p.create("v", "repo="+url); err != nil {
		t.Fatal(err)
	}
	_, err := p.mount("v", "1")
	if err := checkError(err, "timeout"); err != nil {
		t.Error(err)
	}
	addLine("ssh: silent server", "mount: "+err.Error())
}
