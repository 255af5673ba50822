package relay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

const (
	somePlugin = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	someImage  = "sha256:" + somePlugin
)

// engine is an engine that runs relays in this process, to a socket.
type engine struct {
	t      *testing.T
	socket string
	// fail has answers of routes other than success, such as "POST /containers/create".
	fail map[string]int
	// imported is what an import answers.
	imported string
	security []string
	now      time.Time
	// containers and images are what there was before.
	containers, images []map[string]any
	// mute makes a relay say this, and end.
	mute string

	mu      sync.Mutex
	log     []string
	created container.CreateRequest
	asHost  *container.HostConfig
	attach  net.Conn
}

// client starts the engine.
func (e *engine) client() client.APIClient {
	e.t.Helper()
	if e.imported == "" {
		e.imported = someImage
	}
	server := httptest.NewServer(e)
	e.t.Cleanup(server.CloseClientConnections)
	c, err := client.New(client.WithHost("tcp://"+server.Listener.Addr().String()), client.WithAPIVersion("1.41"))
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v1.41")
	route := r.Method + " " + path
	e.mu.Lock()
	e.log = append(e.log, route)
	e.mu.Unlock()
	answer := func(status int, value any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(value)
	}
	if route == "POST /images/create" {
		io.Copy(io.Discard, r.Body)
	}
	if status, ok := e.fail[route]; ok {
		answer(status, map[string]string{"message": "planted"})
		return
	}
	switch route {
	case "GET /version":
		answer(200, map[string]string{"Os": "linux", "Arch": runtime.GOARCH})
	case "GET /info":
		answer(200, map[string]any{"SystemTime": e.now.Format(time.RFC3339Nano), "SecurityOptions": e.security})
	case "GET /containers/json":
		answer(200, e.containers)
	case "GET /images/json":
		answer(200, e.images)
	case "GET /images/sha256:old/json", "GET /images/sha256:untagged/json":
		answer(200, map[string]any{"Comment": message, "RootFS": map[string]any{"Layers": []string{"sha256:l"}}})
	case "GET /images/sha256:built/json":
		answer(200, map[string]any{"Comment": "buildkit.dockerfile.v0", "RootFS": map[string]any{"Layers": []string{"sha256:l"}}})
	case "GET /images/sha256:layered/json":
		answer(200, map[string]any{"Comment": message, "RootFS": map[string]any{"Layers": []string{"sha256:l", "sha256:m"}}})
	case "POST /images/create":
		if got := r.URL.Query(); got.Get("fromSrc") != "-" || got.Get("repo") != "" || got.Get("changes") != "LABEL "+label+"=1" || got.Get("message") != message {
			e.t.Errorf("import: %v", got)
		}
		fmt.Fprintf(w, `{"status":"Importing"}{"status":%q}`, e.imported)
	case "POST /containers/create":
		var request struct {
			container.Config
			HostConfig *container.HostConfig
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			e.t.Error(err)
		}
		e.created.Config, e.asHost = &request.Config, request.HostConfig
		answer(201, map[string]any{"Id": "c1"})
	case "POST /containers/c1/attach":
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			e.t.Error(err)
			return
		}
		e.mu.Lock()
		e.attach = conn
		e.mu.Unlock()
		fmt.Fprint(conn, "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
	case "POST /containers/c1/start":
		w.WriteHeader(204)
		go e.run()
	case "POST /containers/c1/wait":
		answer(200, map[string]any{"StatusCode": 0})
	case "DELETE /containers/c1", "DELETE /containers/old":
		if got, want := r.URL.Query().Get("force") == "1", path == "/containers/c1"; got != want {
			e.t.Errorf("%s: force is %t", route, got)
		}
		w.WriteHeader(204)
	default:
		if r.Method != "DELETE" || !strings.HasPrefix(path, "/images/") {
			e.t.Errorf("unexpected: %s", route)
		}
		answer(200, []any{})
	}
}

// run is the container.
func (e *engine) run() {
	e.mu.Lock()
	attach := e.attach
	e.mu.Unlock()
	defer attach.Close()
	if e.mute != "" {
		frame(attach, stdcopy.Stderr, []byte(e.mute))
		return
	}
	serve(framed{attach}, func() (net.Conn, error) { return net.Dial("unix", e.socket) })
}

// framed writes as an engine that multiplexes stdout and stderr.
type framed struct{ net.Conn }

func (f framed) Write(p []byte) (int, error) { return len(p), frame(f.Conn, stdcopy.Stdout, p) }

func frame(w io.Writer, to stdcopy.StdType, p []byte) error {
	header := []byte{byte(to), 0, 0, 0, byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))}
	_, err := w.Write(append(header, p...))
	return err
}

// did returns the requests that remove something.
func (e *engine) did(method string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.log), func(s string) bool { return !strings.HasPrefix(s, method+" ") })
}

// some opens a file in place of the binary, because the test's may need shared libraries.
func some(_, _ platform) (*os.File, error) { return os.Open("doc.go") }

var removals = []string{"DELETE /containers/c1", "DELETE /images/" + someImage}

func TestOpen(t *testing.T) {
	socket := plugin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	e := &engine{t: t, socket: socket, security: []string{"name=userns", "name=seccomp,profile=default"}}
	way, err := open(t.Context(), e.client(), somePlugin, some)
	if err != nil {
		t.Fatal(err)
	}
	c := clientOf(way.(*relay))
	res, err := c.Get("http://admin/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "hello" {
		t.Errorf("got %q, %v", text, err)
	}
	if err := errors.Join(way.Close(), way.Close()); err != nil {
		t.Error(err)
	}
	if got := e.did("DELETE"); !slices.Equal(got, removals) {
		t.Errorf("removed %q", got)
	}
	// What the container may do.
	got := e.asHost
	if e.created.Image != someImage || e.created.Labels[label] != "1" || !e.created.StdinOnce || e.created.Tty {
		t.Errorf("the container: %+v", e.created.Config)
	}
	want := []any{true, "none", true, []string{"ALL"}, []string(nil), []string{"no-new-privileges"}, "host", "none", false, true}
	if has := []any{
		got.AutoRemove, string(got.NetworkMode), got.ReadonlyRootfs, []string(got.CapDrop), []string(got.CapAdd), got.SecurityOpt, string(got.UsernsMode),
		got.LogConfig.Type, got.Privileged, len(got.Mounts) == 1 && got.Mounts[0].ReadOnly && got.Mounts[0].Source == "/run/docker/plugins/"+somePlugin,
	}; !reflect.DeepEqual(has, want) {
		t.Errorf("the container's rights are %v, want %v", has, want)
	}
	if _, err := way.Dial(t.Context()); err == nil {
		t.Error("a closed way dials")
	}
}

// TestOpenFails checks that every failure has a cause, and leaves nothing in the engine.
func TestOpenFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		plugin string
		change func(e *engine)
		want   string
		left   []string // of removals: what was not made
	}{
		{"a plugin ID that leads elsewhere", "../../../etc", nil, `plugin ID "../../../etc", which is none`, removals},
		{"no import", "", func(e *engine) { e.fail["POST /images/create"] = 500 }, "import the relay", removals},
		{"an image ID that is a name", "", func(e *engine) { e.imported = "evil:latest" }, `image ID "evil:latest", which is none`, removals},
		{"no container", "", func(e *engine) { e.fail["POST /containers/create"] = 500 }, "make the relay", removals[:1]},
		{"no stream", "", func(e *engine) { e.fail["POST /containers/c1/attach"] = 500 }, "attach to the relay", nil},
		{"no start", "", func(e *engine) { e.fail["POST /containers/c1/start"] = 400 }, "start the relay", nil},
		{"a relay that ends", "", func(e *engine) { e.mute = "exec format error\n" }, `"exec format error"`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &engine{t: t, fail: map[string]int{}}
			if tt.change != nil {
				tt.change(e)
			}
			id := tt.plugin
			if id == "" {
				id = somePlugin
			}
			if way, err := open(t.Context(), e.client(), id, some); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %v", way, err)
			}
			want := slices.DeleteFunc(slices.Clone(removals), func(s string) bool { return slices.Contains(tt.left, s) })
			if got := e.did("DELETE"); !slices.Equal(got, want) {
				t.Errorf("removed %q, want %q", got, want)
			}
		})
	}
}

// TestOpenInterrupted checks that a cancelled start, and an interrupt afterwards, leave nothing.
func TestOpenInterrupted(t *testing.T) {
	socket := plugin(t, func(http.ResponseWriter, *http.Request) {})
	ctx, cancel := context.WithCancel(t.Context())
	e := &engine{t: t, socket: socket}
	way, err := open(ctx, e.client(), somePlugin, some)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := way.Close(); err != nil {
		t.Error(err)
	}
	if got := e.did("DELETE"); !slices.Equal(got, removals) {
		t.Errorf("removed %q", got)
	}
	e = &engine{t: t, socket: socket}
	if _, err := open(ctx, e.client(), somePlugin, some); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if got := e.did("POST"); len(got) > 0 {
		t.Errorf("a cancelled Open did %q", got)
	}
}

// TestCloseWaits checks that an image is removed after a container that the engine is removing already,
// and that what can't be removed is named.
func TestCloseWaits(t *testing.T) {
	socket := plugin(t, func(http.ResponseWriter, *http.Request) {})
	e := &engine{t: t, socket: socket, fail: map[string]int{"DELETE /containers/c1": 409}}
	way, err := open(t.Context(), e.client(), somePlugin, some)
	if err != nil {
		t.Fatal(err)
	}
	if err := way.Close(); err != nil {
		t.Error(err)
	}
	if got := e.did("POST"); !slices.Contains(got, "POST /containers/c1/wait") {
		t.Errorf("did %q", got)
	}
	e = &engine{t: t, socket: socket, fail: map[string]int{"DELETE /images/" + someImage: 500}}
	if way, err = open(t.Context(), e.client(), somePlugin, some); err != nil {
		t.Fatal(err)
	}
	if err := way.Close(); err == nil || !strings.Contains(err.Error(), "remove the relay's image sha256:0123") {
		t.Errorf("got %v", err)
	}
}

// TestSweep checks which leftovers are removed: not those of relays that are starting, or run, no other
// container whose image has the label, and no image that somebody has named, or made of a relay's. A container that was
// started meanwhile stays, and the sweep goes on.
func TestSweep(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	old, young := now.Add(-time.Hour).Unix(), now.Add(-time.Second).Unix()
	mounts := func(source, target string) []map[string]any {
		return []map[string]any{{"Type": "bind", "Source": source, "Destination": target, "Mode": "ro"}}
	}
	relay := mounts("/run/docker/plugins/"+somePlugin, "/run/helmdeck")
	e := &engine{t: t, now: now, fail: map[string]int{"DELETE /containers/started": 409, "GET /images/sha256:gone/json": 404},
		containers: []map[string]any{
			{"Id": "started", "State": "created", "Created": old, "Mounts": relay},
			{"Id": "old", "State": "created", "Created": old, "Mounts": relay}, {"Id": "young", "State": "created", "Created": young, "Mounts": relay},
			{"Id": "running", "State": "running", "Created": old, "Mounts": relay},
			{"Id": "foreign", "State": "exited", "Created": old},
			{"Id": "foreign-source", "State": "exited", "Created": old, "Mounts": mounts("/srv", "/run/helmdeck")},
			{"Id": "foreign-target", "State": "exited", "Created": old, "Mounts": mounts("/run/docker/plugins/"+somePlugin, "/mnt")},
		},
		images: []map[string]any{
			{"Id": "sha256:old", "Created": old}, {"Id": "sha256:young", "Created": young},
			{"Id": "sha256:named", "Created": old, "RepoTags": []string{"mine:1"}},
			{"Id": "sha256:untagged", "Created": old, "RepoTags": []string{"<none>:<none>"}},
			{"Id": "sha256:built", "Created": old}, {"Id": "sha256:layered", "Created": old}, {"Id": "sha256:gone", "Created": old},
		},
	}
	c := e.client()
	info, err := c.Info(t.Context(), client.InfoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sweep(t.Context(), c, info.Info)
	want := []string{"DELETE /containers/started", "DELETE /containers/old", "DELETE /images/sha256:old", "DELETE /images/sha256:untagged"}
	if got := e.did("DELETE"); !slices.Equal(got, want) {
		t.Errorf("removed %q, want %q", got, want)
	}
	if got := e.did("POST"); len(got) > 0 {
		t.Errorf("the sweep waited: %q", got)
	}
}

func TestClaim(t *testing.T) {
	for _, tt := range []struct{ name, want string }{
		{"alice", "alice"}, {"DOMAIN\\bob", "DOMAIN\\bob"}, {"evil\r\nX: y", "evil??X: y"}, {"jürgen", "j?rgen"},
		{strings.Repeat("x", 1000), strings.Repeat("x", maxClaim)},
	} {
		if got := claim(&user.User{Username: tt.name}, nil); got != tt.want {
			t.Errorf("%q: got %q", tt.name, got)
		}
	}
	if got := claim(nil, errors.New("unknown")); !strings.HasPrefix(got, "uid ") {
		t.Errorf("got %q", got)
	}
}
