package prebuild

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/image"
	"github.com/moby/moby/api/types/volume"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// world is an engine and a plugin in one. Its containers run a function in place of the command.
type world struct {
	images map[string]string // IDs by name
	commit string
	// exact has the state of node_modules, if there is one.
	exact *api.WarmState
	// run is the command of a container, which prints text and ends with a code, or with hangs does not end.
	run func(w *world, command string) (text string, code int)
	// lost is how often the plugin can't be reached at the end, and busy the error of removing a checkpoint.
	lost int
	busy error
	// stays is set if volumes can't be removed, and runsOn if containers can't.
	stays, runsOn bool
	// hangs is set if commands do not end by themselves.
	hangs bool

	mu         sync.Mutex
	log        []string // what was done
	containers map[string]client.ContainerCreateOptions
	volumes    map[string]map[string]string // labels
	old        []container.Summary
	imported   map[string]client.ImageImportOptions // images, by ID
	swept      bool                                 // containers go while files are copied from them
	files      map[string][]byte                    // what can be copied from containers
	born       int64                                // when the images were imported, in seconds since 1970
	pipes      map[string]net.Conn
	workspaces []api.Workspace
	started    chan struct{} // gets a value when a container has started, if it is not nil
}

func newWorld() *world {
	return &world{
		images: map[string]string{"node": "sha256:node"}, commit: "c1",
		containers: make(map[string]client.ContainerCreateOptions), volumes: make(map[string]map[string]string), pipes: make(map[string]net.Conn), imported: make(map[string]client.ImageImportOptions),
		run: func(*world, string) (string, int) { return "", 0 },
	}
}

func (w *world) note(format string, a ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, a...))
}

// clean fails the test if something is left.
func (w *world) clean(t *testing.T) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.containers)+len(w.volumes)+len(w.workspaces)+len(w.imported) > 0 {
		t.Errorf("left are containers %q, volumes %q, workspaces %v", slices.Collect(maps.Keys(w.containers)), slices.Collect(maps.Keys(w.volumes)), w.workspaces)
	}
}

func (w *world) ImageInspect(_ context.Context, name string, _ ...client.ImageInspectOption) (r client.ImageInspectResult, err error) {
	if r.ID = w.images[name]; r.ID == "" {
		return r, errdefs.ErrNotFound.WithMessage("no such image")
	}
	return r, nil
}

func (w *world) ContainerCreate(_ context.Context, o client.ContainerCreateOptions) (r client.ContainerCreateResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := o.HostConfig.Mounts[0]
	w.volumes[m.Source] = m.VolumeOptions.Labels
	w.containers[o.Name] = o
	return client.ContainerCreateResult{ID: o.Name}, nil
}

func (w *world) ContainerAttach(_ context.Context, id string, _ client.ContainerAttachOptions) (r client.ContainerAttachResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mine, its := net.Pipe()
	w.pipes[id] = its
	r.HijackedResponse = client.HijackedResponse{Conn: mine, Reader: bufio.NewReader(mine)}
	return r, nil
}

// ended is the channel of a wait.
type ended chan container.WaitResponse

func (w *world) ContainerWait(_ context.Context, id string, _ client.ContainerWaitOptions) (r client.ContainerWaitResult) {
	result := make(ended, 1)
	w.mu.Lock()
	o := w.containers[id]
	pipe := w.pipes[id]
	w.mu.Unlock()
	go func() {
		text, code := w.run(w, o.Config.Cmd[1])
		if text != "" {
			pipe.Write(append([]byte{byte(stdcopy.Stderr), 0, 0, 0, 0, 0, 0, byte(len(text))}, text...))
		}
		if w.hangs {
			return
		}
		pipe.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		if code == 0 {
			w.exact = &api.WarmState{Path: "node_modules", Exact: true, Commit: w.commit, Label: o.Config.Cmd[2]}
		}
		w.workspaces = []api.Workspace{{ID: "ws", Volume: id, Phase: "ended"}}
		result <- container.WaitResponse{StatusCode: int64(code)}
	}()
	r.Result = result
	r.Error = make(chan error)
	return r
}

func (w *world) ContainerStart(_ context.Context, id string, _ client.ContainerStartOptions) (r client.ContainerStartResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, "run "+w.containers[id].Config.Cmd[1])
	if w.started != nil {
		close(w.started)
	}
	return r, nil
}

func (w *world) ContainerInspect(_ context.Context, id string, _ client.ContainerInspectOptions) (r client.ContainerInspectResult, err error) {
	if _, ok := w.containers[id]; !ok {
		err = errdefs.ErrNotFound.WithMessage("no such container")
	}
	return r, err
}

func (w *world) ContainerRemove(ctx context.Context, id string, o client.ContainerRemoveOptions) (r client.ContainerRemoveResult, err error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	if !o.RemoveVolumes {
		return r, errors.New("the anonymous volumes of the image would stay")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, c := range w.old {
		if c.ID == id {
			if running := c.State == container.StateRunning; o.Force != running {
				return r, fmt.Errorf("forced: %v; running: %v", o.Force, running)
			}
			w.old = slices.Delete(w.old, i, i+1)
			return r, nil
		}
	}
	if _, ok := w.containers[id]; !ok {
		return r, errdefs.ErrNotFound.WithMessage("no such container")
	}
	if w.runsOn {
		return r, errors.New("it runs on")
	}
	delete(w.containers, id)
	return r, nil
}

func (w *world) ContainerList(context.Context, client.ContainerListOptions) (r client.ContainerListResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Items = slices.Clone(w.old)
	return r, nil
}

func (w *world) VolumeList(context.Context, client.VolumeListOptions) (r client.VolumeListResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.volumes)) {
		r.Items = append(r.Items, volume.Volume{Name: name, Labels: w.volumes[name]})
	}
	return r, nil
}

func (w *world) VolumeRemove(ctx context.Context, name string, _ client.VolumeRemoveOptions) (r client.VolumeRemoveResult, err error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stays {
		return r, errors.New("it stays")
	}
	if _, ok := w.volumes[name]; !ok {
		return r, errdefs.ErrNotFound.WithMessage("no such volume")
	}
	for _, c := range w.old {
		if strings.HasSuffix(c.Names[0], name) {
			return r, errdefs.ErrConflict.WithMessage("in use")
		}
	}
	delete(w.volumes, name)
	return r, nil
}

func (w *world) Warm(_ context.Context, q api.Warm, _ func(api.Progress)) (r api.WarmResult, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r = api.WarmResult{Ref: "refs/heads/main", Commit: w.commit, States: []api.WarmState{{Path: "node_modules", Why: "there is none yet"}}}
	if w.exact != nil {
		r.States[0] = *w.exact
	}
	return r, nil
}

// Workspaces has each workspace once as ended, and then as a checkpoint.
func (w *world) Workspaces(_ context.Context, f api.Filter) (list []api.Workspace, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lost > 0 {
		w.lost--
		return nil, &url.Error{Op: "Get", URL: "http://plugin", Err: errors.New("it is away")}
	}
	for i := range w.workspaces {
		if w.workspaces[i].Volume == f.Volume {
			list = append(list, w.workspaces[i])
			w.workspaces[i].Phase = "checkpoint"
		}
	}
	return list, nil
}

func (w *world) RemoveCheckpoint(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workspaces = slices.DeleteFunc(w.workspaces, func(x api.Workspace) bool { return x.ID == id })
	return w.busy
}

// job is a whole job.
func job() Job {
	return Job{
		Repo: "https://h/app", Image: "node", Setup: "npm ci", Options: map[string]string{"warm": "node_modules", "subject": "s"},
		Target: DefaultTarget, Timeout: DefaultTimeout,
	}
}

// prebuilder returns a Prebuilder in a world, and what its commands print.
func (w *world) prebuilder() (*Prebuilder, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return &Prebuilder{
		Engine: w, Plugin: w, Driver: "helmdeck/repos", Output: out,
		Pull: func(_ context.Context, image string) error {
			w.note("pull %s", image)
			w.images[image] = "sha256:" + image
			return nil
		},
	}, out
}

func (w *world) ImageImport(_ context.Context, source client.ImageImportSource, ref string, o client.ImageImportOptions) (client.ImageImportResult, error) {
	if h, err := tar.NewReader(source.Source).Next(); err != nil || h.Name != "w/" || ref != "" {
		return nil, fmt.Errorf("got %v, %v, %q", h, err, ref)
	}
	id := "sha256:" + strings.Repeat("0", 64)
	w.imported[id] = o
	return io.NopCloser(strings.NewReader(`{"status":"importing"}` + "\n" + `{"status":"` + id + `"}` + "\n")), nil
}

func (w *world) ImageList(context.Context, client.ImageListOptions) (r client.ImageListResult, err error) {
	for id, o := range w.imported {
		r.Items = append(r.Items, image.Summary{ID: id, Created: w.born, Labels: map[string]string{label: strings.TrimPrefix(o.Changes[0], "LABEL "+label+"=")}})
	}
	return r, nil
}

func (w *world) ImageRemove(ctx context.Context, id string, _ client.ImageRemoveOptions) (r client.ImageRemoveResult, err error) {
	if ctx.Err() != nil {
		return r, ctx.Err()
	}
	delete(w.imported, id)
	return r, nil
}

// CopyFromContainer has the files, and checks that the container has a volume that leaves nothing.
func (w *world) CopyFromContainer(_ context.Context, id string, o client.CopyFromContainerOptions) (r client.CopyFromContainerResult, err error) {
	if _, ok := w.containers[id]; !ok {
		return r, errdefs.ErrNotFound.WithMessage("no such container")
	}
	with := w.containers[id].HostConfig.Mounts[0].VolumeOptions.DriverConfig.Options
	if with["publish"] != "never" || with["warm"] != "" || with["ref"] != w.commit {
		return r, fmt.Errorf("the volume has %q", with)
	}
	if w.swept {
		delete(w.containers, id)
	}
	data, ok := w.files[o.SourcePath]
	if !ok {
		return r, errdefs.ErrNotFound.WithMessage("no such file")
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	h := &tar.Header{Name: "x", Typeflag: tar.TypeReg, Size: int64(len(data))}
	if data == nil {
		h = &tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "y"}
	}
	t.WriteHeader(h)
	t.Write(data)
	t.Close()
	r.Content = io.NopCloser(&b)
	return r, nil
}

var long = time.Now().Add(-time.Hour).Unix()
