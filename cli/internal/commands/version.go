package commands

import (
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/cli/internal/session"
)

func newVersion(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the version of this program",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(s.Docker.Out(), "docker-repos", s.Version)
			return err
		},
	}
}
