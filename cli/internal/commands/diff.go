package commands

import (
	"context"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newDiff(s *session.Session) *cobra.Command {
	var ignored bool
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] VOLUME|WORKSPACE",
		Short: "Print what a workspace or a discard changed, as a patch",
		Long: `Print what the containers of a workspace changed against the commit that it began with, committed or not, as a
patch that git apply takes in a checkout of the commit. Lines at the end that begin with # name binary files and what
else is not in it. On a terminal, control characters are escaped: git apply takes only the output to a file or a
pipe. The arguments are those of docker repos status.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, err := lookupWorkspace(ctx, c, args[0])
			if err != nil {
				return err
			}
			out := show.Whole(s.Out())
			if err := c.WorkspaceDiff(ctx, w.ID, ignored, out); err != nil {
				return err
			}
			return out.Flush()
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "Include ignored files")
	return cmd
}
