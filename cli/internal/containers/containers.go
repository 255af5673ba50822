// Package containers says which workspaces the containers of an engine have, and pauses these containers.
//
// The engine says which volumes a container has, but not which workspace, if a volume has several: what it shows
// as the source of a mount can be that of another container. The kernel says it to every process on the engine's
// machine, in the mounts of the container's first process. Elsewhere it is not known.
package containers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// Engine is the part of the engine's client that this package uses.
type Engine interface {
	PluginInspect(ctx context.Context, name string, o client.PluginInspectOptions) (client.PluginInspectResult, error)
	ContainerList(ctx context.Context, o client.ContainerListOptions) (client.ContainerListResult, error)
	ContainerInspect(ctx context.Context, id string, o client.ContainerInspectOptions) (client.ContainerInspectResult, error)
	ContainerPause(ctx context.Context, id string, o client.ContainerPauseOptions) (client.ContainerPauseResult, error)
	ContainerUnpause(ctx context.Context, id string, o client.ContainerUnpauseOptions) (client.ContainerUnpauseResult, error)
}

// Finder finds the containers that have volumes of one plugin. It is safe for concurrent use.
type Finder struct {
	engine Engine
	driver string // as the engine shows it in the mounts of containers
	proc   string
}

// New returns a Finder for the plugin with a name or ID.
func New(ctx context.Context, engine Engine, plugin string) (*Finder, error) {
	found, err := engine.PluginInspect(ctx, plugin, client.PluginInspectOptions{})
	if err != nil {
		return nil, err
	}
	return &Finder{engine, found.Plugin.Name, "/proc"}, nil
}

// Container is a container with volumes of the plugin.
type Container struct {
	ID, Name string
	Running  bool     // or paused
	Paused   bool     // set by Running alone
	Volumes  []string // names, those of the plugin
	pid      int      // of its first process on the engine's machine; 0 until it is asked for
}

// word matches what can be the name or the ID of a container. The engine's client makes a path of it.
var word = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// Find returns the container with a name, an ID, or an ID that begins so. It is not ok if there is none, or if it
// has no volume of the plugin. If several IDs begin so, the error is the engine's.
func (f *Finder) Find(ctx context.Context, name string) (c Container, ok bool, err error) {
	if !word.MatchString(name) {
		return Container{}, false, nil
	}
	found, err := f.engine.ContainerInspect(ctx, name, client.ContainerInspectOptions{})
	switch {
	case errdefs.IsNotFound(err):
		return Container{}, false, nil
	case err != nil:
		return Container{}, false, err
	}
	c = Container{ID: found.Container.ID, Name: strings.TrimPrefix(found.Container.Name, "/"), Volumes: f.volumes(found.Container.Mounts)}
	if s := found.Container.State; s != nil && s.Running {
		c.Running, c.pid = true, s.Pid
	}
	return c, len(c.Volumes) > 0, nil
}

// Is reports whether a word is the whole name of the container, or an ID of it as docker prints them, and not a
// shorter beginning of its ID.
func (c Container) Is(word string) bool {
	return c.Name == word || len(word) >= 12 && strings.HasPrefix(c.ID, word)
}

// Running lists the running containers that have volumes of the plugin, by name.
func (f *Finder) Running(ctx context.Context) ([]Container, error) {
	all, err := f.engine.ContainerList(ctx, client.ContainerListOptions{})
	if err != nil {
		return nil, err
	}
	var list []Container
	for _, s := range all.Items {
		c := Container{ID: s.ID, Name: s.ID[:min(12, len(s.ID))], Running: true, Volumes: f.volumes(s.Mounts)}
		c.Paused = s.State == container.StatePaused
		for _, name := range s.Names {
			if own := strings.TrimPrefix(name, "/"); !strings.Contains(own, "/") { // others are those of links
				c.Name = own
			}
		}
		if len(c.Volumes) > 0 {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Container) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// volumes returns the names of the plugin's volumes.
func (f *Finder) volumes(mounts []container.MountPoint) (names []string) {
	for _, m := range mounts {
		if m.Type == mount.TypeVolume && m.Driver == f.driver && !slices.Contains(names, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Of returns which of the workspaces the container has mounted, in their order. It is not exact if it is not known
// which of several it is: then these are all those of its volumes. Of the workspaces, those that are not mounted
// are left out.
func (f *Finder) Of(ctx context.Context, c Container, workspaces []api.Workspace) (has []api.Workspace, exact bool) {
	if !c.Running {
		return nil, true
	}
	exact = true
	var seen map[string]bool // IDs in the container's mounts
	for _, volume := range c.Volumes {
		var live []api.Workspace
		for _, w := range workspaces {
			if w.Volume == volume && w.Phase == "mounted" {
				live = append(live, w)
			}
		}
		if len(live) > 1 {
			if seen == nil {
				seen = f.mounts(ctx, c)
			}
			known := slices.DeleteFunc(slices.Clone(live), func(w api.Workspace) bool { return !seen[w.ID] })
			if len(known) > 0 {
				live = known
			} else {
				exact = false
			}
		}
		has = append(has, live...)
	}
	return has, exact
}

// mounts returns the IDs of the workspaces in the mounts of the container, if it runs on this machine.
func (f *Finder) mounts(ctx context.Context, c Container) map[string]bool {
	if c.pid == 0 {
		found, err := f.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if err != nil || found.Container.State == nil || found.Container.State.Pid <= 0 {
			return map[string]bool{}
		}
		c.pid = found.Container.State.Pid
	}
	file, err := os.Open(fmt.Sprintf("%s/%d/mountinfo", f.proc, c.pid))
	if err != nil {
		return map[string]bool{}
	}
	defer file.Close()
	return workspacesIn(file)
}

// upper is the upper directory of a workspace among the options of an overlay. The ID is random, so a process of
// this machine that has the number of one elsewhere has none that is asked for.
var upper = regexp.MustCompile(`[ ,]upperdir=[^ ,]*/workspaces/([0-9a-f]{16})/upper[ ,\n]`)

// workspacesIn returns the IDs of the workspaces in a mountinfo.
func workspacesIn(mountinfo io.Reader) map[string]bool {
	ids := make(map[string]bool)
	lines := bufio.NewReader(mountinfo)
	for {
		line, err := lines.ReadString('\n')
		if found := upper.FindStringSubmatch(line); found != nil {
			ids[found[1]] = true
		}
		if err != nil {
			return ids
		}
	}
}
