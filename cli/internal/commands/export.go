package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newExport(s *session.Session) *cobra.Command {
	var bundle bool
	var output, branch string
	cmd := &cobra.Command{
		Use:   "export [OPTIONS] VOLUME|ID",
		Short: "Write what a container committed into a file",
		Long: `Write the commits of a workspace that its volume did not begin with into a git bundle, for whoever pushes them from
elsewhere: git fetch FILE BRANCH reads it, in a repository that has what the volume began with.

The workspace is that of a volume, or the one with this ID: of a volume that is mounted or kept, or a discard.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			if !bundle {
				return cli.StatusError{StatusCode: 125, Status: "say what to write: --bundle"}
			}
			if output == "-" && s.Docker.Out().IsTerminal() {
				return errors.New("a bundle is not text: name a file with --output, or redirect the output")
			}
			id, err := workspaceID(ctx, c, args[0])
			if err != nil {
				return err
			}
			if output == "-" {
				_, err := c.Bundle(ctx, id, branch, s.Out())
				return err
			}
			n, err := writeNew(output, func(w io.Writer) (int64, error) { return c.Bundle(ctx, id, branch, w) })
			if err == nil {
				_, err = fmt.Fprintf(s.Out(), "%s: %s\n", show.Text(output), show.Bytes(n))
			}
			return err
		}),
		ValidArgsFunction: completed(s, 1, workspaceOwners),
	}
	flags := cmd.Flags()
	flags.BoolVar(&bundle, "bundle", false, "A git bundle of the commits")
	flags.StringVarP(&output, "output", "o", "-", "The file, which must not exist; - is the standard output")
	flags.StringVar(&branch, "branch", "", "Only one branch (default: all with new commits)")
	return cmd
}

// writeNew writes a new file, which is removed after an error.
func writeNew(path string, write func(io.Writer) (int64, error)) (n int64, err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return 0, err
	}
	n, err = write(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return n, errors.Join(err, os.Remove(path))
	}
	return n, nil
}
