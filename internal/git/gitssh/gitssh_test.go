package gitssh

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const uid, gid = 64127, 64128

// newKey returns a private key as a signer and in PEM.
func newKey(t *testing.T) (ssh.Signer, []byte) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, pem.EncodeToMemory(block)
}

// start starts a session that ends with the test.
func start(t *testing.T, key, knownHosts []byte) *Session {
	t.Helper()
	s, err := Start(uid, gid, key, knownHosts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestSession(t *testing.T) {
	t.Parallel()
	signer, key := newKey(t)
	s := start(t, key, []byte("h ssh-ed25519 AAAA\n"))
	known, err := os.ReadFile(s.knownHosts())
	if err != nil || !strings.HasPrefix(string(known), string(publicHosts)) || !strings.HasSuffix(string(known), "\nh ssh-ed25519 AAAA\n") {
		t.Errorf("known hosts: %v\n%s", err, known)
	}
	for path, mode := range map[string]os.FileMode{s.Dir: os.ModeDir | 0o700, s.agentSocket(): os.ModeSocket | 0o600} {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); info.Mode() != mode || st.Uid != uid || st.Gid != gid {
			t.Errorf("%s: %v of %d:%d, want %v of %d:%d", path, info.Mode(), st.Uid, st.Gid, mode, uid, gid)
		}
	}
	conn, err := net.Dial("unix", s.agentSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	keys, err := agent.NewClient(conn).List()
	if err != nil || len(keys) != 1 || string(keys[0].Blob) != string(signer.PublicKey().Marshal()) {
		t.Errorf("the agent has %v, %v", keys, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("after Close: %v", err)
	}
	s.agent = nil // so that the second Close, at the end of the test, is not an error
}

func TestSessionWithoutKey(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	if _, err := os.Lstat(s.agentSocket()); !os.IsNotExist(err) || !strings.Contains(s.Command("git@h:r", nil), " -o IdentityAgent=none") {
		t.Errorf("without a key: %v, %s; want no agent", err, s.Command("git@h:r", nil))
	}
	if s, err := Start(uid, gid, []byte("no key"), nil); err == nil || !strings.Contains(err.Error(), "the stored ssh key can't be used") {
		t.Errorf("an invalid key: %v, %v", s, err)
	}
}

func TestCommandPins(t *testing.T) {
	t.Parallel()
	_, key := newKey(t)
	s := start(t, key, nil)
	addr := []netip.Addr{netip.MustParseAddr("140.82.112.3")}
	for url, want := range map[string]string{
		"git@h:r":           " -o HostName=140.82.112.3 -o 'HostKeyAlias=h'",
		"ssh://git@h:2222/": " -o HostName=140.82.112.3 -o 'HostKeyAlias=[h]:2222'",
	} {
		agent := " -o IdentityAgent=" + s.agentSocket()
		if got := s.Command(url, addr); !strings.HasSuffix(got, agent+want) {
			t.Errorf("%q: %s, want %q at its end", url, got, want)
		}
		if got := s.Command(url, nil); !strings.HasSuffix(got, agent) {
			t.Errorf("%q without a pin: %s", url, got)
		}
	}
}

func TestScanHostKey(t *testing.T) {
	t.Parallel()
	signer, _ := newKey(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			config := &ssh.ServerConfig{NoClientAuth: true}
			config.AddHostKey(signer)
			_, _, _, _ = ssh.NewServerConn(conn, config) // the client ends the handshake
			conn.Close()
		}
	}()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	line, fingerprint, err := ScanHostKey(t.Context(), "ssh://git@pinned.invalid:"+port+"/r", []netip.Addr{netip.MustParseAddr("127.0.0.1")})
	wantLine := "[pinned.invalid]:" + port + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	if want := "ssh-ed25519 " + ssh.FingerprintSHA256(signer.PublicKey()); err != nil || line != wantLine || fingerprint != want {
		t.Errorf("got %q, %q, %v; want %q, %q", line, fingerprint, err, wantLine, want)
	}
	for _, remote := range []string{"ssh:///r", "ssh://127.0.0.1:1/r", ":r"} {
		if line, _, err := ScanHostKey(t.Context(), remote, nil); err == nil {
			t.Errorf("%q has the key %q", remote, line)
		}
	}
}

func TestIsRemote(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]bool{"git@h:r": true, "ssh://h/r": true, "https://h/r": false, "git://h/r": false, "/etc": true} {
		if got := IsRemote(remote); got != want {
			t.Errorf("IsRemote(%q) = %v", remote, got)
		}
	}
}

// TestScanHostKeyEnds: a server that talks without an end, or not at all, is given up, and so is one whose client has hung up.
func TestScanHostKeyEnds(t *testing.T) {
	t.Parallel()
	reason := errors.New("the client has hung up")
	for name, text := range map[string]string{"lines": "hello\n", "one line": "x", "ignored messages": "\x00\x00\x00\x0c\x0a\x02", "nothing": ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ctx, hangUp := context.WithCancelCause(t.Context())
		sent := make(chan int, 1)
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			n, many := 0, strings.Repeat(text, 10_000)
			if strings.HasPrefix(name, "ignored") {
				c.Write([]byte("SSH-2.0-x\r\n"))
			}
			if text == "" {
				c.Read(make([]byte, 1)) // the client waits for an answer from now on
				hangUp(reason)
			}
			for err == nil && n < 1<<30 {
				if many == "" {
					_, err = c.Read(make([]byte, 1<<10))
					continue
				}
				var more int
				more, err = c.Write([]byte(many))
				n += more
			}
			sent <- n
		}()
		_, _, err = ScanHostKey(ctx, "ssh://git@"+l.Addr().String()+"/r", nil)
		if err == nil || text == "" && !errors.Is(err, reason) {
			t.Errorf("%s: %v", name, err)
		}
		if n := <-sent; n > 32<<20 {
			t.Errorf("%s: %d bytes were read", name, n)
		}
		hangUp(nil)
	}
}
