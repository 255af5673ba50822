package commands

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/docker/cli/cli"
	"github.com/moby/moby/client"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type discardRow struct {
	show.Row
	ID        string    `header:"DISCARD"`
	Volume    string    `header:"VOLUME"`
	Subject   string    `header:"SUBJECT"`
	Repo      string    `header:"REPOSITORY"`
	Ref       string    `header:"REF"`
	Commit    string    `header:"COMMIT"`
	Changed   string    `header:"CHANGED"`
	Size      string    `header:"SIZE"`
	Ended     string    `header:"ENDED"`
	Expires   string    `header:"EXPIRES"`
	Clone     string    `header:"CLONE"`
	EndedAt   time.Time `header:"ENDED AT"`
	ExpiresAt time.Time `header:"EXPIRES AT"`
}

func newDiscards(s *session.Session) *cobra.Command {
	return group("discards", "Show, restore and delete what ended workspaces have left",
		newDiscardsLs(s), newDiscardsShow(s), newDiscardsRestore(s), newDiscardsRm(s))
}

func newDiscardsLs(s *session.Session) *cobra.Command {
	var format show.Format
	var filter api.Filter
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the discards",
		Args:    cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			discards, err := c.Discards(ctx, filter)
			if err != nil {
				return err
			}
			rows := make([]discardRow, len(discards))
			for i, d := range discards {
				rows[i] = discard(d, format)
			}
			return show.List(s.Out(), format, []string{"ID", "Volume", "Subject", "Repo", "Changed", "Size", "Ended", "Expires"}, rows)
		}),
	}
	format.AddTo(cmd.Flags(), "IDs")
	cmd.Flags().StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&filter.Volume, "volume", "", "Only those of a volume")
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "volume", discardVolumes)
	return cmd
}

func discard(d api.Discard, f show.Format) discardRow {
	row := discardRow{
		ID: d.ID, Volume: shortName(f, d.Volume), Subject: short(f, d.Subject), Repo: short(f, d.Repo), Ref: d.Ref,
		Commit: shortID(f, d.Commit), Changed: "counting", Size: "measuring", Ended: show.Ago(d.EndedAt), Expires: show.In(d.ExpiresAt),
		Clone: d.Clone, EndedAt: d.EndedAt, ExpiresAt: d.ExpiresAt,
	}
	if d.Changed != nil {
		row.Changed = strconv.FormatInt(*d.Changed, 10)
	}
	if d.Bytes != nil {
		row.Size = show.Bytes(*d.Bytes)
	}
	return row
}

func newDiscardsShow(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "show DISCARD",
		Short: "Show a discard, and how to restore it",
		Args:  cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			d, err := c.Discard(ctx, args[0])
			if err != nil {
				return err
			}
			row := discard(d, show.Format{NoTrunc: true})
			for _, line := range [][2]string{
				{"Discard", row.ID}, {"Volume", row.Volume}, {"Subject", row.Subject}, {"Repository", row.Repo}, {"Ref", row.Ref},
				{"Commit", row.Commit}, {"Changed files", row.Changed}, {"Size", row.Size},
				{"Ended", row.Ended + ", " + d.EndedAt.Local().Format(time.RFC3339)},
				{"Expires", row.Expires + ", " + d.ExpiresAt.Local().Format(time.RFC3339)},
				{"Restore", "docker repos discards restore " + row.ID},
			} {
				if _, err := fmt.Fprintf(s.Out(), "%-14s %s\n", line[0]+":", show.Text(line[1])); err != nil {
					return err
				}
			}
			return nil
		}),
		ValidArgsFunction: completed(s, 1, discardNames),
	}
}

func newDiscardsRestore(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "restore DISCARD [VOLUME]",
		Short: "Make a volume of a discard: its files are there when it is mounted",
		Long: `Make a volume of a discard, and print its name. The files are there when the volume is mounted, and stay
(mode=keep). Without a name for the volume, docker chooses one.`,
		Args: cli.RequiresRangeArgs(1, 2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			d, err := c.Discard(ctx, args[0])
			if err != nil {
				return err
			}
			o := client.VolumeCreateOptions{
				Driver:     s.Target.Plugin,
				DriverOpts: map[string]string{"repo": d.Repo, "subject": d.Subject, "restore": d.ID},
			}
			if len(args) == 2 {
				o.Name = args[1]
			}
			made, err := s.Engine().VolumeCreate(ctx, o)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out(), made.Volume.Name)
			return err
		}),
		ValidArgsFunction: completed(s, 1, discardNames),
	}
}

func newDiscardsRm(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "rm DISCARD [DISCARD...]",
		Aliases: []string{"remove"},
		Short:   "Delete discards for good",
		Args:    cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			return each(s, args, func(id string) error { return c.RemoveDiscard(ctx, id) })
		}),
		ValidArgsFunction: completed(s, 0, discardNames),
	}
}
