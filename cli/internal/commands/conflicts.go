package commands

import (
	"context"
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// codeConflicts is the exit code for conflicts: 1 is that of an error.
const codeConflicts = 2

func newConflicts(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "conflicts [OPTIONS] CONTAINER|VOLUME|ID CONTAINER|VOLUME|ID",
		Short: "Say whether the commits of two workspaces or checkpoints merge",
		Long: `Merge the commits that the HEADs of two workspaces or checkpoints of one repository and subject are at, on copies, and print
the paths in conflict, one in a line. Nothing is kept, and nothing in the workspaces changes. The arguments are those of docker
repos status.

The exit code is 0 without conflicts, 2 with conflicts, and 1 after an error.

Changes that are not committed are no part of it, and are named on standard error. git merges as without a .gitattributes and
without a merge driver.`,
		Example: `  docker repos conflicts try-1 try-2`,
		Args:    cli.ExactArgs(2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			a, err := lookupWorkspace(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			b, err := lookupWorkspace(ctx, s, c, args[1])
			if err != nil {
				return err
			}
			found, err := c.Conflicts(ctx, a.ID, b.ID)
			if err != nil {
				return err
			}
			if format != "" {
				err = show.Object(s.Out(), format, found)
			} else {
				err = printConflicts(s, args, found)
			}
			if err != nil || found.Clean {
				return err
			}
			return cli.StatusError{StatusCode: codeConflicts, Status: fmt.Sprintf("the commits of %s and %s do not merge: %s in conflict",
				quote(args[0]), quote(args[1]), counted(int64(len(found.Paths))+found.More, "path"))}
		}),
		ValidArgsFunction: completed(s, 2, workspaceOrVolume(s)),
	}
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	return cmd
}

// printConflicts prints the paths, and on standard error what is not committed. words name the workspaces.
func printConflicts(s *session.Session, words []string, found api.Conflicts) error {
	for i, w := range found.Workspaces {
		switch {
		case w.Uncommitted == nil:
			fmt.Fprintf(s.Err(), "It is not known whether %s has changes that are not committed: %s\n", quote(words[i]), show.Text(w.UncommittedError))
		case *w.Uncommitted > 0:
			fmt.Fprintf(s.Err(), "%s has %s that are not as in its commit, and no part of this\n", quote(words[i]), counted(*w.Uncommitted, "file"))
		}
	}
	for _, p := range found.Paths {
		if _, err := fmt.Fprintln(s.Out(), pathText(p.Path, p.RawPath)); err != nil {
			return err
		}
	}
	if found.More > 0 {
		fmt.Fprintf(s.Err(), "… and %d more paths\n", found.More)
	}
	return nil
}
