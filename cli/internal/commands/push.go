package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newPush(s *session.Session) *cobra.Command {
	var p api.Push
	var quiet, current bool
	var format string
	cmd := &cobra.Command{
		Use:   "push [OPTIONS] CONTAINER|VOLUME|ID [BRANCH[:REMOTE_BRANCH]]",
		Short: "Push what a container committed to the remote of its volume",
		Long: `Push a branch of a workspace to the remote of its volume, with a stored credential that allows it (docker repos
credentials put --allow push). The container needs neither a credential nor a network.

The first argument is that of docker repos status: a container, a volume, or the ID of a workspace or a checkpoint.
Without BRANCH it is the branch that is checked out, which the container chooses: the command asks on a terminal, and
elsewhere it needs BRANCH or --current. BRANCH may be HEAD, also a detached one, if REMOTE_BRANCH is given. A branch that has other commits
at the remote is not overwritten, except with --force-with-lease.

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
			if p.Branch != "" && current {
				return cli.StatusError{StatusCode: 125, Status: "--current and a branch exclude each other"}
			}
			w, err := lookupWorkspace(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			if p.Branch == "" && !current {
				if p.Branch, err = askBranch(ctx, s, c, w); err != nil {
					return err
				}
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
			showWarnings(s.Err(), result.Warnings)
			if format != "" {
				return show.Object(s.Out(), format, result)
			}
			return showPush(s.Out(), result, quiet)
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume(s)),
	}
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	flags := cmd.Flags()
	flags.StringVar(&p.ForceWithLease, "force-with-lease", "", "The commit that the remote's branch is at, to overwrite it")
	flags.BoolVar(&p.WithoutLFS, "without-lfs", false, "Push LFS pointers whose objects the plugin has not fetched, and contents in place of LFS pointers")
	flags.BoolVar(&current, "current", false, "Push the branch that the container has checked out, without a question")
	flags.BoolVarP(&quiet, "quiet", "q", false, "Only display the commit")
	return cmd
}

// askBranch returns the branch that a container has checked out, if the user confirms it. The container
// chooses its name, and so where its commits go.
func askBranch(ctx context.Context, s *session.Session, c *api.Client, w api.Workspace) (string, error) {
	if !s.Docker.In().IsTerminal() {
		return "", cli.StatusError{StatusCode: 125, Status: "the container chooses which branch is checked out: name the branch to push, or allow that one with --current"}
	}
	status, err := c.WorkspaceStatus(ctx, w.ID, api.Compare{})
	switch {
	case err != nil:
		return "", err
	case status.HeadError != "":
		return "", errors.New(status.HeadError)
	case status.Branch == "":
		return "", errors.New("HEAD of the workspace is detached: name a branch, or HEAD:REMOTE_BRANCH")
	}
	text := fmt.Sprintf("The container has checked out branch %s. It will be pushed to the branch of that name of %s.", show.Text(status.Branch), show.Text(w.Repo))
	return status.Branch, ask.Confirm(ctx, s.Docker.In(), s.Docker.Err(), text, "--current")
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
		text = fmt.Sprintf("Pushed %s to the new %s: %s, %s, %s", r.NewCommit, at, counted(r.Commits, "commit"), counted(r.Objects, "object"), show.Bytes(r.Bytes))
	default:
		text = fmt.Sprintf("Pushed %s to %s, which was at %s: %s, %s, %s", r.NewCommit, at, r.OldCommit, counted(r.Commits, "commit"), counted(r.Objects, "object"), show.Bytes(r.Bytes))
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

// showWarnings prints what git fsck found in commits that were pushed or exported.
func showWarnings(w io.Writer, warnings []string) {
	for _, text := range warnings {
		fmt.Fprintf(w, "Warning: git fsck: %s\n", show.Text(text))
	}
}

// counted returns a number of things that a noun names.
func counted[N int | int64](n N, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
