package dial

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"
)

// engine answers as an engine that has the given plugins by name, with the values of Enabled.
func engine(t *testing.T, plugins map[string]bool) func() client.APIClient {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, path, _ := strings.Cut(r.URL.Path, "/plugins/")
		name := strings.TrimSuffix(path, "/json")
		enabled, ok := plugins[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			json.NewEncoder(w).Encode(map[string]string{"message": "plugin not found"})
			return
		}
		json.NewEncoder(w).Encode(map[string]any{"Id": "id-of-" + strings.ReplaceAll(name, "/", "-"), "Name": name, "Enabled": enabled})
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.WithHost(server.URL), client.WithAPIVersion("1.50"))
	if err != nil {
		t.Fatal(err)
	}
	return func() client.APIClient { return c }
}

// recorded is a relay to nothing, with the ID of the plugin that it was started for.
type recorded struct{ plugin string }

func (recorded) Dial(context.Context) (net.Conn, error) { return nil, net.ErrClosed }
func (recorded) Claim() string                          { return "somebody" }
func (recorded) Close() error                           { return nil }

func record(_ context.Context, _ client.APIClient, plugin string) (Way, error) {
	return recorded{plugin}, nil
}

func TestOpen(t *testing.T) {
	plugins := map[string]bool{DefaultPlugin: true, "mirror/repos": true, "old/repos": false}
	for name, c := range map[string]struct {
		plugin, host string
		want, err    string
	}{
		"on another machine":         {host: "ssh://host", want: "id-of-helmdeck-repos"},
		"of another name":            {host: "tcp://host", plugin: "mirror/repos", want: "id-of-mirror-repos"},
		"with its sockets elsewhere": {host: "unix:///somewhere.sock", want: "id-of-helmdeck-repos"},
		"disabled":                   {host: "ssh://host", plugin: "old/repos", err: `the plugin "old/repos" is disabled: enable it with: docker plugin enable --timeout 120 old/repos`},
		"without the plugin":         {host: "ssh://host", plugin: "no/repos", err: `the engine has no plugin "no/repos"`},
	} {
		t.Run(name, func(t *testing.T) {
			way, err := Open(t.Context(), Target{Plugin: c.plugin, Host: c.host, Engine: engine(t, plugins), Relay: record})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := way.(recorded).plugin; got != c.want {
				t.Errorf("got a relay to %q, want %q", got, c.want)
			}
		})
	}
}

// TestOnly checks which plugins are reached without an engine.
func TestOnly(t *testing.T) {
	dir := t.TempDir()
	add := func(id string) string {
		path := filepath.Join(dir, id, "admin.sock")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	check := func(plugin, want string) {
		t.Helper()
		if got := (Target{Plugin: plugin}).only(dir); got != want {
			t.Errorf("plugin %q: got %q, want %q", plugin, got, want)
		}
	}
	check("", "")
	path := add("a")
	check("", path)
	check(DefaultPlugin, path)
	check("mirror/repos", "")
	add("b")
	check("", "")
}

// TestOpenSocket checks that a path needs no engine, and that a socket of an ended process is named.
func TestOpenSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	way, err := Open(t.Context(), Target{Socket: path})
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	conn, err := way.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	if _, err := way.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody listens on "+path) {
		t.Errorf("got %v, want that nobody listens", err)
	}
}

// TestServices checks which plugins are reached that no engine runs: those of Podman's service and of a node's driver.
func TestServices(t *testing.T) {
	dir := t.TempDir()
	podman, kubelet := filepath.Join(dir, "podman.sock"), filepath.Join(dir, "kubelet/admin.sock")
	check := func(want ...string) {
		t.Helper()
		if got := existing(podman, kubelet); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	check()
	listen(t, podman)
	check(podman)
	if err := os.Mkdir(filepath.Dir(kubelet), 0o755); err != nil {
		t.Fatal(err)
	}
	listen(t, kubelet)
	check(podman, kubelet)
	for endpoint, want := range map[string]string{
		"": "", "unix://" + dir + "/kubelet/csi.sock": kubelet, dir + "/kubelet/csi.sock": kubelet, dir + "/elsewhere/csi.sock": "",
	} {
		if got := ofDriver(endpoint); got != want {
			t.Errorf("endpoint %q: got %q, want %q", endpoint, got, want)
		}
	}
}

// TestOpenService checks that the command finds the driver in whose container it runs, with and without an engine,
// and as controls that neither another plugin's name nor an engine on another machine leads there.
func TestOpenService(t *testing.T) {
	dir := t.TempDir()
	want := filepath.Join(dir, "admin.sock")
	listen(t, want)
	t.Setenv("CSI_ENDPOINT", filepath.Join(dir, "csi.sock"))
	absent := func() client.APIClient {
		c, err := client.New(client.WithHost("unix://"+filepath.Join(dir, "docker.sock")), client.WithAPIVersion("1.50"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, c := range map[string]struct {
		engine            func() client.APIClient
		plugin, host, err string
	}{
		"without an engine":            {engine: absent, host: "unix:///var/run/docker.sock"},
		"an engine without the plugin": {engine: engine(t, nil), host: "unix:///var/run/docker.sock"},
		"another plugin":               {engine: absent, host: "unix:///var/run/docker.sock", plugin: "mirror/repos", err: "docker.sock"},
		"another machine":              {engine: engine(t, nil), host: "ssh://host", err: "the engine has no plugin"},
	} {
		way, err := Open(t.Context(), Target{Engine: c.engine, Host: c.host, Plugin: c.plugin, Relay: record})
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: got %v, want %s", name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case !IsService(way) || way.(direct).socket != want:
			t.Errorf("%s: got %+v, want the service at %s", name, way, want)
		}
	}
}

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}
