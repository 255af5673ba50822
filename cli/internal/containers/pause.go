package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

const (
	// pauseWait bounds the pause of a container. The engine waits itself until all processes are frozen.
	pauseWait = 15 * time.Second
	// resumeWait bounds the unpause of a container, which is tried again every resumeEvery.
	resumeWait  = 15 * time.Second
	resumeEvery = 100 * time.Millisecond
	// resumeRefused is how often an unpause may be refused while the engine's state of the container is that it runs: that
	// state can be older than the pause, whose event comes later.
	resumeRefused = 10
)

// PauseError says that a container can't be paused.
type PauseError struct {
	Container string // name
	Err       error
}

func (e *PauseError) Error() string {
	return fmt.Sprintf("container %q can't be paused: %v", e.Container, e.Err)
}

func (e *PauseError) Unwrap() error { return e.Err }

// StillPausedError says that a container is still paused, and how to end that.
type StillPausedError struct {
	Container, ID string
	Err           error
}

func (e *StillPausedError) Error() string {
	return fmt.Sprintf("container %q may still be paused: run docker unpause %s (%v)", e.Container, e.ID, e.Err)
}

func (e *StillPausedError) Unwrap() error { return e.Err }

// Users returns the running containers that have a workspace mounted, or that may have it, if that is not known.
// workspaces are all those of its volume.
func (f *Finder) Users(ctx context.Context, id string, workspaces []api.Workspace) (users []Container, err error) {
	running, err := f.Running(ctx)
	for _, c := range running {
		has, _ := f.Of(ctx, c, workspaces)
		if slices.ContainsFunc(has, func(w api.Workspace) bool { return w.ID == id }) {
			users = append(users, c)
		}
	}
	return users, err
}

// Pause pauses containers. paused are those that it paused itself, and before those that it found paused, and left so. One
// that has ended is in neither; it may start again. resume unpauses paused in any case, also if the context has ended. The
// caller calls it once, also after an error, which is a *PauseError; that of resume has a *StillPausedError for each
// container that may still be paused.
func (f *Finder) Pause(ctx context.Context, list []Container) (paused, before []Container, resume func() error, err error) {
	for _, c := range list {
		if err = context.Cause(ctx); err != nil {
			break
		}
		var ours, others bool
		switch ours, others, err = f.pause(ctx, c); {
		case ours:
			paused = append(paused, c)
		case others:
			before = append(before, c)
		}
		if err != nil {
			err = &PauseError{c.Name, err}
			break
		}
	}
	return paused, before, func() error { return f.resume(ctx, paused) }, err
}

// pause pauses a container. The pause is ours if the engine may have made it, and that of others if it was there.
func (f *Finder) pause(ctx context.Context, c Container) (ours, others bool, err error) {
	if f.inContainer(c) {
		return false, false, errors.New("this command runs in it, and would pause itself")
	}
	found, err := f.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
	switch s := found.Container.State; {
	case errdefs.IsNotFound(err):
		return false, false, nil
	case err != nil:
		return false, false, err
	case s == nil || !s.Running || s.Paused:
		return false, isPaused(s), nil
	}
	// An engine that is not waited for may pause it when nobody is there to unpause it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), pauseWait)
	defer cancel()
	_, err = f.engine.ContainerPause(ctx, c.ID, client.ContainerPauseOptions{})
	if errdefs.IsNotFound(err) {
		return false, false, nil
	}
	if errdefs.IsConflict(err) { // it has ended, or somebody else has paused it
		found, failed := f.engine.ContainerInspect(ctx, c.ID, client.ContainerInspectOptions{})
		if s := found.Container.State; errdefs.IsNotFound(failed) || failed == nil && s != nil && (!s.Running || s.Paused) {
			return false, failed == nil && isPaused(s), nil
		}
		return false, false, err
	}
	return true, false, err
}

// isPaused reports whether a container is there and does not run on.
func isPaused(s *container.State) bool { return s != nil && s.Running && s.Paused }

// inContainer reports whether this process runs in a container, which docker gives a file for its host name.
func (f *Finder) inContainer(c Container) bool {
	data, err := os.ReadFile(f.proc + "/self/mountinfo")
	return err == nil && strings.Contains(string(data), "/containers/"+c.ID+"/hostname /etc/hostname ")
}

// resume unpauses containers, all at once, so that none waits for another one.
func (f *Finder) resume(ctx context.Context, list []Container) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resumeWait)
	defer cancel()
	errs := make([]error, len(list))
	var all sync.WaitGroup
	for i, c := range list {
		all.Go(func() {
			if err := f.unpause(ctx, c.ID); err != nil {
				errs[i] = &StillPausedError{c.Name, c.ID, err}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// unpause unpauses a container until the engine says that it runs, or has ended.
func (f *Finder) unpause(ctx context.Context, id string) error {
	for refused := 0; ; {
		_, err := f.engine.ContainerUnpause(ctx, id, client.ContainerUnpauseOptions{})
		found, failed := f.engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		s := found.Container.State
		switch {
		case errdefs.IsNotFound(failed):
			return nil
		case failed != nil:
			err = failed
		case s == nil || s.Paused:
			refused = 0
		case !s.Running || err == nil:
			return nil
		default:
			if refused++; refused >= resumeRefused {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		case <-time.After(resumeEvery):
		}
	}
}
