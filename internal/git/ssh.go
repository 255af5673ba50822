package git

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"github.com/helmdeck/repos/internal/guard"
)

//go:embed knownhosts.txt
var publicHosts []byte

// sshSession is what one command needs for ssh: a directory with a known_hosts file and,
// if there is a key, the socket of an agent with it. The key is only in our memory.
type sshSession struct {
	dir   string
	agent net.Listener
}

// isSSH reports whether a URL is an ssh URL or has the scp-like form.
func isSSH(remote string) bool {
	scheme, _, ok := strings.Cut(remote, "://")
	return !ok || scheme == "ssh"
}

// isHTTP reports whether a URL's scheme is http or https.
func isHTTP(remote string) bool {
	return strings.HasPrefix(remote, "https://") || strings.HasPrefix(remote, "http://")
}

// newSSHSession starts a session. The caller must call Close.
func newSSHSession(uid, gid uint32, a *Auth) (s *sshSession, err error) {
	dir, err := os.MkdirTemp("", "helmdeck-ssh-")
	if err != nil {
		return nil, err
	}
	s = &sshSession{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := os.Chown(dir, int(uid), int(gid)); err != nil {
		return nil, err
	}
	known := publicHosts
	if a != nil {
		known = append(append([]byte{}, known...), a.KnownHosts...)
	}
	if err := os.WriteFile(s.knownHosts(), known, 0o644); err != nil {
		return nil, err
	}
	if a == nil || len(a.SSHKey) == 0 {
		return s, nil
	}
	key, err := ssh.ParseRawPrivateKey(a.SSHKey)
	if err != nil {
		return nil, fmt.Errorf("the stored ssh key can't be used: %w", err)
	}
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return nil, fmt.Errorf("the stored ssh key can't be used: %w", err)
	}
	if s.agent, err = net.Listen("unix", s.agentSocket()); err != nil {
		return nil, err
	}
	if err := os.Chown(s.agentSocket(), int(uid), int(gid)); err != nil {
		return nil, err
	}
	if err := os.Chmod(s.agentSocket(), 0o600); err != nil {
		return nil, err
	}
	go s.serve(ring)
	return s, nil
}

func (s *sshSession) serve(ring agent.Agent) {
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

func (s *sshSession) knownHosts() string  { return filepath.Join(s.dir, "known_hosts") }
func (s *sshSession) agentSocket() string { return filepath.Join(s.dir, "agent") }

// Close stops the agent and removes the directory.
func (s *sshSession) Close() error {
	var err error
	if s.agent != nil {
		err = s.agent.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// command returns git's ssh command: without configuration, other keys, other
// authentication methods and forwarding. An unknown host is an error.
func (s *sshSession) command() string {
	options := []string{
		"BatchMode=yes", "StrictHostKeyChecking=yes", "UpdateHostKeys=no",
		"UserKnownHostsFile=" + s.knownHosts(), "GlobalKnownHostsFile=/dev/null",
		"IdentityFile=none", "PreferredAuthentications=publickey",
		"ClearAllForwardings=yes", "ForwardAgent=no", "ControlMaster=no", "ControlPath=none",
		"ProxyCommand=none", "PermitLocalCommand=no", "RequestTTY=no",
		"ConnectTimeout=15", "ServerAliveInterval=15", "ServerAliveCountMax=4",
	}
	if s.agent != nil {
		options = append(options, "IdentityAgent="+s.agentSocket())
	} else {
		options = append(options, "IdentityAgent=none")
	}
	return "ssh -F /dev/null -o " + strings.Join(options, " -o ")
}

// hostKeyTimeout bounds scanHostKey.
const hostKeyTimeout = 10 * time.Second

// errHostKey ends the handshake of scanHostKey.
var errHostKey = errors.New("host key seen")

// scanHostKey returns the known_hosts line and the fingerprint of the key that an ssh
// host presents. It does not verify the key: the user must compare it.
func scanHostKey(ctx context.Context, remote string, pin []netip.Addr) (line, fingerprint string, err error) {
	host, port := sshHost(remote)
	if host == "" {
		return "", "", fmt.Errorf("%s: no host", remote)
	}
	ctx, cancel := context.WithTimeout(ctx, hostKeyTimeout)
	defer cancel()
	addr := net.JoinHostPort(host, port)
	conn, err := guard.DialPinned(ctx, "tcp", addr, pin)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return "", "", err
		}
	}
	name := knownAs(host, port)
	_, _, _, err = ssh.NewClientConn(conn, addr, &ssh.ClientConfig{
		HostKeyAlgorithms: []string{
			ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
			ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
		},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			fingerprint = key.Type() + " " + ssh.FingerprintSHA256(key)
			line = name + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			return errHostKey
		},
	})
	if fingerprint != "" {
		return line, fingerprint, nil
	}
	return "", "", err
}

// knownAs returns a host's name in a known_hosts file.
func knownAs(host, port string) string {
	if port == "22" {
		return host
	}
	return "[" + host + "]:" + port
}

// sshHost returns the host and port of an ssh URL or of user@host:path.
func sshHost(remote string) (host, port string) {
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
	if port == "" {
		port = "22"
	}
	return host, port
}
