package commands

import (
	"context"
	"fmt"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type refreshRow struct {
	show.Row
	Clone   string `header:"CLONE"`
	Subject string `header:"SUBJECT"`
	Ref     string `header:"REF"`
	Commit  string `header:"COMMIT"`
	Error   string `header:"ERROR"`
}

func newRefresh(s *session.Session) *cobra.Command {
	var format show.Format
	var r api.Refresh
	cmd := &cobra.Command{
		Use:   "refresh [OPTIONS] URL",
		Short: "Fetch and check out what was pushed to a repository",
		Long: `Ask the remote of a repository, and fetch and check out in advance what has changed: all refs that were mounted
in the last day, for all subjects, unless flags choose some. If that is none, it is an error. To fetch and check out
what was not mounted yet: docker repos warm.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			r.Repo = args[0]
			results, err := c.Refresh(ctx, r)
			if err != nil {
				return err
			}
			if len(results) == 0 {
				return nothingMounted(r)
			}
			failed := 0
			rows := make([]refreshRow, len(results))
			for i, r := range results {
				rows[i] = refreshRow{Clone: r.Clone, Subject: short(format, r.Subject), Ref: short(format, r.Ref), Commit: shortID(format, r.Commit), Error: r.Error}
				if r.Error != "" {
					failed++
				}
			}
			if err := show.List(s.Out(), format, []string{"Clone", "Ref", "Commit", "Error"}, rows); err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d refs could not be refreshed", failed, len(results))
			}
			return nil
		}),
		ValidArgsFunction: completed(s, 1, repoNames),
	}
	format.AddTo(cmd.Flags(), "")
	cmd.Flags().StringVar(&r.Ref, "ref", "", "Only one ref")
	cmd.Flags().StringVar(&r.Subject, "subject", "", "Only the clone of one subject")
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}

// nothingMounted is the error of a refresh that had nothing to do.
func nothingMounted(r api.Refresh) error {
	which := "no ref"
	if r.Ref != "" {
		which = "not the ref " + quote(r.Ref)
	}
	return fmt.Errorf("nothing was refreshed: %s of %s was mounted in the last day; docker repos warm fetches and checks out what was not mounted yet",
		which, show.Text(r.Repo))
}
