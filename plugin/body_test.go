package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/wait"
)

// TestLargeBodies checks that a client that sends a whole request before it reads gets the
// answer, whatever it sent: on both sockets, also at a path that does not exist.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	p := start(t, scratch(t))
	engine, admin := p.at.socket, filepath.Join(filepath.Dir(p.at.socket), adminSocket)
	const malformed = `{"Name":}`
	for _, tt := range []struct {
		socket, request string
		bytes, status   int
		closed          bool // the answer ends the connection
	}{
		{engine, "POST /VolumeDriver.Create", 900_000, http.StatusBadRequest, false},
		{engine, "POST /VolumeDriver.Create", 20 << 20, http.StatusRequestEntityTooLarge, true},
		{engine, "POST /VolumeDriver.List", 900_000, http.StatusOK, false},
		{admin, "PUT /v1/credentials/x", 900_000, http.StatusBadRequest, false},
		{admin, "PUT /v1/credentials/x", 20 << 20, http.StatusRequestEntityTooLarge, true},
		{admin, "POST /v1/warm", 900_000, http.StatusBadRequest, false},
		{admin, "POST /v1/workspaces/x/push", 900_000, http.StatusBadRequest, false},
		{admin, "GET /v1/volumes", 900_000, http.StatusOK, false},
		{admin, "PUT /v1/volumes", 900_000, http.StatusMethodNotAllowed, false},
		{admin, "POST /v1/nothing", 20 << 20, http.StatusNotFound, true},
	} {
		name := fmt.Sprintf("%s with %d bytes", tt.request, tt.bytes)
		conn, err := net.Dial("unix", tt.socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(wait.Most(t)))
		body := malformed + strings.Repeat(" ", tt.bytes-len(malformed))
		if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", tt.request, len(body), body); err != nil {
			t.Errorf("%s: the connection was cut: %v", name, err)
			continue
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != tt.status {
			t.Errorf("%s: %s, %v, want %d: %s", name, resp.Status, err, tt.status, said)
		}
		if resp.Close && !tt.closed {
			t.Errorf("%s: the answer ends the connection", name)
		}
	}
}
