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
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newAudit(s *session.Session) *cobra.Command {
	var filter api.AuditFilter
	var format string
	var between period
	cmd := &cobra.Command{
		Use:   "audit [OPTIONS]",
		Short: "Show who changed what: mounts, evictions, credentials, settings",
		Long: `Show the audit log: each change and each attempt that failed, a line each, the oldest first.

The actor is the user who opened the admin socket, the engine, kubelet, or the plugin itself. Through a relay that user is
root, and the name that the command sends is shown as a claim.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) (err error) {
			print, err := printer(s.Out(), format, auditText)
			if err != nil {
				return err
			}
			if filter.Since, filter.Until, err = between.times(time.Now()); err != nil {
				return err
			}
			if err := c.Audit(ctx, filter, print); err != nil {
				return err
			}
			if filter.Follow {
				return errors.New("the plugin has ended the audit log: it stops, or restarts")
			}
			return nil
		}),
	}
	between.addTo(cmd.Flags())
	set := cmd.Flags()
	set.BoolVarP(&filter.Follow, "follow", "f", false, "Wait for new records, until Ctrl-C")
	set.StringVar(&filter.Subject, "subject", "", "Only those of a subject")
	set.StringVar(&filter.Volume, "volume", "", "Only those of a volume")
	set.StringVar(&filter.Action, "action", "", "Only those of an action, such as mount")
	set.StringVar(&format, "format", "", flags.InspectFormatHelp)
	completeFlag(s, cmd, "subject", subjectNames)
	completeFlag(s, cmd, "volume", volumeNames)
	return cmd
}

// auditText returns a record in one line.
func auditText(r api.AuditRecord) string {
	words := []string{r.Time.Local().Format(time.RFC3339), actorText(r.Actor), r.Action, r.Result}
	for _, field := range []struct{ name, value string }{
		{"pod", r.Pod}, {"subject", r.Subject}, {"volume", r.Volume}, {"repo", r.Repo}, {"ref", r.Ref}, {"commit", r.Commit}, {"clone", r.Clone},
		{"lease", r.Lease}, {"workspace", r.Workspace}, {"discard", r.Discard}, {"name", r.Name}, {"kind", r.Kind}, {"scope", r.Scope}, {"allow", r.Allow},
		{"id", r.ID}, {"reason", r.Reason}, {"volume_id", r.VolumeID}, {"request", r.Request}, {"error", r.Error}, {"text", r.Text},
	} {
		if field.value != "" {
			words = append(words, field.name+"="+quoted(field.value))
		}
	}
	if r.Bytes != 0 {
		words = append(words, "size="+show.Bytes(r.Bytes))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Changes)) {
		words = append(words, fmt.Sprintf("%s=%s->%s", quoted(name), quoted(r.Changes[name].From), quoted(r.Changes[name].To)))
	}
	if r.Lost > 0 {
		words = append(words, fmt.Sprintf("(%d records before this one are lost)", r.Lost))
	}
	return strings.Join(words, " ")
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
