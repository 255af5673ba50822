package main

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

// A socket that systemd hands over is used as it is; one that nobody would serve is an error.
func TestHandedOver(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "repos.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	handed := sockets{path: l}
	if got, err := handed.listen(path); err != nil || got != l {
		t.Errorf("got %v, %v, want the socket that was handed over", got, err)
	}
	if err := handed.check(map[string]endpoint{path: {}}); err != nil {
		t.Error(err)
	}
	if err := handed.check(map[string]endpoint{path + "2": {}}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a socket that nobody serves: %v", err)
	}
}
