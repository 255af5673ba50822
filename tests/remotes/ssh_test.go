package remotes

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/gitserver/sshserver"
)

// key is the server's client key as a credential; knownHosts are its lines as one.
func key(s *sshserver.Server, text []byte) credential.Credential {
	return credential.Credential{Name: "key", Kind: credential.SSHKey, Scope: "ssh://git@" + s.Address(), Secret: credential.NewSecret(string(text))}
}

func knownHosts(s *sshserver.Server, lines string) credential.Credential {
	return credential.Credential{Name: "host", Kind: credential.KnownHosts, Scope: "ssh://" + s.Address(), Secret: credential.NewSecret(lines)}
}

// From a host that nobody knows to one that has changed.
func TestSSH(t *testing.T) {
	t.Parallel()
	s, url, head := serveSSH(t)
	p := start(t)

	p.put(key(s, s.ClientKey()))
	err := p.create("v", "repo="+url)
	line, _, _ := strings.Cut(s.KnownHosts(), "\n")
	if err := has(err, "host key not known", s.Fingerprints()[0], line, "known-hosts"); err != nil {
		t.Error(err)
	}
	told("ssh: unknown host", "create: "+err.Error())

	// The line that the error shows is what it takes.
	p.put(knownHosts(s, line))
	if err := p.works("v", head, "repo="+url); err != nil {
		t.Error(err)
	}
	told("ssh: given known_hosts and key", "")
	if err := p.works("home", head, "repo="+s.HomeURL(app)); err == nil {
		t.Log("relative to the home")
	} else {
		t.Error(err)
	}

	if err := p.Admin.RemoveCredential(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	err = p.create("nokey", "repo="+url)
	if err := has(err, "authentication failed", "credential"); err != nil {
		t.Error(err)
	}
	told("ssh: no key", "create: "+err.Error())

	other, _, _ := serveSSH(t)
	p.put(key(s, other.ClientKey()))
	err = p.create("wrongkey", "repo="+url)
	if err := has(err, "authentication failed", "credential"); err != nil {
		t.Error(err)
	}
	told("ssh: wrong key", "create: "+err.Error())
	p.put(key(s, s.ClientKey()))

	err = p.create("missing", "repo="+s.URL("team/nothing"))
	if err := has(err, "repository not found"); err != nil {
		t.Error(err)
	}
	told("ssh: no such repository", "create: "+err.Error())

	s.ChangeHostKeys()
	err = p.create("changed", "repo="+url)
	changed := strings.Fields(s.ChangedKnownHosts())[2]
	if err := has(err, "host key has changed", changed); err != nil {
		t.Error(err)
	}
	told("ssh: changed host key", "create: "+err.Error())

	if err := p.Admin.PutCredential(t.Context(), key(s, s.LockedKey())); err == nil || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("a key with a passphrase: %v", err)
	}
}

// A server that takes a connection and says nothing.
func TestSSHSilence(t *testing.T) {
	t.Parallel()
	s, url, _ := serveSSH(t)
	p := start(t)
	p.put(key(s, s.ClientKey()))
	p.put(knownHosts(s, s.KnownHosts()))
	s.Silence(true)
	if err := p.create("v", "repo="+url); err != nil {
		t.Fatal(err)
	}
	_, err := p.mount("v", "1")
	if err := has(err, "timeout"); err != nil {
		t.Error(err)
	}
	told("ssh: silent server", "mount: "+err.Error())
}
