package commands

import (
	"archive/tar"
	"context"
	"fmt"
	"io"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newExport(s *session.Session) *cobra.Command {
	var ignored, bundle bool
	var want api.Bundle
	var to string
	cmd := &cobra.Command{
		Use:   "export [OPTIONS] CONTAINER|VOLUME|ID -o FILE",
		Short: "Write what a workspace or a checkpoint changed to a tar archive, or its commits to a git bundle",
		Long: `Write the files and links that the containers of a workspace added or changed, committed or not, to a tar
archive. Its first entry, .helmdeck-export/deleted, has the paths that were deleted, each ended by a zero. If something
is not in the archive, its last entry, .helmdeck-export/left-out, names that, and the command warns.

` + namesWorkspace + `

To apply it in a checkout of the commit:
  tar -xOf FILE .helmdeck-export/deleted | xargs -0 -r rm -f --
  tar -xf FILE --exclude=.helmdeck-export

With --bundle it writes the commits that the volume did not begin with to a git bundle, for whoever pushes them from
elsewhere. To read it in a repository that has what the volume began with:
  git fetch FILE BRANCH

A bundle has no LFS objects. If the commits add LFS pointers whose objects the plugin has not fetched, the bundle is
refused, except with --without-lfs.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w, err := lookupWorkspace(ctx, s, c, args[0])
			if err != nil {
				return err
			}
			switch {
			case bundle && ignored:
				return cli.StatusError{StatusCode: 125, Status: "--ignored is for the archive of files: a bundle has commits"}
			case want.Branch != "" && !bundle:
				return cli.StatusError{StatusCode: 125, Status: "--branch is for --bundle"}
			case want.WithoutLFS && !bundle:
				return cli.StatusError{StatusCode: 125, Status: "--without-lfs is for --bundle"}
			case bundle:
				return show.ToFile(s.Docker.Out(), to, func(out io.Writer) error {
					_, warnings, err := c.Outbound(w.ID).Bundle(ctx, want, out)
					showWarnings(s.Err(), warnings)
					return err
				})
			}
			return exportFiles(ctx, s, c, w.ID, to, ignored)
		}),
		ValidArgsFunction: completed(s, 1, workspaceOrVolume(s)),
	}
	cmd.Flags().BoolVar(&ignored, "ignored", false, "Include ignored files")
	cmd.Flags().BoolVar(&bundle, "bundle", false, "Write the commits to a git bundle")
	cmd.Flags().StringVar(&want.Branch, "branch", "", "Only one branch in the bundle (default: all with new commits)")
	cmd.Flags().BoolVar(&want.WithoutLFS, "without-lfs", false, "Also a bundle of LFS pointers whose objects the plugin has not fetched, and of contents in place of LFS pointers")
	cmd.Flags().StringVarP(&to, "output", "o", "", "File to write, or - for standard output")
	cmd.MarkFlagRequired("output")
	return cmd
}

// The entries of an archive that are no files of the workspace.
const (
	deletedEntry = ".helmdeck-export/deleted"
	leftOutEntry = ".helmdeck-export/left-out"
)

// exportFiles writes the archive of a workspace, and says on standard error if it is empty, or lacks something.
func exportFiles(ctx context.Context, s *session.Session, c *api.Client, id, to string, ignored bool) error {
	reader, writer := io.Pipe()
	read := make(chan archived, 1)
	go func() { read <- readArchive(reader) }()
	err := show.ToFile(s.Docker.Out(), to, func(out io.Writer) error {
		return c.WorkspaceChanges(ctx, id, api.Compare{Ignored: ignored}, io.MultiWriter(out, writer))
	})
	writer.Close()
	a := <-read
	switch {
	case err != nil:
	case a.leftOut:
		fmt.Fprintf(s.Err(), "Warning: the archive lacks something that was changed. Its last entry lists that: tar -xOf FILE %s\n", leftOutEntry)
	case a.empty && ignored:
		fmt.Fprintln(s.Err(), "The archive is empty: nothing was changed.")
	case a.empty:
		fmt.Fprintln(s.Err(), "The archive is empty: nothing was changed, but maybe ignored files (--ignored).")
	}
	return err
}

// archived says what an archive has.
type archived struct {
	empty   bool // it has neither a file nor a deletion
	leftOut bool
}

// readArchive reads an archive to its end. If the bytes are no archive, neither field is set.
func readArchive(r io.Reader) archived {
	defer io.Copy(io.Discard, r) // the writer waits for the reader
	a, t := archived{empty: true}, tar.NewReader(r)
	for {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return a
		case err != nil:
			return archived{}
		case h.Name == leftOutEntry:
			a.leftOut = true
		case h.Name != deletedEntry || h.Size > 0:
			a.empty = false
		}
	}
}
