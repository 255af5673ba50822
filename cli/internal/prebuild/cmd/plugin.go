package cmd

import (
	"context"
	"errors"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

// plugin is the plugin that a session reaches at the time of each call: it may restart while a command runs, and a
// relay does not outlive that.
type plugin struct{ s *session.Session }

// ask calls f with the client of the session. If the error says that this one does not reach the plugin any more, the
// next call goes another way.
func (p plugin) ask(ctx context.Context, f func(*api.Client) error) error {
	c, err := p.s.Client(ctx)
	if err != nil {
		return err
	}
	err = f(c)
	// The end of ctx, such as after a job's timeout, looks the same and says nothing about the way.
	if _, answered := errors.AsType[*api.Error](err); err != nil && !answered && ctx.Err() == nil {
		return errors.Join(err, p.s.Lost(c))
	}
	return err
}

func (p plugin) Warm(ctx context.Context, w api.Warm, progress func(api.Progress)) (r api.WarmResult, err error) {
	err = p.ask(ctx, func(c *api.Client) (err error) {
		r, err = c.Warm(ctx, w, progress)
		return err
	})
	return r, err
}

func (p plugin) Workspaces(ctx context.Context, f api.Filter) (list []api.Workspace, err error) {
	err = p.ask(ctx, func(c *api.Client) (err error) {
		list, err = c.Workspaces(ctx, f)
		return err
	})
	return list, err
}

func (p plugin) RemoveCheckpoint(ctx context.Context, id string) error {
	return p.ask(ctx, func(c *api.Client) error { return c.RemoveCheckpoint(ctx, id) })
}
