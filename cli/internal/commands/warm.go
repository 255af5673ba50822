package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newWarm(s *session.Session) *cobra.Command {
	var w api.Warm
	var options []string
	var quiet bool
	var format string
	cmd := &cobra.Command{
		Use:   "warm [OPTIONS] URL",
		Short: "Clone and check out a repository ahead of its first mount",
		Long: `Clone and check out what a mount of a repository needs, so that the mount finds it.

Subject, ref and options must be those of the volume that will be mounted. If this command is interrupted, the work
ends, unless a mount or another client waits for it. All objects of a complete fetch stay.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			w.Repo, w.Options = args[0], make(map[string]string)
			for _, o := range options {
				name, value, ok := strings.Cut(o, "=")
				if !ok {
					return cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("%q is not an option: these are NAME=VALUE", o)}
				}
				w.Options[name] = value
			}
			progress := show.NewProgress(s.Docker.Err())
			update := progress.Update
			if quiet {
				update = nil
			}
			result, err := c.Warm(ctx, w, update)
			progress.Done()
			if err != nil {
				return err
			}
			if format != "" {
				return show.Object(s.Out(), format, result)
			}
			if quiet {
				_, err = fmt.Fprintln(s.Out(), result.Commit)
				return err
			}
			_, err = fmt.Fprintf(s.Out(), "%s is warm: %s at %s, %s\n", show.Text(result.Clone), show.Text(result.Ref), cmp.Or(result.Commit, "no commit yet"), show.Bytes(result.Size.Bytes))
			return err
		}),
	}
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	flags := cmd.Flags()
	flags.StringVar(&w.Ref, "ref", "", "Branch, tag or commit (default: the remote's HEAD)")
	flags.StringVar(&w.Subject, "subject", "", "Owner of the clone (default: that of a volume without one)")
	flags.StringArrayVarP(&options, "opt", "o", nil, "Another option of the volume, as NAME=VALUE")
	flags.BoolVarP(&quiet, "quiet", "q", false, "Only display the commit")
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}
