package commands

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type usageRow struct {
	show.Row
	Subject     string `header:"SUBJECT"`
	Size        string `header:"SIZE"`
	Limit       string `header:"LIMIT"`
	Clones      int    `header:"CLONES"`
	Repository  string `header:"REPOSITORY"`
	Files       string `header:"FILES"`
	Caches      string `header:"CACHES"`
	Workspaces  string `header:"WORKSPACES"`
	Checkpoints string `header:"CHECKPOINTS"`
	Bytes       int64  `header:"BYTES"`
	Inodes      int64  `header:"INODES"`
	MaxSize     int64  `header:"MAX SIZE"`
	Limits      int64  `header:"WORKSPACE LIMITS"`
	Classes     api.Classes
}

var usageColumns = []string{"Subject", "Size", "Limit", "Clones", "Repository", "Files", "Caches", "Workspaces", "Checkpoints"}

func newDf(s *session.Session) *cobra.Command {
	var format show.Format
	var verbose bool
	cmd := &cobra.Command{
		Use:   "df [OPTIONS]",
		Short: "Show who uses the disk, and the budget",
		Long: `Show which subject uses how much of the disk, the largest first, and the budget.

REPOSITORY is what was fetched, FILES what is checked out for workspaces, CACHES are dependency caches and
warm directories, WORKSPACES and CHECKPOINTS what containers have written. WORKSPACES also shows the sum of the limits of the
workspaces that have one (size); docker repos ps shows each.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			subjects, err := c.Subjects(ctx, api.Filter{})
			if err != nil {
				return err
			}
			if err := show.List(s.Out(), format, usageColumns, usageRows(subjects, format)); err != nil {
				return err
			}
			if format.Template != "" {
				return nil
			}
			if verbose {
				clones, err := c.Clones(ctx, api.Filter{})
				if err != nil {
					return err
				}
				fmt.Fprintln(s.Out())
				if err := show.List(s.Out(), format, cloneColumns, cloneRows(clones, format)); err != nil {
					return err
				}
			}
			stats, err := c.Stats(ctx)
			if err != nil {
				return err
			}
			return writeBudget(s.Out(), stats)
		}),
	}
	format.AddTo(cmd.Flags(), "")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "List the clones too")
	return cmd
}

// usageRows sorts the largest first.
func usageRows(subjects []api.Subject, f show.Format) []usageRow {
	slices.SortStableFunc(subjects, func(a, b api.Subject) int { return cmp.Compare(b.Size.Bytes, a.Size.Bytes) })
	rows := make([]usageRow, len(subjects))
	for i, u := range subjects {
		c := u.Classes
		rows[i] = usageRow{
			Subject: short(f, u.Name), Size: show.Bytes(u.Size.Bytes), Limit: show.Limit(u.Limits.MaxSize), Clones: u.Clones,
			Repository:  show.Bytes(c.Store.Bytes + c.LFS.Bytes),
			Files:       show.Bytes(c.Tree.Bytes + c.GitLayer.Bytes),
			Caches:      show.Bytes(c.Cache.Bytes + c.WarmLayer.Bytes),
			Workspaces:  ofLimit(c.Workspace.Bytes, u.WorkspaceLimits),
			Checkpoints: show.Bytes(c.Checkpoint.Bytes),
			Bytes:       u.Size.Bytes, Inodes: u.Size.Inodes, MaxSize: u.Limits.MaxSize, Limits: u.WorkspaceLimits, Classes: c,
		}
	}
	return rows
}

// ofLimit shows a size, and a limit if there is one.
func ofLimit(bytes, limit int64) string {
	if limit == 0 {
		return show.Bytes(bytes)
	}
	return show.Bytes(bytes) + " of " + show.Bytes(limit)
}

// writeBudget writes what the data directory takes of what it may take.
func writeBudget(w io.Writer, s api.Stats) error {
	var b strings.Builder
	all := s.Size.Bytes + s.Trash.Bytes + s.Own.Bytes
	budget := "no limit (MAX_SIZE=0)"
	if s.MaxSize > 0 {
		budget = fmt.Sprintf("%s (MAX_SIZE), %.0f%%", show.Bytes(s.MaxSize), percent(all, s.MaxSize))
	}
	fmt.Fprintf(&b, "\nAll clones: %s + %s (database and reserve)", show.Bytes(s.Size.Bytes), show.Bytes(s.Own.Bytes))
	if s.Trash.Bytes > 0 {
		fmt.Fprintf(&b, " + %s (being deleted)", show.Bytes(s.Trash.Bytes))
	}
	fmt.Fprintf(&b, " = %s of %s\n", show.Bytes(all), budget)
	if total := s.Space.Total; total.Bytes > 0 {
		fmt.Fprintf(&b, "Disk: %s of %s free, %.0f%%", show.Bytes(s.Space.Free.Bytes), show.Bytes(total.Bytes), percent(s.Space.Free.Bytes, total.Bytes))
		if total.Inodes > 0 {
			fmt.Fprintf(&b, ", and %.0f%% of the inodes", percent(s.Space.Free.Inodes, total.Inodes))
		}
		fmt.Fprintf(&b, "; at least %.0f%% stays free (MIN_FREE)\n", 100*s.MinFree)
	}
	for _, f := range s.Findings {
		fmt.Fprintf(&b, "Warning (%s): %s\n", show.Ago(s.FindingsAt), show.Text(f.Text))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(part, whole int64) float64 { return 100 * float64(part) / float64(whole) }
