package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/coreos/go-systemd/v22/activation"
)

// sockets are the listening sockets that systemd has handed to this process, by their paths.
// systemd makes them, sets their permissions, and keeps them while the process restarts, so that
// clients wait instead of being refused.
type sockets map[string]net.Listener

// inherit takes the sockets that systemd has handed to this process. Without systemd there are none.
func inherit() (sockets, error) {
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, err
	}
	handed := make(sockets)
	for i, l := range listeners {
		if l == nil || l.Addr().Network() != "unix" {
			return nil, fmt.Errorf("systemd handed over something else than a listening unix socket (descriptor %d): correct the socket unit", i+3)
		}
		handed[l.Addr().String()] = l
	}
	return handed, nil
}

// check returns an error if a socket was handed over that nobody serves: its clients would wait for ever.
func (s sockets) check(served map[string]endpoint) error {
	for path := range s {
		if _, ok := served[path]; !ok {
			return fmt.Errorf("systemd handed over the socket %q, which this program does not serve: make the flag -socket and the socket unit agree", path)
		}
	}
	return nil
}

// listen returns the socket that was handed over, or else makes one that only root can connect to.
// An existing file is from a process that died, because this process has the database open.
func (s sockets) listen(socket string) (net.Listener, error) {
	if l, ok := s[socket]; ok {
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	// Connecting needs write permission, which the umask denies to all others.
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
