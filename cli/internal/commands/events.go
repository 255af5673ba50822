package commands

import (
	"context"
	"errors"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/period"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newEvents(s *session.Session) *cobra.Command {
	var follow bool
	var subject, format string
	var between period.Period
	cmd := &cobra.Command{
		Use:   "events [OPTIONS]",
		Short: "Show evictions, pushes, checkpoints, and limits that could not be kept",
		Long: `Show what the plugin evicted, and why, what was pushed, what users did with checkpoints, and which limits could not be kept:
the last 1000 events, a line each, the oldest first. They survive a restart of the plugin, which is an event too: started.

A checkpoint that a user or a rewind made is an event, and so are its name, its removal and its eviction, a volume that goes back
to it, and a workspace that begins with it. One that the end of a workspace made is none, because there may be thousands of
those: docker repos checkpoints ls lists it.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			print, err := show.Printer(s.Out(), format, eventText)
			if err != nil {
				return err
			}
			now := time.Now()
			since, until, err := between.Times(now)
			if err != nil {
				return err
			}
			chosen := func(e api.Event) error {
				if subject != "" && e.Subject != subject || e.Time.Before(since) || !until.IsZero() && !e.Time.Before(until) {
					return nil
				}
				return print(e)
			}
			if follow && !period.HasEnded(until, now) {
				return period.Follow(ctx, until, func(ctx context.Context) error {
					if err := c.FollowEvents(ctx, 0, chosen); err != nil {
						return err
					}
					return errors.New("the plugin has ended the events: it stops, or restarts")
				})
			}
			events, err := c.Events(ctx)
			if err != nil {
				return err
			}
			for _, e := range events {
				if err := chosen(e); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Wait for new events, until Ctrl-C or the time of --until")
	between.AddTo(cmd.Flags())
	cmd.Flags().StringVar(&subject, "subject", "", "Only those of a subject")
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	completeFlag(s, cmd, "subject", subjectNames)
	return cmd
}

func eventText(e api.Event) string {
	text := e.Time.Local().Format(time.RFC3339) + " " + e.Type
	for _, word := range []string{e.Kind, e.Clone, e.ID, e.Volume} {
		if word != "" {
			text += " " + word
		}
	}
	if e.Size.Bytes != 0 {
		text += " " + show.Bytes(e.Size.Bytes)
	}
	return text + ": " + e.Text
}
