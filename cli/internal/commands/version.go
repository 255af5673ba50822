package commands

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// versions is what templates of version see.
type versions struct {
	Client clientVersion
	Plugin api.Version
}

type clientVersion struct{ Version, Go, Platform string }

func newVersion(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "version [OPTIONS]",
		Short: "Show the versions of this program and of the plugin",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{Client: clientVersion{s.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}}
			if format == "" {
				fmt.Fprintf(s.Out(), "Client:\n Version:   %s\n Go:        %s\n Platform:  %s\n", v.Client.Version, v.Client.Go, v.Client.Platform)
			}
			err := calling(s, func(ctx context.Context, c *api.Client, _ []string) (err error) {
				v.Plugin, err = c.Version(ctx)
				return err
			})(cmd, nil)
			if err != nil {
				return err
			}
			if format != "" {
				return show.Object(s.Out(), format, v)
			}
			p := v.Plugin
			_, err = fmt.Fprintf(s.Out(), "\nPlugin:\n Version:   %s\n API:       %s\n Go:        %s\n Platform:  %s\n Started:   %s\n",
				p.Version, p.API, p.Go, p.Platform, p.StartedAt.Local().Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().StringVarP(&format, "format", "f", "", flags.InspectFormatHelp)
	return cmd
}
