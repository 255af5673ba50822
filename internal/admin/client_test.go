package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testapi"
)

// serve serves on a socket until the test ends. It does not use t.TempDir, whose path can be too
// long for a socket.
func serve(t *testing.T, h http.Handler) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "admin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

// client returns a client of the API, whose requests and answers are checked against the
// document.
func client(t *testing.T, c Config) *api.Client {
	t.Helper()
	return api.Dial(serve(t, testapi.Documented(t, Handler(c))))
}

func TestClient(t *testing.T) {
	ctx := t.Context()
	log, logged := logger()
	s := store(t)
	c := client(t, Config{Credentials: s, Log: log})
	if list, err := c.Credentials(ctx, api.Filter{}); err != nil || len(list) != 0 {
		t.Errorf("got %v, %v", list, err)
	}
	secret := hidden + " <\"\\ü>"
	for name, cred := range map[string]api.PutCredential{
		"b": {Kind: api.HTTPS, Scope: "https://h/org", Subject: "a/b\n", User: "u", Secret: secret},
		"a": {Kind: api.Bearer, Scope: "http://127.0.0.1:8080", Secret: hidden},
	} {
		if strings.Contains(fmt.Sprintf("%v %+v %#v", cred, cred, cred), cred.Secret) {
			t.Error("fmt shows the secret")
		}
		if err := c.PutCredential(ctx, name, cred); err != nil {
			t.Fatal(err)
		}
	}
	u, err := volume.ParseURL("https://h/org/repo", volume.AllSchemes())
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.Match(u, "a/b\n", "", credential.Fetch); err != nil || m.User != "u" || m.Secret.Reveal() != secret {
		t.Errorf("got %+v with %q, %v", m, m.Secret.Reveal(), err)
	}
	want := []api.Credential{
		{Name: "a", Kind: api.Bearer, Scope: "http://127.0.0.1:8080", Allow: api.AllowFetch},
		{Name: "b", Kind: api.HTTPS, Scope: "https://h/org", Subject: "a/b\n", User: "u", Allow: api.AllowFetch},
	}
	if list, err := c.Credentials(ctx, api.Filter{}); err != nil || !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, tt := range []struct {
		name   string
		err    error
		status int
		want   string
	}{
		{"refused", c.PutCredential(ctx, "c", api.PutCredential{Kind: "x", Secret: hidden}), 400, `kind "x" is unknown`},
		{"name", c.PutCredential(ctx, "a/../b?c", api.PutCredential{Kind: api.HTTPS}), 400, `name "a/../b?c" is not`},
		{"no name", c.PutCredential(ctx, "", api.PutCredential{}), 404, "there is no PUT"},
		{"dots", c.RemoveCredential(ctx, ".."), 404, `there is no credential ".."`},
		{"unknown", c.RemoveCredential(ctx, "c"), 404, `there is no credential "c"`},
	} {
		var refused *api.Error
		if !errors.As(tt.err, &refused) || refused.Status != tt.status || !strings.Contains(refused.Error(), tt.want) {
			t.Errorf("%s: got %#v, want %d %s", tt.name, tt.err, tt.status, tt.want)
		}
	}
	for _, name := range []string{"a", "b"} {
		if err := c.RemoveCredential(ctx, name); err != nil {
			t.Error(err)
		}
	}
	if got := s.List(); len(got) != 0 {
		t.Errorf("credentials left: %v", got)
	}
	if strings.Contains(logged.String(), hidden) {
		t.Errorf("the log shows the secret: %s", logged)
	}
}

// TestClientErrors checks the errors if the server is not the plugin, or does not exist.
func TestClientErrors(t *testing.T) {
	for _, tt := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"no JSON", "<html>", 502, "the plugin answered 502 Bad Gateway"},
		{"other JSON", `{"Err": "x"}`, 500, "the plugin answered 500"},
		{"no list", "<html>", 200, "malformed answer"},
	} {
		c := api.Dial(serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.body))
		})))
		if _, err := c.Credentials(t.Context(), api.Filter{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
	missing := filepath.Join(t.TempDir(), "admin.sock")
	if err := api.Dial(missing).RemoveCredential(t.Context(), "a"); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("no socket: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	err := api.Dial(missing).PutCredential(cancelled, "a", api.PutCredential{Secret: hidden})
	if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), hidden) {
		t.Errorf("cancelled: %v", err)
	}
}
