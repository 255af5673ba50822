package commands

import (
	"context"
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/checkpoint"
	"github.com/helmdeck/repos/cli/internal/session"
)

func newCheckpoint(s *session.Session) *cobra.Command {
	var note api.Note
	var noPause bool
	cmd := &cobra.Command{
		Use:   "checkpoint [OPTIONS] CONTAINER|VOLUME|ID [NAME]",
		Short: "Make a checkpoint of a workspace that goes on",
		Long: `Make a checkpoint of a workspace that goes on, and print its ID. Volumes can begin with it (docker repos checkpoints
fork), or go back to it (docker repos rewind). With a NAME it does not expire. If the argument is a checkpoint already, nothing
is copied: it gets the NAME and the message, in place of those that it had. Without both, nothing is changed.

` + namesWorkspace + `

The containers of the workspace run during a first copy. Then docker repos pauses them, copies the changes since, and
unpauses them. So the checkpoint has what a kill at that moment would leave: a database recovers from it, but a command
that ran is not finished. Containers that are paused already stay so. The cache is no part of it.`,
		Example: `  docker repos checkpoint my-container
  docker repos checkpoint -m "before the upgrade" src step-1`,
		Args: cli.RequiresRangeArgs(1, 2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, err := lookupWorkspace(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				note.Name = args[1]
			}
			m := checkpoint.Maker{Client: c, Containers: s.Containers, NoPause: noPause, Say: s.Err()}
			id, err := m.Make(ctx, w, note)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out(), id)
			return err
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume(s)),
	}
	cmd.Flags().StringVarP(&note.Message, "message", "m", "", "A message that is shown with it")
	cmd.Flags().BoolVar(&noPause, "no-pause", false, "Do not pause containers: databases and repositories in it are probably broken then")
	return cmd
}
