package containers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

const driver = "helmdeck/repos:latest"

// engine has containers, by the number of their first process.
type engine map[int]container.InspectResponse

func (engine) PluginInspect(context.Context, string, client.PluginInspectOptions) (r client.PluginInspectResult, err error) {
	r.Plugin.Name = driver
	return r, nil
}

func (e engine) ContainerList(context.Context, client.ContainerListOptions) (r client.ContainerListResult, err error) {
	for _, c := range e {
		if c.State.Running {
			r.Items = append(r.Items, container.Summary{ID: c.ID, Names: []string{"/other/" + c.Name[1:], c.Name}, Mounts: c.Mounts})
		}
	}
	return r, nil
}

func (e engine) ContainerInspect(_ context.Context, id string, _ client.ContainerInspectOptions) (r client.ContainerInspectResult, err error) {
	for _, c := range e {
		if c.Name == "/"+id || strings.HasPrefix(c.ID, id) {
			r.Container = c
			return r, nil
		}
	}
	return r, errdefs.ErrNotFound
}

func (engine) ContainerPause(context.Context, string, client.ContainerPauseOptions) (r client.ContainerPauseResult, err error) {
	return r, errdefs.ErrNotImplemented
}

func (engine) ContainerUnpause(context.Context, string, client.ContainerUnpauseOptions) (r client.ContainerUnpauseResult, err error) {
	return r, errdefs.ErrNotImplemented
}

// with returns a container with volumes, as DRIVER=NAME or NAME.
func with(name string, pid int, volumes ...string) container.InspectResponse {
	c := container.InspectResponse{ID: strings.Repeat(name[:1], 64), Name: "/" + name, State: &container.State{Running: pid < 1000, Pid: pid}}
	for _, v := range volumes {
		of, volume, ok := strings.Cut(v, "=")
		if !ok {
			of, volume = driver, v
		}
		// The source can be that of another container.
		c.Mounts = append(c.Mounts, container.MountPoint{Type: mount.TypeVolume, Name: volume, Driver: of, Source: "/mnt/0000000000000001"})
	}
	return c
}

const line = "183 173 0:58 / /w rw,nosuid - overlay helmdeck-repos rw,lowerdir+=/data/clones/s/h/trees/3946d109cab9f6f7,upperdir=/data/clones/s/h/workspaces/%s/upper,workdir=/data/clones/s/h/workspaces/%s/work,redirect_dir=on\n"

func TestOf(t *testing.T) {
	one, two, alone := "0000000000000001", "0000000000000002", "0000000000000003"
	workspaces := []api.Workspace{
		{ID: one, Volume: "src", Phase: "mounted"}, {ID: two, Volume: "src", Phase: "mounted"},
		{ID: alone, Volume: "alone", Phase: "mounted"}, {ID: "4", Volume: "alone", Phase: "checkpoint"},
	}
	e := engine{1: with("web", 1, "src", "local=alone"), 2: with("api", 2, "src", "alone"), 3: with("far", 3, "src"), 4: with("other", 4, "local=src"), 1000: with("stopped", 1000, "src")}
	f, err := New(t.Context(), e, "helmdeck/repos")
	if err != nil {
		t.Fatal(err)
	}
	f.proc = t.TempDir()
	for pid, id := range map[string]string{"1": one, "2": two} {
		if err := os.Mkdir(filepath.Join(f.proc, pid), 0o700); err != nil {
			t.Fatal(err)
		}
		text := "173 124 0:54 / / rw - overlay overlay rw,upperdir=/x/diff\n" + fmt.Sprintf(line, id, id)
		if err := os.WriteFile(filepath.Join(f.proc, pid, "mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"web": one + " true", "api": two + " " + alone + " true", "far": one + " " + two + " false", "stopped": "true", strings.Repeat("w", 12): one + " true",
	} {
		c, ok, err := f.Find(t.Context(), name)
		if err != nil || !ok {
			t.Errorf("%s: %v, %v", name, ok, err)
			continue
		}
		if name[0] != c.Name[0] || !c.Is(name) || c.Is(name[:1]) {
			t.Errorf("%s is %+v", name, c)
		}
		has, exact := f.Of(t.Context(), c, workspaces)
		got := ""
		for _, w := range has {
			got += w.ID + " "
		}
		if got += fmt.Sprint(exact); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
	for _, name := range []string{"other", "none", "../plugins", ""} {
		if c, ok, err := f.Find(t.Context(), name); ok || err != nil {
			t.Errorf("%q: found %+v, %v", name, c, err)
		}
	}
	running, err := f.Running(t.Context())
	var names []string
	for _, c := range running {
		names = append(names, c.Name)
		if has, exact := f.Of(t.Context(), c, workspaces); c.Name == "api" && (len(has) != 2 || !exact) {
			t.Errorf("a container of the list has %v, %v", has, exact)
		}
	}
	if want := []string{"api", "far", "web"}; err != nil || !reflect.DeepEqual(names, want) {
		t.Errorf("running are %q, %v, want %q", names, err, want)
	}
}
