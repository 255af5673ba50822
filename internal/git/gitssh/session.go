// Package gitssh prepares one run of git over ssh: a directory with a known_hosts file,
// an agent that has the key in this process's memory, and the command line of ssh. It
// starts no processes.
package gitssh

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// publicHosts has the keys of large public hosts.
//
//go:embed knownhosts.txt
var publicHosts []byte

// Session is what one run of ssh needs.
type Session struct {
	Dir   string       // has the files that ssh reads
	agent net.Listener // nil if the session has no key
}

// Start starts a session for a run of ssh as uid and gid. key is a private key in PEM, or
// empty; knownHosts has the lines of a known_hosts file besides those of public hosts.
// The caller must call Close.
func Start(uid, gid uint32, key, knownHosts []byte) (_ *Session, err error) {
	dir, err := os.MkdirTemp("", "helmdeck-ssh-")
	if err != nil {
		return nil, err
	}
	s := &Session{Dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	if err := os.WriteFile(s.knownHosts(), slices.Concat(publicHosts, knownHosts), 0o644); err != nil {
		return nil, err
	}
	if len(key) == 0 {
		return s, nil
	}
	private, err := ssh.ParseRawPrivateKey(key)
	ring := agent.NewKeyring()
	if err == nil {
		err = ring.Add(agent.AddedKey{PrivateKey: private})
	}
	if err != nil {
		return nil, fmt.Errorf("the stored ssh key can't be used: %w", err)
	}
	if s.agent, err = net.Listen("unix", s.agentSocket()); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Chown(s.agentSocket(), int(uid), int(gid)), os.Chmod(s.agentSocket(), 0o600)); err != nil {
		return nil, err
	}
	go s.serve(ring)
	return s, nil
}

// serve is the agent. It returns after Close.
func (s *Session) serve(ring agent.Agent) {
	for {
		conn, err := s.agent.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			defer conn.Close()
			_ = agent.ServeAgent(ring, conn) // until the client ends
		}()
	}
}

func (s *Session) knownHosts() string  { return filepath.Join(s.Dir, "known_hosts") }
func (s *Session) agentSocket() string { return filepath.Join(s.Dir, "agent") }

// Close stops the agent and removes the directory.
func (s *Session) Close() error {
	var err error
	if s.agent != nil {
		err = s.agent.Close()
	}
	return errors.Join(err, os.RemoveAll(s.Dir))
}

// Command returns git's ssh command for a remote: without configuration, other keys,
// other authentication methods and forwarding. An unknown host is an error. If pin is not
// empty, ssh connects to its first address, and still verifies the key by the host's
// name.
func (s *Session) Command(remote string, pin []netip.Addr) string {
	identity := "none"
	if s.agent != nil {
		identity = s.agentSocket()
	}
	options := []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no",
		"UserKnownHostsFile=" + s.knownHosts(), "GlobalKnownHostsFile=/dev/null",
		"IdentityFile=none", "PreferredAuthentications=publickey",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ControlMaster=no", "ControlPath=none",
		"ProxyCommand=none", "PermitLocalCommand=no", "RequestTTY=no",
		"ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4",
		"IdentityAgent=" + identity,
	}
	if len(pin) > 0 {
		options = append(options, "HostName="+pin[0].String(), "'HostKeyAlias="+knownAs(hostOf(remote))+"'")
	}
	return "ssh -F /dev/null -o " + strings.Join(options, " -o ")
}

// IsRemote reports whether a remote is an ssh URL or has the scp-like form.
func IsRemote(remote string) bool {
	scheme, _, ok := strings.Cut(remote, "://")
	return !ok || scheme == "ssh"
}

// hostOf returns the host and port of an ssh URL or of user@host:path.
func hostOf(remote string) (host, port string) {
	if strings.Contains(remote, "://") {
		u, err := url.Parse(remote)
		if err != nil {
			return "", ""
		}
		host, port = u.Hostname(), u.Port()
	} else {
		host, _, _ = strings.Cut(remote, ":")
		if _, after, ok := strings.Cut(host, "@"); ok {
			host = after
		}
	}
	return host, cmp.Or(port, "22")
}

// knownAs returns a host's name in a known_hosts file.
func knownAs(host, port string) string {
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}
