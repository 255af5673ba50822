package commands

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/period"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type prunedRow struct {
	show.Row
	Kind    string `header:"KIND"`
	Subject string `header:"SUBJECT"`
	Clone   string `header:"CLONE"`
	ID      string `header:"ID"`
	Volume  string `header:"VOLUME"`
	Unused  string `header:"UNUSED FOR"`
	Size    string `header:"SIZE"`
	Bytes   int64  `header:"BYTES"`
}

func newPrune(s *session.Session) *cobra.Command {
	var format show.Format
	var want api.Prune
	var filters []string
	var force bool
	cmd := &cobra.Command{
		Use:        "prune [OPTIONS]",
		SuggestFor: []string{"gc", "clean", "cleanup", "sweep"},
		Short:      "Remove what nothing uses",
		Long: `Remove what nothing uses: clones that no container has and no volume names, and of the others the trees that nothing needs
any more. With --all also clones that only a volume names: its next mount clones again. A clone that was just made for a
first mount stays.

Checkpoints, the work of ended containers that is still kept, and the clones below them stay without --checkpoints.
Those with a name stay with it too, until docker repos checkpoints rm deletes them.

The plugin keeps its limits by itself: this is for room beyond them.`,
		Example: `docker repos prune --dry-run
docker repos prune --all --filter until=168h --filter subject=team-a`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			if err := setFilters(&want, filters); err != nil {
				return err
			}
			if !force && !want.DryRun {
				if err := ask.Confirm(ctx, s.Docker.In(), s.Out(), pruneQuestion(want), "--force"); err != nil {
					return err
				}
			}
			r, err := c.Prune(ctx, want)
			if err != nil {
				return err
			}
			if err := show.List(s.Out(), format, []string{"Kind", "Clone", "ID", "Unused", "Size"}, prunedRows(r.Evicted, format)); err != nil {
				return err
			}
			if len(r.Evicted)+r.Held+r.Failed == 0 {
				fmt.Fprintln(s.Err(), nothingToPrune(want))
			}
			if r.Held > 0 {
				fmt.Fprintf(s.Err(), "In use at the moment, and not removed: %d; docker repos ls says by what. Run this again later.\n", r.Held)
			}
			if r.Failed > 0 {
				err = fmt.Errorf("%d of %d could not be removed: docker repos logs says why", r.Failed, r.Failed+len(r.Evicted))
			}
			if format.Template == "" {
				done := "Total reclaimed space:"
				if want.DryRun {
					done = "Space that would be reclaimed:"
				}
				fmt.Fprintln(s.Out(), "\n"+done, show.Bytes(r.Frees.Bytes))
			}
			return err
		}),
	}
	format.AddTo(cmd.Flags(), "")
	cmd.Flags().BoolVar(&want.DryRun, "dry-run", false, "Only show what would be removed")
	cmd.Flags().BoolVarP(&want.All, "all", "a", false, "Remove clones too that a volume names and no container has")
	cmd.Flags().BoolVar(&want.Checkpoints, "checkpoints", false, "Remove checkpoints without a name too: nothing can begin with them then")
	cmd.Flags().BoolVarP(&force, "force", "f", false, "Do not prompt for confirmation")
	cmd.Flags().StringArrayVar(&filters, "filter", nil, `Only what fits: "until=24h" (not used since), "subject=NAME", "repo=URL"`)
	cmd.RegisterFlagCompletionFunc("filter", cobra.FixedCompletions([]string{"until=", "subject=", "repo="}, cobra.ShellCompDirectiveNoSpace|cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// setFilters reads the values of --filter.
func setFilters(p *api.Prune, filters []string) error {
	wrong := func(format string, args ...any) error {
		return cli.StatusError{StatusCode: 125, Status: "--filter: " + fmt.Sprintf(format, args...)}
	}
	for _, f := range filters {
		name, value, ok := strings.Cut(f, "=")
		if !ok || value == "" {
			return wrong("%q is not NAME=VALUE, such as until=24h", f)
		}
		to := map[string]*string{"subject": &p.Subject, "repo": &p.Repo}[name]
		switch {
		case name == "until":
			since, err := period.Parse("filter until", value, time.Now())
			if err != nil {
				return err
			}
			p.Unused = max(time.Since(since), 0)
		case to == nil:
			return wrong("%q is not a filter: allowed are until, subject and repo", name)
		case *to != "":
			return wrong("%s is given twice", name)
		default:
			*to = value
		}
	}
	return nil
}

// pruneQuestion returns the text of the prompt.
func pruneQuestion(p api.Prune) string {
	lines := []string{"WARNING! This will remove:"}
	if p.Checkpoints {
		lines = append(lines, "  - all checkpoints without a name: nothing can begin with them then")
	}
	clones := "  - all clones that no container has and no volume names"
	if p.All {
		clones = "  - all clones that no container has: the next mounts of their volumes clone again"
	}
	lines = append(lines, clones, "  - all trees that nothing needs any more")
	var only []string
	if p.Unused > 0 {
		only = append(only, "not used for "+p.Unused.Round(time.Second).String())
	}
	if p.Subject != "" {
		only = append(only, "of the subject "+quote(p.Subject))
	}
	if p.Repo != "" {
		only = append(only, "of "+show.Text(p.Repo))
	}
	if len(only) > 0 {
		lines = append(lines, "Of these only what is "+strings.Join(only, ", ")+".")
	}
	return strings.Join(lines, "\n")
}

// nothingToPrune says why nothing was removed, as far as the flags decide that.
func nothingToPrune(p api.Prune) string {
	text := "There is nothing to remove: docker repos ls says what holds each clone."
	if !p.All {
		text += " A free one that a volume names needs --all."
	}
	if !p.Checkpoints {
		text += " Checkpoints without a name need --checkpoints."
	}
	if p.Subject != "" || p.Repo != "" || p.Unused > 0 {
		text += " Only what fits the filters counts."
	}
	return text
}

func prunedRows(evicted []api.Eviction, f show.Format) []prunedRow {
	rows := make([]prunedRow, len(evicted))
	for i, e := range evicted {
		rows[i] = prunedRow{
			Kind: e.Kind, Subject: short(f, e.Subject), Clone: e.Clone, ID: shortID(f, e.ID), Volume: shortName(f, e.Volume), Unused: show.For(e.Unused),
			Size: show.Bytes(e.Size.Bytes), Bytes: e.Size.Bytes,
		}
	}
	return rows
}
