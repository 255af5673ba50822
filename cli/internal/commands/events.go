package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/docker/cli/templates"
	"github.com/spf13/cobra"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newEvents(s *session.Session) *cobra.Command {
	var follow bool
	var subject, format string
	var between period
	cmd := &cobra.Command{
		Use:   "events [OPTIONS]",
		Short: "Show evictions, pushes, and limits that could not be kept",
		Long: `Show what the plugin evicted since its start, and why, what was pushed, and which limits it could not keep: at most the last 1000
events, a line each, the oldest first.`,
		Args: cli.NoArgs,
		RunE: calling(s, func(ctx context.Context, c *api.Client, _ []string) error {
			print, err := printer(s.Out(), format, eventText)
			if err != nil {
				return err
			}
			since, until, err := between.times(time.Now())
			if err != nil {
				return err
			}
			chosen := func(e api.Event) error {
				if subject != "" && e.Subject != subject || e.Time.Before(since) || !until.IsZero() && !e.Time.Before(until) {
					return nil
				}
				return print(e)
			}
			if follow {
				if err := c.FollowEvents(ctx, 0, chosen); err != nil {
					return err
				}
				return errors.New("the plugin has ended the events: it stops, or restarts")
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
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "Wait for new events, until Ctrl-C")
	between.addTo(cmd.Flags())
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

// printer returns a function that writes a record as a line: as text, as JSON, or with a template.
func printer[T any](w io.Writer, format string, text func(T) string) (func(T) error, error) {
	switch format {
	case "":
		return func(record T) error {
			_, err := fmt.Fprintln(w, show.Text(text(record)))
			return err
		}, nil
	case "json":
		return func(record T) error {
			line, err := json.Marshal(record)
			if err == nil {
				_, err = fmt.Fprintln(w, string(line))
			}
			return err
		}, nil
	}
	t, err := templates.Parse(format)
	if err != nil {
		return nil, cli.StatusError{StatusCode: 64, Status: "template parsing error: " + err.Error()}
	}
	return func(record T) error {
		var line bytes.Buffer
		if err := t.Execute(&line, record); err != nil {
			return fmt.Errorf("template parsing error: %w", err)
		}
		line.WriteByte('\n')
		_, err := line.WriteTo(w)
		return err
	}, nil
}

// printOne writes one record as JSON or with a template.
func printOne[T any](w io.Writer, format string, record T) error {
	print, err := printer[T](w, format, nil)
	if err != nil {
		return err
	}
	return print(record)
}
