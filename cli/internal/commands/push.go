package commands

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newPush(s *session.Session) *cobra.Command {
	var p api.Push
	var quiet bool
	cmd := &cobra.Command{
		Use:   "push [OPTIONS] VOLUME|WORKSPACE [BRANCH[:REMOTE_BRANCH]]",
		Short: "Push what a container committed to the remote of its volume",
		Long: `Push a branch of a workspace to the remote of its volume, with a stored credential that allows it (docker repos
credentials put --allow push). The container needs neither a credential nor a network.

The first argument is that of docker repos status: a volume, or the ID of a workspace or a discard. Without BRANCH it
is the branch that is checked out, which the container chooses: name it where that matters. BRANCH may be HEAD, also a
detached one, if REMOTE_BRANCH is given. A branch that has other commits at the remote is not overwritten, except with
--force-with-lease.

Nothing of the container's configuration is used, and nothing in the workspace changes. LFS objects are not pushed.`,
		Args: cli.RequiresRangeArgs(1, 2),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			if len(args) > 1 {
				var both bool
				// In a refspec of git, an empty side means something else, such as a deletion.
				if p.Branch, p.RemoteBranch, both = strings.Cut(args[1], ":"); both && (p.Branch == "" || p.RemoteBranch == "") {
					return cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("%s has an empty branch: allowed are BRANCH and BRANCH:REMOTE_BRANCH", quote(args[1]))}
				}
			}
			w, err := lookupWorkspace(ctx, c, args[0])
			if err != nil {
				return err
			}
			progress := show.NewProgress(s.Docker.Err())
			update := progress.Update
			if quiet {
				update = nil
			}
			result, err := c.Outbound(w.ID).Push(ctx, p, update)
			progress.Done()
			if err != nil {
				return err
			}
			return showPush(s.Out(), result, quiet)
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume),
	}
	flags := cmd.Flags()
	flags.StringVar(&p.ForceWithLease, "force-with-lease", "", "The commit that the remote's branch is at, to overwrite it")
	flags.BoolVar(&p.WithoutLFS, "without-lfs", false, "Push LFS pointers whose objects the remote has, although the plugin has not fetched them")
	flags.BoolVarP(&quiet, "quiet", "q", false, "Only display the commit")
	return cmd
}

func showPush(out io.Writer, r api.PushResult, quiet bool) error {
	at := "branch " + show.Text(r.RemoteBranch) + " of " + show.Text(r.Repo)
	text := ""
	switch {
	case quiet:
		text = r.NewCommit
	case r.OldCommit == r.NewCommit:
		text = fmt.Sprintf("Nothing to push: %s is at %s already", at, r.NewCommit)
	case r.OldCommit == "":
		text = fmt.Sprintf("Pushed %s to the new %s: %d commits, %d objects, %s", r.NewCommit, at, r.Commits, r.Objects, show.Bytes(r.Bytes))
	default:
		text = fmt.Sprintf("Pushed %s to %s, which was at %s: %d commits, %d objects, %s", r.NewCommit, at, r.OldCommit, r.Commits, r.Objects, show.Bytes(r.Bytes))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
