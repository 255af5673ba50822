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

// export says what is exported, and to where.
type export struct {
	bundle, ignored bool
	output, branch  string
}

func newExport(s *session.Session) *cobra.Command {
	var e export
	cmd := &cobra.Command{
		Use:   "export [OPTIONS] VOLUME|ID",
		Short: "Write what a container changed, or what it committed, into a file",
		Long: `Write the files and links that the containers of a workspace added or changed, committed or not, to a tar archive.
Its first entry, .helmdeck-export/deleted, has the paths that were deleted, each ended by a zero; the last one,
.helmdeck-export/left-out, names what is not in the archive, if anything is not. To apply it in a checkout of the
commit that docker repos status prints:

  tar -xOf FILE .helmdeck-export/deleted | xargs -0 -r rm -f --
  tar -xf FILE --exclude=.helmdeck-export

With --bundle, write the commits of a workspace that its volume did not begin with into a git bundle, for whoever
pushes them from elsewhere: git fetch FILE BRANCH reads it, in a repository that has what the volume began with.

The workspace is that of a volume, or the one with this ID: of a volume that is mounted or kept, or a discard.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			switch {
			case e.bundle && e.ignored:
				return cli.StatusError{StatusCode: 125, Status: "--ignored is about files, and a bundle has commits: leave one of the two out"}
			case !e.bundle && e.branch != "":
				return cli.StatusError{StatusCode: 125, Status: "--branch is about commits: add --bundle, or leave it out"}
			case e.output == "-" && s.Docker.Out().IsTerminal():
				return errors.New("what is exported is not text: name a file with --output, or redirect the output")
			}
			id, err := workspaceID(ctx, c, args[0])
			if err != nil {
				return err
			}
			if e.output == "-" {
				_, err := e.write(ctx, c, id, s.Out())
				return err
			}
			n, err := writeNew(e.output, func(w io.Writer) (int64, error) { return e.write(ctx, c, id, w) })
			if err == nil {
				_, err = fmt.Fprintf(s.Out(), "%s: %s\n", show.Text(e.output), show.Bytes(n))
			}
			return err
		}),
		ValidArgsFunction: completed(s, 1, workspaceOwners),
	}
	flags := cmd.Flags()
	flags.BoolVar(&e.bundle, "bundle", false, "A git bundle of the commits, in place of an archive of the files")
	flags.BoolVar(&e.ignored, "ignored", false, "Include files that were added and that a .gitignore names")
	flags.StringVarP(&e.output, "output", "o", "-", "The file, which must not exist; - is the standard output")
	flags.StringVar(&e.branch, "branch", "", "Of a bundle, only one branch (default: all with new commits)")
	return cmd
}

// write writes what is exported, and returns its size.
func (e export) write(ctx context.Context, c *api.Client, id string, w io.Writer) (int64, error) {
	if e.bundle {
		return c.Bundle(ctx, id, e.branch, w)
	}
	return c.WorkspaceChanges(ctx, id, e.ignored, w)
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
