package commands

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/docker/cli/cli"
	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/ask"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type subjectRow struct {
	show.Row
	Name        string `header:"SUBJECT"`
	Clones      int    `header:"CLONES"`
	Volumes     int    `header:"VOLUMES"`
	Leases      int    `header:"LEASES"`
	Checkpoints int    `header:"CHECKPOINTS"`
	Size        string `header:"SIZE"`
	MaxSize     string `header:"MAX SIZE"`
	MaxLeases   string `header:"MAX LEASES"`
	Used        string `header:"USED"`
	Bytes       int64  `header:"BYTES"`
}

func newSubjects(s *session.Session) *cobra.Command {
	list := newSubjectsLs(s)
	cmd := group("subjects", "Show and limit subjects: the owners of clones", list, newSubjectsSet(s), newSubjectsFresh(s))
	return cmd
}

func newSubjectsLs(s *session.Session) *cobra.Command {
	var format show.Format
	cmd := &cobra.Command{
		Use:     "ls [OPTIONS]",
		Aliases: []string{"list"},
		Short:   "List the subjects with what they have and their limits",
		Args:    cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			subjects, err := c.Subjects(ctx, api.Filter{})
			if err != nil {
				return err
			}
			rows := make([]subjectRow, len(subjects))
			for i, u := range subjects {
				rows[i] = subjectRow{
					Name: short(format, u.Name), Clones: u.Clones, Volumes: u.Volumes, Leases: u.Leases, Checkpoints: u.Checkpoints,
					Size: show.Bytes(u.Size.Bytes), Used: show.Ago(u.Used), Bytes: u.Size.Bytes,
					MaxSize:   own(show.Limit(u.Limits.MaxSize), u.Limits.Own.MaxSize != nil),
					MaxLeases: own(count(u.Limits.MaxLeases), u.Limits.Own.MaxLeases != nil),
				}
			}
			columns := []string{"Name", "Clones", "Volumes", "Leases", "Checkpoints", "Size", "MaxSize", "MaxLeases", "Used"}
			return show.List(s.Out(), format, columns, rows)
		}),
	}
	format.AddTo(cmd.Flags(), "names")
	return cmd
}

// own marks a limit that is not that of the setting.
func own(limit string, is bool) string {
	if is {
		return limit + " (own)"
	}
	return limit
}

func count(limit int) string {
	if limit == 0 {
		return "none"
	}
	return strconv.Itoa(limit)
}

func newSubjectsSet(s *session.Session) *cobra.Command {
	var size, leases string
	cmd := &cobra.Command{
		Use:   "set [OPTIONS] SUBJECT",
		Short: "Give a subject limits of its own",
		Long: `Give a subject limits of its own, instead of those of the settings SUBJECT_MAX_SIZE and SUBJECT_MAX_LEASES. They
survive restarts. A limit that no flag names stays as it is.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			if size == "" && leases == "" {
				return cli.StatusError{StatusCode: 125, Status: "--max-size or --max-leases is missing"}
			}
			subject, err := c.Subject(ctx, args[0])
			unknown := isStatus(err, http.StatusNotFound)
			if err != nil && !unknown {
				return err
			}
			limits := subject.Limits.Own
			if err := setLimit(&limits.MaxSize, "max-size", size, units.RAMInBytes); err != nil {
				return err
			}
			if err := setLimit(&limits.MaxLeases, "max-leases", leases, strconv.Atoi); err != nil {
				return err
			}
			if unknown && limits == (api.OwnLimits{}) {
				return err // it has none to remove
			}
			if err := c.SetLimits(ctx, args[0], limits); err != nil {
				return err
			}
			_, err = fmt.Fprintln(s.Out(), args[0])
			return err
		}),
		ValidArgsFunction: completed(s, 1, subjectNames),
	}
	cmd.Flags().StringVar(&size, "max-size", "", `What its clones may take, such as 5GiB; "none": no limit; "default": that of the setting`)
	cmd.Flags().StringVar(&leases, "max-leases", "", `How many mounts it may have at a time; "none": no limit; "default": that of the setting`)
	return cmd
}

// setLimit sets a limit to the value of a flag, unless that is empty.
func setLimit[N int | int64](limit **N, flag, value string, parse func(string) (N, error)) error {
	switch value {
	case "":
	case "default":
		*limit = nil
	case "none":
		*limit = new(N)
	default:
		n, err := parse(value)
		if err != nil || n <= 0 {
			return cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("--%s: %q is not a positive number, none or default", flag, value)}
		}
		*limit = &n
	}
	return nil
}

func newSubjectsFresh(s *session.Session) *cobra.Command {
	var f freeing
	cmd := &cobra.Command{
		Use:   "fresh [OPTIONS] SUBJECT",
		Short: "Start fresh: evict all clones of a subject",
		Long: `Start fresh: evict all clones of a subject in one step. Their volumes stay, and clone again.

The plugin refuses if something is in the way, and lists it.`,
		Args: cli.ExactArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) error {
			if !f.force {
				if err := ask.Confirm(ctx, s.Docker.In(), s.Out(), f.question("all clones of the subject "+args[0]), "--force"); err != nil {
					return err
				}
			}
			freed, err := c.FreshSubject(ctx, args[0], f.discard)
			if err != nil {
				return err
			}
			for _, key := range freed.Clones {
				fmt.Fprintln(s.Out(), key)
			}
			_, err = fmt.Fprintln(s.Out(), "Total reclaimed space:", show.Bytes(freed.Freed))
			return err
		}),
		ValidArgsFunction: completed(s, 1, subjectNames),
	}
	f.addTo(cmd)
	return cmd
}
