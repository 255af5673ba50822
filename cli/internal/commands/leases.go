package commands

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type leaseRow struct {
	show.Row
	ID        string    `header:"LEASE"`
	Container string    `header:"CONTAINER"`
	Volume    string    `header:"VOLUME"`
	Holder    string    `header:"HOLDER"`
	Subject   string    `header:"SUBJECT"`
	Repo      string    `header:"REPOSITORY"`
	Commit    string    `header:"COMMIT"`
	Mounts    int       `header:"MOUNTS"`
	Since     string    `header:"SINCE"`
	Clone     string    `header:"CLONE"`
	Workspace string    `header:"WORKSPACE"`
	MountedAt time.Time `header:"MOUNTED AT"`
	Pod       string    `header:"POD"`
}

func newLeases(s *session.Session) *cobra.Command {
	return group("leases", "Show and release what holds workspaces", newLeasesLs(s), newLeasesRelease(s))
}

func newLeasesLs(s *session.Session) *cobra.Command {
	var format show.Format
	var filter api.Filter
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the leases: the uses of volumes by containers",
		Long: `List the leases: the uses of volumes by containers.

CONTAINER is the name of the container that has the workspace of a lease. Several are named if they share it
(mode=shared and mode=keep), and those that may have it are joined by "or" if the engine is on another machine and the
volume has several workspaces. It is empty if no container has it. POD is the pod in Kubernetes.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			leases, err := c.Leases(ctx, filter)
			if err != nil {
				return err
			}
			holders := containersOf(ctx, s, leases)
			rows, columns := make([]leaseRow, len(leases)), []string{"ID", "Subject", "Repo", "Commit", "Mounts", "Since"}
			if holders != nil {
				columns = slices.Insert(columns, 1, "Container")
			}
			if slices.ContainsFunc(leases, func(l api.Lease) bool { return l.Pod != "" }) { // in Kubernetes
				columns = slices.Insert(columns, 1, "Pod")
			}
			for i, l := range leases {
				rows[i] = leaseRow{
					Container: holders[l.Workspace],
					ID:        shortName(format, l.Volume) + "/" + shortID(format, l.Holder),
					Volume:    shortName(format, l.Volume), Holder: shortID(format, l.Holder),
					Subject: short(format, l.Subject), Repo: short(format, l.Repo), Commit: shortID(format, l.Commit),
					Mounts: l.Mounts, Since: show.Ago(l.MountedAt),
					Clone: l.Clone, Workspace: l.Workspace, MountedAt: l.MountedAt, Pod: short(format, l.Pod),
				}
			}
			return show.List(s.Out(), format, columns, rows)
		}),
	}
	format.AddTo(cmd.Flags(), "IDs")
	cmd.Flags().StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&filter.Volume, "volume", "", "Only those of a volume")
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "volume", volumeNames)
	return cmd
}

func newLeasesRelease(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "release LEASE [LEASE...]",
		Short: "Release leases whose containers are gone",
		Long: `Release leases whose containers are gone, but were never unmounted.

The plugin refuses while the kernel says that somebody still uses the workspace. LEASE is an ID of "leases ls",
the beginning of the parts of one, or a volume that has one lease.`,
		Args: cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			return each(s, args, func(arg string) error {
				l, err := findLease(ctx, c, arg)
				if err != nil {
					return err
				}
				return c.ReleaseLease(ctx, l.Volume, l.Holder)
			})
		}),
		ValidArgsFunction: completed(s, 0, leaseNames),
	}
}

// containersOf returns the names of the containers that have the workspaces of leases, by the IDs of the workspaces.
// It is nil if no engine can be asked: a list of leases is of use without it.
func containersOf(ctx context.Context, s *session.Session, leases []api.Lease) map[string]string {
	f, err := s.Containers(ctx)
	if f == nil || err != nil {
		return nil
	}
	running, err := f.Running(ctx)
	if err != nil {
		return nil
	}
	var workspaces []api.Workspace
	for _, l := range leases {
		if !slices.ContainsFunc(workspaces, func(w api.Workspace) bool { return w.ID == l.Workspace }) {
			workspaces = append(workspaces, api.Workspace{ID: l.Workspace, Volume: l.Volume, Phase: "mounted"})
		}
	}
	return holdersOf(ctx, f, running, workspaces)
}

// getLease returns the lease with an ID. Another one is an *api.Error with the status 404.
func getLease(ctx context.Context, c *api.Client, id string) (any, error) {
	leases, err := c.Leases(ctx, api.Filter{})
	for _, l := range leases {
		if l.ID == id {
			return l, nil
		}
	}
	return nil, cmp.Or(err, error(&api.Error{Status: http.StatusNotFound}))
}

// findLease returns the lease with an ID, or the only one that a word means: the volume of one lease, or the
// beginning of the parts of an ID, of which both the volume and the holder may be shortened.
func findLease(ctx context.Context, c *api.Client, word string) (api.Lease, error) {
	leases, err := c.Leases(ctx, api.Filter{})
	if err != nil {
		return api.Lease{}, err
	}
	volume, holder, both := strings.Cut(word, "/")
	var found []api.Lease
	for _, l := range leases {
		switch {
		case l.ID == word:
			return l, nil
		case both && holder != "" && volume != "" && strings.HasPrefix(l.Volume, volume) && strings.HasPrefix(l.Holder, holder), !both && l.Volume == word:
			found = append(found, l)
		}
	}
	switch len(found) {
	case 0:
		return api.Lease{}, unknownError{fmt.Errorf("there is no lease %s: docker repos leases ls lists them", quote(word))}
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, l := range found[:min(len(found), shownWorkspaces)] {
		ids = append(ids, "\n  "+show.Text(l.ID))
	}
	if !both {
		return api.Lease{}, fmt.Errorf("volume %s has %d leases: name one of them%s", quote(word), len(found), strings.Join(ids, ""))
	}
	return api.Lease{}, fmt.Errorf("%d leases begin with %s: name one of them%s", len(found), quote(word), strings.Join(ids, ""))
}

// shortName is shortID for the name of a volume: those that docker makes are long and have no meaning.
func shortName(f show.Format, volume string) string {
	if len(volume) == 64 && strings.Trim(volume, "0123456789abcdef") == "" {
		return shortID(f, volume)
	}
	return volume
}

// group returns a command that only has other commands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
