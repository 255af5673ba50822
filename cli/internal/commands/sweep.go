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

type evictionRow struct {
	show.Row
	Kind    string `header:"KIND"`
	Reason  string `header:"REASON"`
	Subject string `header:"SUBJECT"`
	Clone   string `header:"CLONE"`
	ID      string `header:"ID"`
	Volume  string `header:"VOLUME"`
	Size    string `header:"SIZE"`
	Text    string `header:"WHY"`
	Bytes   int64  `header:"BYTES"`
}

func newSweep(s *session.Session) *cobra.Command {
	var format show.Format
	var dry bool
	cmd := &cobra.Command{
		Use:   "sweep [OPTIONS]",
		Short: "Evict now what the limits demand",
		Args:  cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			var evictions []api.Eviction
			var plan api.Plan
			var frees api.Size
			var err error
			done := "Total reclaimed space:"
			if dry {
				plan, err = c.Plan(ctx)
				evictions, frees, done = plan.Evictions, plan.Frees, "A sweep would reclaim:"
			} else {
				var report api.Report
				report, err = c.Sweep(ctx)
				evictions, frees, plan = report.Evicted, report.Frees, report.Left
			}
			if err != nil {
				return err
			}
			if err := show.List(s.Out(), format, []string{"Kind", "Reason", "Clone", "Size", "Text"}, evictionRows(evictions, format)); err != nil {
				return err
			}
			for _, m := range plan.Missing {
				fmt.Fprintln(s.Err(), "Warning:", show.Text(m.Text))
			}
			for _, h := range plan.Holders {
				fmt.Fprintf(s.Err(), "  %s of %q has %s: %s\n", show.Text(h.Repo), h.Subject, show.Bytes(h.Size.Bytes), show.Text(h.Held))
			}
			if format.Template == "" {
				_, err = fmt.Fprintln(s.Out(), "\n"+done, show.Bytes(frees.Bytes))
			}
			return err
		}),
	}
	format.AddTo(cmd.Flags(), "")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "Show what a sweep would evict, and why")
	return cmd
}

func evictionRows(evictions []api.Eviction, f show.Format) []evictionRow {
	rows := make([]evictionRow, len(evictions))
	for i, e := range evictions {
		rows[i] = evictionRow{
			Kind: e.Kind, Reason: e.Reason, Subject: short(f, e.Subject), Clone: e.Clone, ID: e.ID, Volume: e.Volume,
			Size: show.Bytes(e.Size.Bytes), Text: e.Text, Bytes: e.Size.Bytes,
		}
	}
	return rows
}
