package commands

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/cli/cli/command"

	"github.com/helmdeck/repos/cli/internal/session"
)

// run runs a command with its input against the plugin.
func (p fake) run(t *testing.T, input string, args ...string) result {
	t.Helper()
	return runAt(t, p.serve(t), input, args...)
}

// serve serves p, and returns the path of the socket.
func (p fake) serve(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	for route, answer := range p {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			if f, ok := answer.(func(http.ResponseWriter, *http.Request)); ok {
				f(w, r)
				return
			}
			json.NewEncoder(w).Encode(answer)
		})
	}
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func runAt(t *testing.T, socket, input string, args ...string) result {
	t.Helper()
	return runFrom(t, socket, io.NopCloser(strings.NewReader(input)), args...)
}

// runFrom runs the command with a standard input, which may be a terminal.
func runFrom(t *testing.T, socket string, in io.ReadCloser, args ...string) result {
	t.Helper()
	var out, err bytes.Buffer
	failed := runOn(t, socket, in, &out, &err, args...)
	return result{out.String(), err.String(), failed}
}

// runOn runs the command with its standard streams, which may be a terminal.
func runOn(t *testing.T, socket string, in io.ReadCloser, out, errs io.Writer, args ...string) error {
	t.Helper()
	docker, err := command.NewDockerCli(command.WithInputStream(in), command.WithOutputStream(out), command.WithErrorStream(errs))
	if err != nil {
		t.Fatal(err)
	}
	s := &session.Session{Docker: docker, Version: "test"}
	defer s.Close()
	root := New(s, "docker-repos")
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetOut(out)
	root.SetErr(errs)
	root.SetArgs(append([]string{"--socket", socket}, args...))
	return root.ExecuteContext(t.Context())
}
