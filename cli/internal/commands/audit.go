package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command/formatter"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/period"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

type auditRow struct {
	show.Row
	Time    string `header:"TIME"`
	Actor   string `header:"ACTOR"`
	Action  string `header:"ACTION"`
	Result  string `header:"RESULT"`
	Subject string `header:"SUBJECT"`
	Volume  string `header:"VOLUME"`
	Detail  string `header:"DETAIL"`
}

var auditColumns = []string{"Time", "Actor", "Action", "Result", "Subject", "Volume", "Detail"}

func newAudit(s *session.Session) *cobra.Command {
	var filter api.AuditFilter
	var format show.Format
	var last tail
	var between period.Period
	cmd := &cobra.Command{
		Use:   "audit [OPTIONS]",
		Short: "Show who changed what: mounts, evictions, credentials, settings",
		Long: `Show the audit log: each change and each attempt that failed, a row each, the oldest first. With --format json it is a
record of the log on each line, and a template without the word table gets that record.

The actor is the user who opened the admin socket, the engine, kubelet, or the plugin itself. Through a relay that user is
root, and the name that the command sends is shown as a claim.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) (err error) {
			if filter.Tail, err = last.number(); err != nil {
				return err
			}
			now := time.Now()
			if filter.Since, filter.Until, err = between.Times(now); err != nil {
				return err
			}
			filter.Follow = filter.Follow && !period.HasEnded(filter.Until, now)
			if format.Table() && !filter.Follow {
				var rows []auditRow
				if err := c.Audit(ctx, filter, func(r api.AuditRecord) error {
					rows = append(rows, auditRowOf(r, format))
					return nil
				}); err != nil {
					return err
				}
				return show.List(s.Out(), format, auditColumns, rows)
			}
			template := format.Template
			switch {
			case template == formatter.TableFormatKey:
				template = "" // a row at a time, because the widths of the columns are not known
			case format.Table() && template != "":
				return cli.StatusError{StatusCode: 125, Status: "--follow prints a record at a time, and no table of them: leave the word table out of --format"}
			}
			print, err := show.Printer(s.Out(), template, func(r api.AuditRecord) string {
				row := auditRowOf(r, format)
				return fmt.Sprintf("%-25s   %-8s   %-16s   %-6s   %-16s   %-16s   %s", row.Time, row.Actor, row.Action, row.Result, row.Subject, row.Volume, row.Detail)
			})
			if err != nil {
				return err
			}
			if !filter.Follow {
				return c.Audit(ctx, filter, print)
			}
			return period.Follow(ctx, filter.Until, func(ctx context.Context) error {
				if err := c.Audit(ctx, filter, print); err != nil {
					return err
				}
				return errors.New("the plugin has ended the audit log: it stops, or restarts")
			})
		}),
	}
	last.addTo(cmd.Flags(), "records")
	between.AddTo(cmd.Flags())
	set := cmd.Flags()
	set.BoolVarP(&filter.Follow, "follow", "f", false, "Wait for new records, until Ctrl-C or the time of --until")
	set.StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	set.StringVar(&filter.Volume, "volume", "", "Only those of a volume")
	set.StringVar(&filter.Action, "action", "", "Only those of an action, such as mount")
	format.AddTo(set, "")
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "volume", volumeNames)
	return cmd
}

func auditRowOf(r api.AuditRecord, f show.Format) auditRow {
	return auditRow{
		Time: r.Time.Local().Format(time.RFC3339), Actor: actorText(r.Actor), Action: r.Action, Result: r.Result, Subject: short(f, r.Subject),
		Volume: shortName(f, r.Volume), Detail: auditDetail(r),
	}
}

// auditDetail returns what a record has besides the columns.
func auditDetail(r api.AuditRecord) string {
	var words []string
	for _, field := range []struct{ name, value string }{
		{"error", r.Error}, {"pod", r.Pod}, {"repo", r.Repo}, {"ref", r.Ref}, {"commit", r.Commit}, {"clone", r.Clone},
		{"lease", r.Lease}, {"workspace", r.Workspace}, {"checkpoint", r.Checkpoint}, {"name", r.Name}, {"kind", r.Kind}, {"scope", r.Scope}, {"allow", r.Allow},
		{"id", r.ID}, {"reason", r.Reason}, {"text", r.Text},
	} {
		if field.value != "" {
			words = append(words, field.name+"="+quoted(field.value))
		}
	}
	if r.Bytes != 0 {
		words = append(words, "size="+show.Bytes(r.Bytes))
	}
	if r.Took != 0 {
		words = append(words, "took="+duration(r.Took))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Phases)) {
		words = append(words, quoted(name)+"="+duration(r.Phases[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Waits)) {
		words = append(words, "waited="+quoted(name+" "+duration(r.Waits[name])))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Changes)) {
		words = append(words, fmt.Sprintf("%s=%s->%s", quoted(name), quoted(r.Changes[name].From), quoted(r.Changes[name].To)))
	}
	for _, field := range []struct{ name, value string }{{"volume_id", r.VolumeID}, {"request", r.Request}} {
		if field.value != "" {
			words = append(words, field.name+"="+quoted(field.value))
		}
	}
	if r.Lost > 0 {
		words = append(words, fmt.Sprintf("(%d records before this one are lost)", r.Lost))
	}
	return strings.Join(words, " ")
}

// duration returns a time for people, with three digits or so.
func duration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// quoted returns a value in quotes unless it is one plain word, so that no value looks like another field.
func quoted(value string) string {
	if plain.MatchString(value) {
		return value
	}
	return fmt.Sprintf("%q", value)
}

func actorText(a api.Actor) string {
	text := a.Kind
	if a.UID != nil {
		text = fmt.Sprintf("uid=%d", *a.UID)
	}
	if a.Claim != "" {
		text += " claim=" + quoted(a.Claim)
	}
	return text
}
