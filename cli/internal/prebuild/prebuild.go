package prebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// Plugin is the part of the admin API that a prebuild uses.
type Plugin interface {
	Warm(ctx context.Context, w api.Warm, progress func(api.Progress)) (api.WarmResult, error)
	Workspaces(ctx context.Context, f api.Filter) ([]api.Workspace, error)
	RemoveCheckpoint(ctx context.Context, id string) error
}

// Prebuilder runs jobs. It is safe for concurrent use if its functions and Output are.
type Prebuilder struct {
	Engine Engine
	Plugin Plugin
	Driver string // the plugin's name at the engine
	// Pull pulls an image that the engine does not have.
	Pull func(ctx context.Context, image string) error
	// Output gets what the commands print.
	Output io.Writer
	// Warn is told what is left after a command that succeeded. It may be nil.
	Warn func(error)
	// Begin is called before a command runs, with what is known of the result, and why it runs. If it fails, the command
	// does not run. Progress is told how far the plugin is. They may be nil.
	Begin    func(r Result, why string) error
	Progress func(api.Progress)
}

// Result is what a job has left.
type Result struct {
	Clone  string          `json:"clone"`
	Repo   string          `json:"repo"` // as the job has it
	Ref    string          `json:"ref"`
	Commit string          `json:"commit"`
	Did    string          `json:"did"` // nothing, update or setup
	Label  string          `json:"label"`
	States []api.WarmState `json:"states"`
}

// ExitError means that a command of a job has failed.
type ExitError struct {
	Command string // setup or update
	Code    int    // of its exit
}

func (e *ExitError) Error() string {
	return fmt.Sprintf("the %s command failed with exit code %d: nothing is published", e.Command, e.Code)
}

// TimeoutError means that a command of a job took too long. It was killed, unless its container could not be removed:
// then that is an error too.
type TimeoutError struct {
	Command string
	After   time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("the %s command did not end within %v and had to be killed", e.Command, e.After)
}

// HangError means that something else took longer than the timeout of a job.
type HangError struct {
	What  string // such as "the pull of the image node"
	After time.Duration
}

func (e *HangError) Error() string {
	return fmt.Sprintf("%s did not end within %v, which is the timeout of the prebuild, and was given up: run it again, or with a longer timeout", e.What, e.After)
}

// within calls f with a context that ends after a timeout. The error is a *HangError then, with what f does.
func within(ctx context.Context, timeout time.Duration, what string, f func(ctx context.Context) error) error {
	late := &HangError{what, timeout}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, late)
	defer cancel()
	err := f(ctx)
	if err != nil && context.Cause(ctx) == error(late) {
		return late
	}
	return err
}

// rounds bounds how often a job begins again because the branch moved while its command ran.
const rounds = 3

// Run does what a job needs, and returns when containers find its states. The error is an *ExitError or a *TimeoutError
// if a command did not succeed, and a *HangError if something else took longer than a command may: the plugin, which may
// wait for the remote, or the registry of the image. When it returns, the container and the volume are gone, also if ctx
// has ended, or an error says that they are not.
func (p *Prebuilder) Run(ctx context.Context, j Job) (Result, error) {
	if err := j.Check(); err != nil {
		return Result{}, err
	}
	if _, err := j.variables(); err != nil {
		return Result{}, err
	}
	p.sweep(ctx)
	image, r := "", Result{Repo: j.Repo, Did: Nothing}
	for round := 1; ; round++ {
		var found api.WarmResult
		err := within(ctx, j.Timeout, "the plugin's look at "+j.Repo, func(ctx context.Context) (err error) {
			found, err = p.Plugin.Warm(ctx, j.warm(), p.Progress)
			return err
		})
		if err != nil {
			return r, err
		}
		if len(found.States) == 0 {
			return r, errors.New("the plugin knows no states of warm directories: it is older than this command (docker repos version): upgrade it")
		}
		before := r.Commit
		r.Clone, r.Ref, r.Commit, r.States = found.Clone, found.Ref, found.Commit, found.States
		if j.Devcontainer && before != found.Commit {
			err := within(ctx, j.Timeout, "the read of the devcontainer.json of "+j.Repo, func(ctx context.Context) (err error) {
				j, err = p.devcontainer(ctx, j, found.Commit)
				return err
			})
			if err != nil {
				return r, err
			}
			image = ""
		}
		if image == "" {
			if image, err = p.image(ctx, j); err != nil {
				return r, err
			}
			r.Label = j.Label(image)
		}
		action, why, err := decide(found, r.Label, j.Update != "")
		switch {
		case err != nil:
			return r, err
		case action == Nothing:
			return r, nil
		case r.Did != Nothing && (before == found.Commit || round > rounds):
			return r, fmt.Errorf("the %s command succeeded, and its state is not there: %s. Another container that ended at the same time may "+
				"have been the first, and docker repos logs says why a directory was not carried over", r.Did, why)
		}
		r.Did = action
		if p.Begin != nil {
			if err := p.Begin(r, why); err != nil {
				return r, err
			}
		}
		if err := p.command(ctx, j, image, action, r.Label); err != nil {
			return r, err
		}
	}
}

// image returns the ID of a job's image. It pulls one that the engine does not have.
func (p *Prebuilder) image(ctx context.Context, j Job) (id string, err error) {
	name := j.Image
	found, err := p.Engine.ImageInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		pulled := within(ctx, j.Timeout, "the pull of the image "+name, func(ctx context.Context) error {
			if err := p.Pull(ctx, name); err != nil {
				return fmt.Errorf("pull the image %s: %w", name, err)
			}
			return nil
		})
		if pulled != nil {
			return "", pulled
		}
		found, err = p.Engine.ImageInspect(ctx, name)
	}
	if err != nil {
		return "", fmt.Errorf("look at the image %s: %w", name, err)
	}
	return found.ID, nil
}

const (
	// publication bounds the wait for what a container has left: directories with many files take seconds.
	publication = 10 * time.Minute
	pause       = 200 * time.Millisecond
)

// published waits until the workspace of a volume has ended and is published, and removes what else it has left. It asks
// again if the plugin can't be reached.
func (p *Prebuilder) published(ctx context.Context, volume string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publication, fmt.Errorf("the plugin has not published the state within %v", publication))
	defer cancel()
	for {
		done, err := p.settled(ctx, volume)
		if _, refused := errors.AsType[*api.Error](err); refused || done {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// settled reports whether the workspace of a volume is published. It removes the checkpoints that are left of it then.
func (p *Prebuilder) settled(ctx context.Context, volume string) (bool, error) {
	list, err := p.Plugin.Workspaces(ctx, api.Filter{Volume: volume})
	if err != nil || slices.ContainsFunc(list, func(w api.Workspace) bool { return w.Phase != "checkpoint" }) {
		return false, err
	}
	var errs []error
	for _, w := range list {
		err := p.Plugin.RemoveCheckpoint(ctx, w.ID)
		refused, ok := errors.AsType[*api.Error](err)
		// Somebody else removes it, or uses it.
		if err != nil && !(ok && (refused.Status == http.StatusNotFound || refused.Status == http.StatusConflict)) {
			errs = append(errs, fmt.Errorf("remove the checkpoint %s: %w", w.ID, err))
		}
	}
	return len(errs) == 0, errors.Join(errs...)
}

// Engine is the part of the engine's client that a prebuild uses.
type Engine interface {
	ImageInspect(ctx context.Context, image string, o ...client.ImageInspectOption) (client.ImageInspectResult, error)
	ContainerCreate(ctx context.Context, o client.ContainerCreateOptions) (client.ContainerCreateResult, error)
	ContainerAttach(ctx context.Context, id string, o client.ContainerAttachOptions) (client.ContainerAttachResult, error)
	ContainerWait(ctx context.Context, id string, o client.ContainerWaitOptions) client.ContainerWaitResult
	ContainerStart(ctx context.Context, id string, o client.ContainerStartOptions) (client.ContainerStartResult, error)
	ContainerInspect(ctx context.Context, id string, o client.ContainerInspectOptions) (client.ContainerInspectResult, error)
	ContainerRemove(ctx context.Context, id string, o client.ContainerRemoveOptions) (client.ContainerRemoveResult, error)
	ContainerList(ctx context.Context, o client.ContainerListOptions) (client.ContainerListResult, error)
	CopyFromContainer(ctx context.Context, id string, o client.CopyFromContainerOptions) (client.CopyFromContainerResult, error)
	ImageImport(ctx context.Context, source client.ImageImportSource, ref string, o client.ImageImportOptions) (client.ImageImportResult, error)
	ImageList(ctx context.Context, o client.ImageListOptions) (client.ImageListResult, error)
	ImageRemove(ctx context.Context, id string, o client.ImageRemoveOptions) (client.ImageRemoveResult, error)
	VolumeList(ctx context.Context, o client.VolumeListOptions) (client.VolumeListResult, error)
	VolumeRemove(ctx context.Context, name string, o client.VolumeRemoveOptions) (client.VolumeRemoveResult, error)
}
