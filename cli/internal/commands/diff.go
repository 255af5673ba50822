package commands

import (
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newDiff(s *session.Session) *cobra.Command {
	var ignored bool
	cmd := &cobra.Command{
		Use:   "diff [OPTIONS] CONTAINER|VOLUME|ID[..CONTAINER|VOLUME|ID]",
		Short: "Print what a workspace or a checkpoint changed, or in what two differ, as a patch",
		Long: `Print what the containers of a workspace changed against the commit that it began with, committed or not, as a
patch that git apply takes in a checkout of the commit. Lines at the end that begin with # name binary files and what
else is not in it. On a terminal, control characters are escaped: git apply takes only the output to a file or a
pipe. The argument is that of docker repos status.

With A..B, the patch makes the files of B out of those of A. Both are workspaces or checkpoints of one repository and
subject, and may be at different commits.`,
		Example: `  docker repos diff my-container
  docker repos diff try-1..try-2`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, from, err := lookupCompared(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			out := show.Whole(s.Out())
			if err := c.WorkspaceDiff(ctx, w.ID, api.Compare{From: from.ID, Ignored: ignored}, out); err != nil {
				return err
			}
			return out.Flush()
		}),
		ValidArgsFunction: completedPair(s),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "Include ignored files")
	return cmd
}

// lookupCompared returns the workspace that a word means, or, of a word A..B, that which B means and from, which A means.
func lookupCompared(ctx context.Context, s *session.Session, c *api.Client, word string) (w, from api.Workspace, err error) {
	w, err = lookupWorkspace(ctx, s, c, word) // names of volumes may have two dots
	a, b, isPair := strings.Cut(word, "..")
	if !isPair || !is[unknownError](err) {
		return w, from, err
	}
	if a == "" || b == "" || b[0] == '.' {
		return w, from, cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("%s does not name two workspaces: allowed is A..B, with a container, a volume or an ID on each side", quote(word))}
	}
	if from, err = lookupWorkspace(ctx, s, c, a); err == nil {
		w, err = lookupWorkspace(ctx, s, c, b)
	}
	return w, from, err
}

// completedPair completes a word that names a workspace, or A..B.
func completedPair(s *session.Session) cobra.CompletionFunc {
	list := workspaceOrVolume(s)
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		a, _, isPair := strings.Cut(begun, "..")
		return completed(s, 1, func(ctx context.Context, c *api.Client) ([]string, error) {
			names, err := list(ctx, c)
			for i := range names {
				if isPair {
					names[i] = a + ".." + names[i]
				}
			}
			return names, err
		})(cmd, args, begun)
	}
}
