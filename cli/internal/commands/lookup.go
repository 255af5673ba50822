package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/show"
)

// lookupWorkspace returns the workspace that a name means: that of the volume, or the workspace or
// discard with this ID. If there are several, the error lists them.
func lookupWorkspace(ctx context.Context, c *api.Client, name string) (api.Workspace, error) {
	all, err := c.Workspaces(ctx, api.Filter{Volume: name})
	if err != nil {
		return api.Workspace{}, err
	}
	var live, discards []api.Workspace
	for _, w := range all {
		switch w.Phase {
		case "mounted", "parked", "making":
			live = append(live, w)
		case "discarded":
			discards = append(discards, w)
		}
	}
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		return api.Workspace{}, fmt.Errorf("volume %s has %d workspaces: name one of them by its ID%s", quote(name), len(live), listWorkspaces(live))
	}
	w, err := c.Workspace(ctx, name)
	if refused, ok := errors.AsType[*api.Error](err); ok && refused.Status == http.StatusNotFound {
		if len(discards) > 0 {
			return api.Workspace{}, fmt.Errorf("volume %s has no workspace now, but has left these discards: name one of them%s", quote(name), listWorkspaces(discards))
		}
		return api.Workspace{}, fmt.Errorf("there is no volume with a workspace, and no workspace or discard, with the name %s", quote(name))
	}
	return w.Workspace, err
}

// shownWorkspaces bounds the lines of an error.
const shownWorkspaces = 20

// listWorkspaces returns a line for each workspace.
func listWorkspaces(list []api.Workspace) string {
	var b strings.Builder
	for _, w := range list[:min(len(list), shownWorkspaces)] {
		when := "mounted " + show.Ago(w.MountedAt)
		if w.EndedAt != nil {
			when = "ended " + show.Ago(*w.EndedAt)
		}
		fmt.Fprintf(&b, "\n  %s  %s", show.Text(w.ID), when)
		if len(w.Leases) > 0 {
			fmt.Fprintf(&b, " by %s", show.Text(strings.Join(w.Leases, ", ")))
		}
	}
	if n := len(list) - shownWorkspaces; n > 0 {
		fmt.Fprintf(&b, "\n  and %d more", n)
	}
	return b.String()
}

// quote quotes a name in an error.
func quote(name string) string { return fmt.Sprintf("%q", show.Text(name)) }

// workspaceOrVolume lists what lookupWorkspace finds.
func workspaceOrVolume(ctx context.Context, c *api.Client) ([]string, error) {
	names, err := volumeNames(ctx, c)
	if err != nil {
		return nil, err
	}
	ids, err := workspaceNames(ctx, c)
	return append(names, ids...), err
}
