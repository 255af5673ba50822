package gitssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/intake"
)

// hostKeyTimeout bounds ScanHostKey.
const hostKeyTimeout = 10 * time.Second

// errHostKey ends the handshake of ScanHostKey.
var errHostKey = errors.New("host key seen")

// ScanHostKey returns the known_hosts line and the fingerprint of the key that the host
// of a remote presents. It does not verify the key: the user must compare it.
func ScanHostKey(ctx context.Context, remote string, pin []netip.Addr) (line, fingerprint string, err error) {
	host, port := hostOf(remote)
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
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", "", err
	}
	_, _, _, err = ssh.NewClientConn(intake.NewConn(conn), addr, &ssh.ClientConfig{
		HostKeyAlgorithms: []string{
			ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
			ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512,
		},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			fingerprint = key.Type() + " " + ssh.FingerprintSHA256(key)
			line = knownAs(host, port) + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
			return errHostKey
		},
	})
	if fingerprint != "" {
		return line, fingerprint, nil
	}
	return "", "", cmp.Or(context.Cause(ctx), err)
}
