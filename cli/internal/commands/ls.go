package commands

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type cloneRow struct {
	show.Row
	Clone   string    `header:"CLONE"`
	Subject string    `header:"SUBJECT"`
	Repo    string    `header:"REPOSITORY"`
	Size    string    `header:"SIZE"`
	Used    string    `header:"USED"`
	Held    string    `header:"HELD"`
	Bytes   int64     `header:"BYTES"`
	Inodes  int64     `header:"INODES"`
	UsedAt  time.Time `header:"USED AT"`
}

var cloneColumns = []string{"Clone", "Subject", "Repo", "Size", "Used", "Held"}

func newLs(s *session.Session) *cobra.Command {
	var format show.Format
	var filter api.Filter
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the clones, the largest first",
		Long: `List the clones, the largest first.

HELD says what keeps a clone from being evicted, and free that nothing does. docs/operations/sizing.md lists the
values, with what "evict" does about each.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			clones, err := c.Clones(ctx, filter)
			if err != nil {
				return err
			}
			return show.List(s.Out(), format, cloneColumns, cloneRows(clones, format))
		}),
	}
	format.AddTo(cmd.Flags(), "the keys of the clones")
	cmd.Flags().StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&filter.Repo, "repo", "", "Only those of a repository, by its URL")
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}

// cloneRows sorts the largest first.
func cloneRows(clones []api.Clone, f show.Format) []cloneRow {
	slices.SortStableFunc(clones, func(a, b api.Clone) int { return cmp.Compare(b.Size.Bytes, a.Size.Bytes) })
	rows := make([]cloneRow, len(clones))
	for i, c := range clones {
		rows[i] = cloneRow{
			Clone: c.Clone, Subject: short(f, c.Subject), Repo: short(f, c.Repo),
			Size: show.Bytes(c.Size.Bytes), Used: show.Ago(c.Used), Held: held(c),
			Bytes: c.Size.Bytes, Inodes: c.Size.Inodes, UsedAt: c.Used,
		}
	}
	return rows
}

// held returns what holds a clone. What begins with "free" can be evicted.
func held(c api.Clone) string {
	if c.Free && c.Held != "free" {
		return "free: " + c.Held
	}
	return c.Held
}

// most is how many characters of a name a table shows.
const most = 60

// short returns a name for a table; a template or JSON has the whole name.
func short(f show.Format, name string) string {
	if f.NoTrunc || !f.Table() {
		return name
	}
	return show.Shorten(name, most)
}

// shortID returns the beginning of an ID, as docker's tables show it.
func shortID(f show.Format, id string) string {
	if f.NoTrunc || len(id) <= 12 {
		return id
	}
	return id[:12]
}
