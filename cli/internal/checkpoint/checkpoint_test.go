package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/containers"
)

// calls are those to the plugin and to the engine, in their order.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) add(call string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, call)
}

func (c *calls) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.all, ", ")
}

// box is a container of the fake engine, and of which volume.
type box struct {
	id, volume      string
	running, paused bool
	ends            bool // between the list and the pause
}

// boxes is an engine with containers.
type boxes struct {
	calls *calls
	all   []*box
	fail  map[string]error // by call
}

func (e *boxes) find(id string) *box {
	for _, b := range e.all {
		if b.id == id {
			return b
		}
	}
	return nil
}

func (e *boxes) PluginInspect(context.Context, string, client.PluginInspectOptions) (r client.PluginInspectResult, err error) {
	r.Plugin.Name = "repos"
	return r, nil
}

func (e *boxes) ContainerList(context.Context, client.ContainerListOptions) (r client.ContainerListResult, err error) {
	for _, b := range e.all {
		if b.running {
			s := container.Summary{ID: b.id, Names: []string{"/" + b.id}, State: container.StateRunning, Mounts: []container.MountPoint{{Type: mount.TypeVolume, Driver: "repos", Name: b.volume}}}
			if b.paused {
				s.State = container.StatePaused
			}
			r.Items = append(r.Items, s)
		}
	}
	return r, e.fail["list"]
}

func (e *boxes) ContainerInspect(_ context.Context, id string, _ client.ContainerInspectOptions) (r client.ContainerInspectResult, err error) {
	b := e.find(id)
	if b == nil {
		return r, errdefs.ErrNotFound
	}
	r.Container.State = &container.State{Running: b.running, Paused: b.paused}
	if b.ends { // and its restart comes during the second pass
		r.Container.State.Running = false
	}
	return r, nil
}

func (e *boxes) ContainerPause(_ context.Context, id string, _ client.ContainerPauseOptions) (r client.ContainerPauseResult, err error) {
	e.calls.add("pause " + id)
	if err := e.fail["pause "+id]; err != nil {
		return r, err
	}
	e.find(id).paused = true
	return r, nil
}

func (e *boxes) ContainerUnpause(_ context.Context, id string, _ client.ContainerUnpauseOptions) (r client.ContainerUnpauseResult, err error) {
	e.calls.add("unpause")
	e.find(id).paused = false
	return r, nil
}

// world is a plugin and an engine.
type world struct {
	calls  calls
	engine boxes
	plugin *http.ServeMux
	said   strings.Builder
	during func() // CatchUp
}

const draftID = "0123456789abcdef"

// newWorld has a workspace a1 with leases, and containers. What fails is named by the beginning of its call.
func newWorld(leases, failing string, all ...*box) *world {
	w := &world{}
	w.engine = boxes{calls: &w.calls, all: all, fail: map[string]error{}}
	of := api.Workspace{ID: "a1", Phase: "mounted", Volume: "one", Leases: strings.Fields(leases)}
	answer := func(call string, v any) func(http.ResponseWriter, *http.Request) {
		return func(rw http.ResponseWriter, r *http.Request) {
			w.calls.add(call)
			if call == "catch-up" && w.during != nil {
				w.during()
				w.during = nil
			}
			if failing == call {
				rw.WriteHeader(http.StatusConflict)
				json.NewEncoder(rw).Encode(api.ErrorAnswer{Error: call + " failed"})
				return
			}
			json.NewEncoder(rw).Encode(v)
		}
	}
	w.plugin = http.NewServeMux()
	w.plugin.HandleFunc("GET /v1/workspaces", func(rw http.ResponseWriter, r *http.Request) {
		json.NewEncoder(rw).Encode(map[string]any{"workspaces": []api.Workspace{of}})
	})
	w.plugin.HandleFunc("GET /v1/workspaces/a1", func(rw http.ResponseWriter, r *http.Request) {
		json.NewEncoder(rw).Encode(api.WorkspaceDetail{Workspace: of})
	})
	w.plugin.HandleFunc("POST /v1/workspaces/a1/draft", answer("draft", api.Draft{ID: draftID, Files: 9, Copied: 1 << 20, Cloned: 5, Torn: 4}))
	w.plugin.HandleFunc("POST /v1/drafts/"+draftID+"/catch-up", answer("catch-up", api.Draft{ID: draftID, Files: 10, Changed: 1, Copied: 1 << 20}))
	w.plugin.HandleFunc("POST /v1/drafts/"+draftID+"/keep", answer("keep", api.Checkpoint{ID: draftID}))
	w.plugin.HandleFunc("DELETE /v1/drafts/"+draftID, answer("drop", nil))
	return w
}

// make makes a checkpoint.
func (w *world) make(ctx context.Context, t *testing.T, noPause bool) (string, error) {
	t.Helper()
	finder, err := containers.New(ctx, &w.engine, "repos")
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: w.plugin}}
	server.Start()
	t.Cleanup(server.Close)
	m := Maker{Client: api.Dial(socket), Containers: func(context.Context) (*containers.Finder, error) { return finder, w.engine.fail["engine"] }, NoPause: noPause, Say: &w.said}
	return m.Make(ctx, api.Workspace{ID: "a1", Volume: "one", Leases: []string{"x"}}, api.Note{Name: "n"})
}

// TestMake: the order of the calls. Containers are paused around the second pass alone, and what fails leaves no draft
// and no paused container.
func TestMake(t *testing.T) {
	runs := func() *box { return &box{id: "c", volume: "one", running: true} }
	for name, c := range map[string]struct {
		leases, failing string
		boxes           []*box
		fail            map[string]error
		noPause         bool
		calls, said     string
		err             string
	}{
		"one container":         {leases: "x", boxes: []*box{runs(), {id: "d", volume: "two", running: true}}, calls: "draft, pause c, catch-up, unpause, keep", said: "10 files and directories: 2MiB copied, 5B shared"},
		"two containers":        {leases: "x y", boxes: []*box{runs(), {id: "d", volume: "one", running: true}}, calls: "draft, pause c, pause d, catch-up, unpause, unpause, keep", said: "s: c, d\n"},
		"paused by the user":    {leases: "x", boxes: []*box{{id: "c", volume: "one", running: true, paused: true}}, calls: "draft, catch-up, keep"},
		"it has just ended":     {boxes: []*box{{id: "c", volume: "one"}}, calls: "draft, catch-up, keep"},
		"unknown to the engine": {leases: "x", boxes: []*box{{id: "d", volume: "two", running: true}}, calls: "draft, keep", said: "because the engine knows none that uses the workspace"},
		"--no-pause":            {leases: "x", boxes: []*box{runs()}, noPause: true, calls: "draft, keep", said: "wrote all the time: 4"},
		"no draft":              {leases: "x", boxes: []*box{runs()}, failing: "draft", calls: "draft", err: "draft failed"},
		"no second pass":        {leases: "x", boxes: []*box{runs()}, failing: "catch-up", calls: "draft, pause c, catch-up, unpause, drop", err: "catch-up failed"},
		"not kept":              {leases: "x", boxes: []*box{runs()}, failing: "keep", calls: "draft, pause c, catch-up, unpause, keep, drop", err: "keep failed"},
		"no list":               {leases: "x", boxes: []*box{runs()}, fail: map[string]error{"list": errors.New("no permission")}, calls: "draft, drop", err: "--no-pause"},
		"no engine":             {leases: "x", boxes: []*box{runs()}, fail: map[string]error{"engine": errors.New("no permission")}, calls: "draft, drop", err: "--no-pause"},
		"the second can't be paused": {leases: "x y", boxes: []*box{runs(), {id: "d", volume: "one", running: true}}, fail: map[string]error{"pause d": errdefs.ErrConflict},
			calls: "draft, pause c, pause d, unpause, drop", err: "with --no-pause it is made while containers write"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(c.leases, c.failing, c.boxes...)
			if c.fail != nil {
				w.engine.fail = c.fail
			}
			id, err := w.make(t.Context(), t, c.noPause)
			if c.err == "" && (err != nil || id != draftID) || c.err != "" && (err == nil || id != "" || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%q, %v, want the error %q", id, err, c.err)
			}
			if got := w.calls.String(); got != c.calls {
				t.Errorf("got %q, want %q", got, c.calls)
			}
			if got := w.said.String(); !strings.Contains(got, c.said) {
				t.Errorf("said\n%s, want %q", got, c.said)
			}
			for _, b := range c.boxes {
				if b.paused != (name == "paused by the user") {
					t.Errorf("%s is paused: %v", b.id, b.paused)
				}
			}
		})
	}
}

// TestMakeOfMore: a container that starts meanwhile writes while the second pass reads.
func TestMakeOfMore(t *testing.T) {
	late := &box{id: "late", volume: "one"}
	w := newWorld("x", "", &box{id: "c", volume: "one", running: true}, late)
	w.during = func() { late.running = true }
	if _, err := w.make(t.Context(), t, false); err == nil || !strings.Contains(err.Error(), `container "late" has started meanwhile`) {
		t.Error(err)
	}
	if got, want := w.calls.String(), "draft, pause c, catch-up, unpause, drop"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMakeOfRestarted: a container that has ended before its pause and starts again, with its ID, writes while the second
// pass reads, and so does one whose user ends the pause that it had.
func TestMakeOfRestarted(t *testing.T) {
	for name, c := range map[string]*box{
		"it starts again": {id: "c", volume: "one", running: true, ends: true}, "it is unpaused": {id: "c", volume: "one", running: true, paused: true},
	} {
		w := newWorld("x", "", c)
		w.during = func() { c.ends, c.paused = false, false }
		if _, err := w.make(t.Context(), t, false); err == nil || !strings.Contains(err.Error(), `container "c" has started meanwhile`) {
			t.Errorf("%s: %v", name, err)
		}
		if got, want := w.calls.String(), "draft, catch-up, drop"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
