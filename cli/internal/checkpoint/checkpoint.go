// Package checkpoint makes checkpoints of workspaces that go on, and pauses their containers for that.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/containers"
	"github.com/helmdeck/repos/cli/internal/show"
)

const (
	// pauseLimit bounds how long containers are paused: a plugin that does not answer must not stop them for good.
	pauseLimit = time.Minute
	// dropLimit bounds the wait for the removal of a draft, which the plugin would remove later itself.
	dropLimit = 10 * time.Second
)

// withoutPause is the error of a checkpoint whose containers can't be paused.
func withoutPause(err error) error {
	return fmt.Errorf("%w\nNo checkpoint was made: with --no-pause it is made while containers write", err)
}

// Maker makes checkpoints.
type Maker struct {
	Client *api.Client
	// Containers returns what finds the containers of the engine; nil if no engine can be asked.
	Containers func(context.Context) (*containers.Finder, error)
	// NoPause is set if no container is to be paused.
	NoPause bool
	// Say gets what users should know, a line each.
	Say io.Writer
}

// Make makes a checkpoint of a workspace, and returns its ID. Running containers of the workspace are paused for a part of
// the time, and run when Make returns, also after the end of ctx. The error is that of the API, or says why they can't be
// paused, or which may still be so.
func (m *Maker) Make(ctx context.Context, w api.Workspace, n api.Note) (id string, err error) {
	d, err := m.Client.Draft(ctx, w.ID, n)
	if err != nil {
		return "", err
	}
	if d.Made {
		return d.ID, m.sayMade(ctx, d, n)
	}
	defer func() {
		if err != nil {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropLimit)
			defer cancel()
			m.Client.DropDraft(ctx, d.ID) // else it is dropped when its time is over
		}
	}()
	if m.NoPause {
		fmt.Fprintln(m.Say, "Warning: no container was paused.", probablyBroken)
	} else if err := m.catchUp(ctx, w, &d); err != nil {
		return "", err
	}
	kept, err := m.Client.Keep(ctx, d.ID)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(m.Say, "%d files and directories: %s copied, %s shared with the workspace\n", d.Files, show.Bytes(d.Copied), show.Bytes(d.Cloned))
	if d.Torn > 0 {
		fmt.Fprintf(m.Say, "Warning: files that may be of no one moment, because something wrote all the time: %d\n", d.Torn)
	}
	return kept.ID, nil
}

// sayMade says what happened to a checkpoint that was there.
func (m *Maker) sayMade(ctx context.Context, d api.Draft, n api.Note) error {
	c, err := m.Client.Checkpoint(ctx, d.ID)
	if err != nil {
		return err
	}
	done := "nothing was done"
	switch {
	case n.Name != "" && n.Message != "":
		done = "nothing was copied: it got the name and the message"
	case n.Name != "":
		done = "nothing was copied: it got the name"
	case n.Message != "":
		done = "nothing was copied: it got the message"
	}
	fmt.Fprintf(m.Say, "It is a checkpoint already, so %s.\n", done)
	if d.Was != "" {
		fmt.Fprintf(m.Say, "Its name was %s until now.\n", show.Text(d.Was))
	}
	if !c.ExpiresAt.IsZero() {
		fmt.Fprintf(m.Say, "It expires %s: give it a NAME to keep it.\n", show.In(c.ExpiresAt))
	}
	return nil
}

const probablyBroken = "Databases and repositories to which something wrote meanwhile are probably broken in the checkpoint."

// catchUp makes a draft equal to its workspace, while the containers of that are paused. It adds what it did to d.
func (m *Maker) catchUp(ctx context.Context, w api.Workspace, d *api.Draft) error {
	f, err := m.Containers(ctx)
	if err != nil {
		return withoutPause(fmt.Errorf("ask the engine for containers: %w", err))
	}
	now, err := m.Client.Workspace(ctx, w.ID)
	if err != nil {
		return err
	}
	users, err := m.users(ctx, f, w)
	switch {
	case err != nil:
		return err
	case len(users) == 0 && len(now.Leases)+len(now.Lost) > 0:
		fmt.Fprintln(m.Say, "Warning: no container was paused, because the engine knows none that uses the workspace.", probablyBroken)
		return nil
	}
	var step api.Draft
	var paused, before []containers.Container
	if len(users) > 0 {
		step, paused, before, err = m.paused(ctx, f, users, d.ID)
	} else { // one may have begun and ended while it was copied
		step, err = m.Client.CatchUp(ctx, d.ID)
	}
	if err != nil {
		return err
	}
	d.Files, d.Torn = step.Files, step.Torn
	d.Copied += step.Copied
	d.Cloned += step.Cloned
	after, err := m.users(ctx, f, w)
	if err != nil {
		return err
	}
	for _, c := range after {
		is := func(other containers.Container) bool { return other.ID == c.ID }
		// Others may have ended before the pause, and have started again, or have been unpaused by whoever paused them.
		if !slices.ContainsFunc(paused, is) && !(c.Paused && slices.ContainsFunc(before, is)) {
			return fmt.Errorf("container %q has started meanwhile, and was not paused: run it again", c.Name)
		}
	}
	return nil
}

// users returns the running containers that use a workspace, or that may use it.
func (m *Maker) users(ctx context.Context, f *containers.Finder, w api.Workspace) ([]containers.Container, error) {
	if f == nil {
		return nil, nil
	}
	all, err := m.Client.Workspaces(ctx, api.Filter{Volume: w.Volume})
	if err != nil {
		return nil, err
	}
	users, err := f.Users(ctx, w.ID, all)
	if err != nil {
		return nil, withoutPause(fmt.Errorf("ask the engine for containers: %w", err))
	}
	return users, nil
}

// paused calls CatchUp while containers are paused, and returns which it paused, and which were paused before. It writes
// nothing until they are unpaused: one of them may be the reader.
func (m *Maker) paused(ctx context.Context, f *containers.Finder, users []containers.Container, draft string) (
	d api.Draft, paused, before []containers.Container, err error,
) {
	// A second signal would end the process at once, with the containers paused.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)

	begun := time.Now()
	limited, cancel := context.WithTimeout(ctx, pauseLimit)
	defer cancel()
	paused, before, resume, err := f.Pause(limited, users)
	if _, ok := errors.AsType[*containers.PauseError](err); ok {
		err = withoutPause(err)
	}
	if err == nil {
		d, err = m.Client.CatchUp(limited, draft)
	}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		err = fmt.Errorf("the containers were paused for %v, and the copy was not complete: run it again when they write less, or with --no-pause", pauseLimit)
	}
	switch still := resume(); {
	case still != nil && err == nil && ctx.Err() == nil:
		return d, paused, before, still
	case still != nil: // the other error, or that of an interrupt, would be shown alone
		fmt.Fprintln(m.Say, still)
	}
	if len(paused) > 0 {
		var names []string
		for _, c := range paused {
			names = append(names, c.Name)
		}
		fmt.Fprintf(m.Say, "Paused for %v: %s\n", time.Since(begun).Round(time.Millisecond), strings.Join(names, ", "))
	}
	return d, paused, before, err
}
