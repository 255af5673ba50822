package commands

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/dial"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type checkpointRow struct {
	show.Row
	ID        string    `header:"CHECKPOINT"`
	Name      string    `header:"NAME"`
	Made      string    `header:"MADE"`
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
	Message   string    `header:"MESSAGE"`
	From      string    `header:"FROM"`
	InUse     bool      `header:"IN USE"`
	EndedAt   time.Time `header:"ENDED AT"`
	ExpiresAt time.Time `header:"EXPIRES AT"`
}

func newCheckpoints(s *session.Session) *cobra.Command {
	return group("checkpoints", "Show, start from and delete checkpoints",
		newCheckpointsLs(s), newCheckpointsShow(s), newCheckpointsFork(s), newCheckpointsRm(s))
}

// namesCheckpoint says in help texts what can stand for a checkpoint.
const namesCheckpoint = `CHECKPOINT is an ID of "checkpoints ls" or the beginning of one, a name that only one has, or a volume or a container that
has left one checkpoint alone.`

func newCheckpointsLs(s *session.Session) *cobra.Command {
	var format show.Format
	var filter api.Filter
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the checkpoints",
		Long: `List the checkpoints.

MADE says what made one: the end of its workspace, a user (docker repos checkpoint), or a rewind, before which its volume had
it. One with a name does not expire.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			checkpoints, err := c.Checkpoints(ctx, filter)
			if err != nil {
				return err
			}
			rows := make([]checkpointRow, len(checkpoints))
			for i, d := range checkpoints {
				rows[i] = rowOfCheckpoint(d, format)
			}
			return show.List(s.Out(), format, []string{"ID", "Name", "Made", "Volume", "Changed", "Size", "Ended", "Expires"}, rows)
		}),
	}
	format.AddTo(cmd.Flags(), "IDs")
	cmd.Flags().StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&filter.Volume, "volume", "", "Only those of a volume")
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "volume", checkpointVolumes)
	return cmd
}

func rowOfCheckpoint(d api.Checkpoint, f show.Format) checkpointRow {
	row := checkpointRow{
		ID: d.ID, Name: d.Name, Made: d.Made, Message: d.Message, From: strings.Join(d.From, ", "), InUse: d.InUse, Volume: shortName(f, d.Volume), Subject: short(f, d.Subject), Repo: short(f, d.Repo), Ref: d.Ref,
		Commit: shortID(f, d.Commit), Changed: "counting", Size: "measuring", Ended: show.Ago(d.EndedAt), Expires: show.In(d.ExpiresAt),
		Clone: d.Clone, EndedAt: d.EndedAt, ExpiresAt: d.ExpiresAt,
	}
	if d.ExpiresAt.IsZero() {
		row.Expires = "never"
	}
	if d.Changed != nil {
		row.Changed = strconv.FormatInt(*d.Changed, 10)
	}
	if d.Bytes != nil {
		row.Size = show.Bytes(*d.Bytes)
	}
	return row
}

func newCheckpointsShow(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "show [OPTIONS] CHECKPOINT",
		Short: "Show a checkpoint, and how to start from it",
		Long:  "Show a checkpoint, and how to start from it.\n\n" + namesCheckpoint,
		Args:  cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			d, err := lookupCheckpoint(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			if format != "" {
				return show.Object(s.Out(), format, d)
			}
			row := rowOfCheckpoint(d, show.Format{NoTrunc: true})
			expires := row.Expires
			if !d.ExpiresAt.IsZero() {
				expires += ", " + d.ExpiresAt.Local().Format(time.RFC3339)
			}
			inUse := "no"
			if d.InUse {
				inUse = "yes: workspaces or other checkpoints stand on it"
			}
			for _, line := range [][2]string{
				{"Checkpoint", row.ID}, {"Name", row.Name}, {"Message", row.Message}, {"Made", row.Made}, {"Volume", row.Volume}, {"Subject", row.Subject}, {"Repository", row.Repo}, {"Ref", row.Ref},
				{"Commit", row.Commit}, {"Changed files", row.Changed}, {"Size", row.Size},
				{"Ended", row.Ended + ", " + d.EndedAt.Local().Format(time.RFC3339)},
				{"Expires", expires}, {"From", row.From}, {"In use", inUse},
				{"Start from it", "docker repos checkpoints fork " + row.ID},
			} {
				if line[1] == "" {
					continue
				}
				if _, err := fmt.Fprintf(s.Out(), "%-14s %s\n", line[0]+":", show.Text(line[1])); err != nil {
					return err
				}
			}
			return nil
		}),
		ValidArgsFunction: completed(s, 1, checkpointWords),
	}
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	return cmd
}

func newCheckpointsFork(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "fork CHECKPOINT [VOLUME]",
		Short: "Make a volume that begins with a checkpoint",
		Long: `Make a volume that begins with a checkpoint, and print its name. The files are there when the volume is mounted, and what
its containers change stays (mode=keep). The checkpoint stays as it is, for other volumes. VOLUME is the name of the new
volume: it must not exist. Without one, docker chooses a name.

` + namesCheckpoint,
		Args: cli.RequiresRangeArgs(1, 2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			d, err := lookupCheckpoint(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			if name, err = fork(ctx, s, c, d, name); err != nil {
				way, failed := s.Way(ctx)
				return inPlace(err, failed == nil && dial.IsService(way), d.ID)
			}
			_, err = fmt.Fprintln(s.Out(), name)
			return err
		}),
		ValidArgsFunction: completed(s, 1, checkpointWords),
	}
}

func newCheckpointsRm(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:     "rm CHECKPOINT [CHECKPOINT...]",
		Aliases: []string{"remove"},
		Short:   "Delete checkpoints for good",
		Long:    "Delete checkpoints for good.\n\n" + namesCheckpoint,
		Args:    cli.RequiresMinArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			return each(s, args, func(word string) error {
				d, err := lookupCheckpoint(ctx, s, c, word)
				if err != nil {
					return err
				}
				return c.RemoveCheckpoint(ctx, d.ID)
			})
		}),
		ValidArgsFunction: completed(s, 0, checkpointWords),
	}
}
