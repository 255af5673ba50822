package commands

import (
	"context"
	"fmt"
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
		Args:    cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			leases, err := c.Leases(ctx, filter)
			if err != nil {
				return err
			}
			rows, columns := make([]leaseRow, len(leases)), []string{"ID", "Subject", "Repo", "Commit", "Mounts", "Since"}
			if slices.ContainsFunc(leases, func(l api.Lease) bool { return l.Pod != "" }) { // in Kubernetes
				columns = slices.Insert(columns, 1, "Pod")
			}
			for i, l := range leases {
				rows[i] = leaseRow{
					ID:     shortName(format, l.Volume) + "/" + shortID(format, l.Holder),
					Volume: shortName(format, l.Volume), Holder: shortID(format, l.Holder),
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
or the beginning of the parts of one.`,
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

// findLease returns the lease with an ID, or the only one with an ID that begins so: both the volume
// and the holder may be shortened.
func findLease(ctx context.Context, c *api.Client, id string) (api.Lease, error) {
	volume, holder, ok := strings.Cut(id, "/")
	if !ok || volume == "" || holder == "" {
		return api.Lease{}, notFound("lease", id)
	}
	leases, err := c.Leases(ctx, api.Filter{})
	if err != nil {
		return api.Lease{}, err
	}
	var found []api.Lease
	for _, l := range leases {
		if l.Volume == volume && l.Holder == holder {
			return l, nil
		}
		if strings.HasPrefix(l.Volume, volume) && strings.HasPrefix(l.Holder, holder) {
			found = append(found, l)
		}
	}
	switch len(found) {
	case 0:
		return api.Lease{}, notFound("lease", id)
	case 1:
		return found[0], nil
	}
	return api.Lease{}, fmt.Errorf("%d leases begin with %q", len(found), id)
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
		Args:  cli.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}
