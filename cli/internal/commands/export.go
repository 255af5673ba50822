package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
)

func newExport(s *session.Session) *cobra.Command {
	var ignored, bundle bool
	var to, branch string
	cmd := &cobra.Command{
		Use:   "export [OPTIONS] VOLUME|WORKSPACE -o FILE",
		Short: "Write what a workspace or a discard changed to a tar archive, or its commits to a git bundle",
		Long: `Write the files and links that the containers of a workspace added or changed, committed or not, to a tar
archive. Its first entry, .helmdeck-export/deleted, has the paths that were deleted, each ended by a zero; the last
one, .helmdeck-export/left-out, names what is not in the archive, if anything is not. The arguments are those of
docker repos status.

To apply it in a checkout of the commit:
  tar -xOf FILE .helmdeck-export/deleted | xargs -0 -r rm -f --
  tar -xf FILE --exclude=.helmdeck-export

With --bundle it writes the commits that the volume did not begin with to a git bundle, for whoever pushes them from
elsewhere. To read it in a repository that has what the volume began with:
  git fetch FILE BRANCH`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, err := lookupWorkspace(ctx, c, args[0])
			if err != nil {
				return err
			}
			switch {
			case bundle && ignored:
				return cli.StatusError{StatusCode: 125, Status: "--ignored is for the archive of files: a bundle has commits"}
			case branch != "" && !bundle:
				return cli.StatusError{StatusCode: 125, Status: "--branch is for --bundle"}
			case bundle:
				return writeTo(s, to, func(out io.Writer) error {
					_, err := c.Outbound(w.ID).Bundle(ctx, branch, out)
					return err
				})
			}
			return writeTo(s, to, func(out io.Writer) error { return c.WorkspaceChanges(ctx, w.ID, ignored, out) })
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "Include ignored files")
	cmd.Flags().BoolVar(&bundle, "bundle", false, "Write the commits to a git bundle")
	cmd.Flags().StringVar(&branch, "branch", "", "Only one branch in the bundle (default: all with new commits)")
	cmd.Flags().StringVarP(&to, "output", "o", "", "File to write, or - for standard output")
	cmd.MarkFlagRequired("output")
	return cmd
}

// writeTo calls write with a file or, for "-", with standard output, unless that is a terminal. The
// file has its name only when it is complete. A device or a FIFO is written to, and not replaced.
func writeTo(s *session.Session, name string, write func(io.Writer) error) (err error) {
	switch {
	case name == "":
		return errors.New("-o is empty: name a file, or - for standard output")
	case name == "-" && s.Docker.Out().IsTerminal():
		return errors.New("standard output is a terminal: redirect it, or name a file with -o")
	case name == "-":
		return write(s.Docker.Out())
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return fmt.Errorf("write %q: %w", name, err)
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := errors.Join(write(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
