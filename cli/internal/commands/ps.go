package commands

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type psRow struct {
	show.Row
	Workspace string    `header:"WORKSPACE"`
	Container string    `header:"CONTAINER"`
	Pod       string    `header:"POD"`
	Volume    string    `header:"VOLUME"`
	Subject   string    `header:"SUBJECT"`
	Repo      string    `header:"REPOSITORY"`
	Ref       string    `header:"REF"`
	Commit    string    `header:"COMMIT"`
	Since     string    `header:"SINCE"`
	Wrote     string    `header:"WROTE"`
	Status    string    `header:"STATUS"`
	For       string    `header:"FOR"`
	Clone     string    `header:"CLONE"`
	SinceAt   time.Time `header:"SINCE AT"`
	Bytes     int64     `header:"BYTES"`
	Limit     int64     `header:"LIMIT"`
	Objects   int64     `header:"OBJECTS"`
	Total     int64     `header:"TOTAL"`
}

// watchEvery is how often ps --watch looks.
const watchEvery = time.Second

func newPs(s *session.Session) *cobra.Command {
	var format show.Format
	var filter api.Filter
	var watch bool
	cmd := &cobra.Command{
		Use:   "ps [OPTIONS]",
		Short: "List what runs, and what is being fetched or built",
		Long: `List the workspaces that containers have, with how much was written to each, and then what is being fetched or built, with
its progress. So a first clone can be watched: while it runs, its volume has no workspace yet.

CONTAINER is empty if no engine can be asked. WROTE is measured every few minutes, or seconds if the volume has a
limit (size), which is shown then.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			if !watch {
				return writePs(ctx, s, s.Out(), c, filter, format)
			}
			terminal := s.Docker.Out().IsTerminal() && format.Table()
			for {
				var page strings.Builder
				if err := writePs(ctx, s, &page, c, filter, format); err != nil {
					return err
				}
				if terminal { // the text has no control characters, so these are the only ones
					io.WriteString(s.Docker.Out(), "\x1b[H\x1b[2J")
				}
				if _, err := io.WriteString(s.Out(), page.String()); err != nil {
					return err
				}
				select {
				case <-ctx.Done():
					return context.Cause(ctx)
				case <-time.After(watchEvery):
				}
			}
		}),
	}
	format.AddTo(cmd.Flags(), "the IDs of workspaces")
	cmd.Flags().StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&filter.Repo, "repo", "", "Only those of a repository, by its URL")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "Look again each second, until Ctrl-C")
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "repo", repoNames)
	return cmd
}

func writePs(ctx context.Context, s *session.Session, w io.Writer, c *api.Client, filter api.Filter, format show.Format) error {
	leases, err := c.Leases(ctx, filter)
	if err != nil {
		return err
	}
	mounted := filter
	mounted.Phase = "mounted"
	workspaces, err := c.Workspaces(ctx, mounted)
	if err != nil {
		return err
	}
	work, err := c.Work(ctx, filter)
	if err != nil {
		return err
	}
	rows := runningRows(leases, workspaces, containersOf(ctx, s, leases), format)
	if !format.Quiet {
		rows = append(rows, workRows(work, format)...)
	}
	columns := []string{"Workspace", "Container", "Volume", "Repo", "Commit", "Since", "Wrote", "Status"}
	if slices.ContainsFunc(leases, func(l api.Lease) bool { return l.Pod != "" }) { // in Kubernetes
		columns[1] = "Pod"
	}
	return show.List(w, format, columns, rows)
}

// runningRows returns a row for each workspace that has a lease, the oldest first.
func runningRows(leases []api.Lease, workspaces []api.Workspace, containers map[string]string, f show.Format) []psRow {
	var rows []psRow
	slices.SortStableFunc(workspaces, func(a, b api.Workspace) int { return a.MountedAt.Compare(b.MountedAt) })
	for _, w := range workspaces {
		if len(w.Leases) == 0 {
			continue
		}
		row := psRow{
			Workspace: w.ID, Container: containers[w.ID], Volume: shortName(f, w.Volume), Subject: short(f, w.Subject), Repo: short(f, w.Repo), Ref: w.Ref,
			Commit: shortID(f, w.Commit), Since: show.Ago(w.MountedAt), SinceAt: w.MountedAt, Wrote: "measuring", Status: "running", Clone: w.Clone,
			Bytes: w.Size.Bytes, Limit: w.Limit.Bytes,
		}
		if w.MeasuredAt != nil {
			row.Wrote = ofLimit(w.Size.Bytes, w.Limit.Bytes)
		}
		if n := len(w.Leases); n > 1 {
			row.Status = fmt.Sprintf("running, used %d times", n)
		}
		var pods []string
		for _, l := range leases {
			if l.Workspace == w.ID && l.Pod != "" {
				pods = append(pods, l.Pod)
			}
		}
		row.Pod = strings.Join(pods, ", ")
		rows = append(rows, row)
	}
	return rows
}

// workRows returns a row for each fetch or build.
func workRows(work []api.Work, f show.Format) []psRow {
	rows := make([]psRow, len(work))
	for i, w := range work {
		status := w.State
		switch {
		case w.Queued:
			status += ": waiting for its turn behind other work"
		case w.Progress != "":
			status += ": " + w.Progress
		}
		if f.Table() && w.For != "" {
			status += ", for " + w.For
		}
		rows[i] = psRow{
			Subject: short(f, w.Subject), Repo: short(f, w.URL), Since: show.Ago(w.Since), SinceAt: w.Since, Status: status, For: w.For,
			Clone: w.Clone, Objects: w.Objects, Total: w.Total,
		}
	}
	return rows
}
