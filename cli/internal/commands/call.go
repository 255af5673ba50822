package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

// calling returns a RunE that connects to the plugin and calls f. It refuses an empty argument, which a
// script has from a variable that is not set.
func calling(s *session.Session, f func(ctx context.Context, c *api.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return cli.FlagErrorFunc(cmd, errors.New("an argument is empty"))
		}
		c, err := s.Client(cmd.Context())
		if err != nil {
			return err
		}
		return show.Error(f(cmd.Context(), c, args))
	}
}

// each calls f with each argument, prints those for which it succeeds, and returns all errors, as
// docker's rm commands do.
func each(s *session.Session, args []string, f func(arg string) error) error {
	var errs []error
	for _, arg := range args {
		if err := f(arg); err != nil {
			errs = append(errs, show.Error(err))
			continue
		}
		if _, err := fmt.Fprintln(s.Out(), arg); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
	return errors.Join(errs...)
}
