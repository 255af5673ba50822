package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// world is an engine and a plugin as the doctor sees them.
type world struct {
	version, info, plugin map[string]any
	health                api.Health
	settings              []api.Setting
	now                   time.Time
	noEngine, noSocket    bool
}

func healthy() *world {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	return &world{
		now:     now,
		version: map[string]any{"Version": "28.5.2", "ApiVersion": "1.51", "Os": "linux", "Arch": "amd64"},
		info:    map[string]any{"SystemTime": now.Format(time.RFC3339Nano), "SecurityOptions": []string{"name=seccomp,profile=builtin"}},
		plugin: map[string]any{
			"Id": strings.Repeat("a", 64), "Name": "helmdeck/repos:latest", "Enabled": true,
			"Settings": map[string]any{"Env": []string{"MAX_SIZE=20GiB", "TTL=", "CA_BUNDLE=x", "OLD=1"}},
		},
		health: api.Health{Time: now, Status: api.OK, Checks: []api.Check{
			{Name: "clock", Status: api.OK, Text: "now"}, {Name: "settings", Status: api.OK, Text: "fit"}, {Name: "selinux", Status: api.OK, Text: "none"},
		}},
		settings: []api.Setting{
			{Name: "MAX_SIZE", Value: "20GiB", Default: "20GiB"}, {Name: "TTL", Value: "336h", Default: "336h"},
			{Name: "CA_BUNDLE", Hidden: true, Set: true}, {Name: "SELINUX_CONTEXT"},
		},
	}
}

// examine examines the world with an engine over HTTP, and a plugin over pipes.
func (w *world) examine(t *testing.T) []api.Check {
	t.Helper()
	answer := func(to http.ResponseWriter, status int, value any) {
		to.Header().Set("Content-Type", "application/json")
		to.WriteHeader(status)
		json.NewEncoder(to).Encode(value)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/version"):
			answer(to, 200, w.version)
		case strings.HasSuffix(r.URL.Path, "/info"):
			answer(to, 200, w.info)
		case strings.HasSuffix(r.URL.Path, "/plugins/helmdeck/repos/json") && w.plugin != nil:
			answer(to, 200, w.plugin)
		default:
			answer(to, 404, map[string]string{"message": "not found"})
		}
	}))
	defer engine.Close()
	if w.noEngine {
		engine.Close()
	}
	plugin := httptest.NewServer(http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/settings" {
			answer(to, 200, map[string]any{"settings": w.settings})
			return
		}
		if r.URL.RequestURI() != "/v1/health?remotes=true" {
			t.Errorf("asked for %s", r.URL)
		}
		answer(to, 200, w.health)
	}))
	defer plugin.Close()
	c, err := client.New(client.WithHost(engine.URL), client.WithAPIVersion("1.51"))
	if err != nil {
		t.Fatal(err)
	}
	p := Patient{Engine: c, Host: "unix:///sock", Plugin: "helmdeck/repos", Now: func() time.Time { return w.now }, Remotes: true}
	p.Connect = func(context.Context) (*api.Client, error) {
		if w.noSocket {
			return nil, errors.New("nobody listens")
		}
		return api.New(func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", plugin.Listener.Addr().String())
		}), nil
	}
	return p.Examine(t.Context())
}

func TestExamine(t *testing.T) {
	for _, c := range healthy().examine(t) {
		if c.Status != api.OK || c.Text == "" || c.Remedy != "" {
			t.Errorf("healthy: got %+v", c)
		}
	}
	for _, tt := range []struct {
		check, status, text, remedy string
		change                      func(w *world)
	}{
		{"engine", api.Failed, "connect", "start the engine", func(w *world) { w.noEngine = true }},
		{"engine", api.Failed, "windows", "Linux containers", func(w *world) { w.version["Os"] = "windows" }},
		{"engine", api.Failed, "rootless", "runs as root", func(w *world) { w.info["SecurityOptions"] = []string{"name=rootless"} }},
		{"engine", api.Warning, "API 1.40", "20.10", func(w *world) { w.version["ApiVersion"] = "1.40" }},
		{"engine", api.Warning, "version 20.10.24, API 1.41, linux/amd64", "newer engine", func(w *world) {
			w.version["Version"], w.version["ApiVersion"] = "20.10.24", "1.41"
		}},
		{"engine", api.Warning, ":ro without nosuid and nodev", "no-new-privileges", func(w *world) { w.version["ApiVersion"] = "1.41" }},
		{"engine", api.OK, "API 1.42", "", func(w *world) { w.version["ApiVersion"] = "1.42" }},
		{"plugin", api.Failed, `no plugin "helmdeck/repos"`, "docker plugin install", func(w *world) { w.plugin = nil }},
		{"plugin", api.Failed, "helmdeck/repos:latest is disabled", "docker plugin enable --timeout 120 helmdeck/repos:latest", func(w *world) { w.plugin["Enabled"] = false }},
		{"socket", api.Failed, "nobody listens", "journalctl", func(w *world) { w.noSocket = true }},
		{"settings", api.Failed, `MAX_SIZE is "1GiB" in the engine, and "20GiB" in force`, "docker plugin disable -f helmdeck/repos:latest, and then docker plugin enable --timeout 120 helmdeck/repos:latest", func(w *world) {
			w.plugin["Settings"] = map[string]any{"Env": []string{"MAX_SIZE=1GiB"}}
		}},
		{"clock", api.Failed, "the clock of the plugin is 1h0m0s ahead of this machine's", "NTP", func(w *world) { w.health.Time = w.now.Add(time.Hour) }},
		{"clock", api.Failed, "the clock of the engine is 1h0m0s behind this machine's", "NTP", func(w *world) {
			w.info["SystemTime"] = w.now.Add(-time.Hour).Format(time.RFC3339Nano)
		}},
		{"clock", api.Failed, "put back", "set it", func(w *world) {
			w.health.Time = w.now.Add(time.Hour)
			w.health.Checks[0] = api.Check{Name: "clock", Status: api.Failed, Text: "put back", Remedy: "set it"}
		}},
		{"selinux", api.Failed, "SELINUX_CONTEXT is not set", "container_file_t", func(w *world) { w.info["SecurityOptions"] = []string{"name=selinux"} }},
		{"selinux", api.OK, "the engine does not use it", "", func(w *world) {
			w.health.Checks[2] = api.Check{Name: "selinux", Status: api.Warning, Text: "on", Remedy: "set"}
		}},
		{"selinux", api.OK, "none", "", func(w *world) {
			w.info["SecurityOptions"] = []string{"name=selinux"}
			w.settings[3].Value = "a:b:c:s0"
		}},
	} {
		t.Run(tt.check+" "+tt.text, func(t *testing.T) {
			w := healthy()
			tt.change(w)
			checks := w.examine(t)
			for _, c := range checks {
				switch {
				case c.Name != tt.check:
					if c.Status != api.OK {
						t.Errorf("another check has %+v", c)
					}
				case c.Status != tt.status || !strings.Contains(c.Text, tt.text) || !strings.Contains(c.Remedy, tt.remedy):
					t.Errorf("got %+v", c)
				default:
					return
				}
			}
			t.Errorf("not found in %+v", checks)
		})
	}
}

// TestSlowRelay checks that the time between the questions does not count as a difference of clocks.
func TestSlowRelay(t *testing.T) {
	began := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	c := clock(api.Check{Name: "clock", Status: api.OK}, began.Add(time.Hour+3*time.Second),
		span{began.Add(time.Hour), began.Add(time.Hour + 5*time.Second)}, reading{span: span{began, began.Add(time.Second)}})
	if c.Status != api.OK {
		t.Errorf("got %+v", c)
	}
}

// TestWithoutEngine checks that the log of an engine is not all that is named where none may run the plugin.
func TestWithoutEngine(t *testing.T) {
	p := Patient{Socket: true, Now: time.Now, Connect: func(context.Context) (*api.Client, error) { return nil, errors.New("nobody listens") }}
	got := p.Examine(t.Context())
	if len(got) != 1 || got[0].Status != api.Failed || !strings.Contains(got[0].Remedy, "journalctl -u helmdeck-repos") || !strings.Contains(got[0].Remedy, "kubectl logs") {
		t.Errorf("got %+v", got)
	}
}
