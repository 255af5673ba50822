package commands

import (
	"context"
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

func newRewind(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "rewind VOLUME CHECKPOINT",
		Short: "Make a volume begin again with a checkpoint",
		Long: `Make a volume with mode=keep begin again with a checkpoint, and print the ID of its new workspace. No container may use
the volume: remove them first, or stop them. What the volume had becomes a checkpoint itself.

` + namesCheckpoint,
		Args: cli.ExactArgs(2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			d, err := lookupCheckpoint(ctx, s, c, args[1])
			if err != nil {
				return err
			}
			w, err := c.Rewind(ctx, args[0], d.ID)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out(), w.ID)
			return err
		}),
		ValidArgsFunction: completed(s, 2, volumesAndCheckpoints),
	}
}

// volumesAndCheckpoints lists both arguments of rewind.
func volumesAndCheckpoints(ctx context.Context, c *api.Client) ([]string, error) {
	volumes, err := volumeNames(ctx, c)
	if err != nil {
		return nil, err
	}
	checkpoints, err := checkpointWords(ctx, c)
	return append(volumes, checkpoints...), err
}
