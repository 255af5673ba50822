package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/flags"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/cli/internal/period"
	"github.com/helmdeck/repos/cli/internal/session"
	"github.com/helmdeck/repos/cli/internal/show"
)

func newLogs(s *session.Session) *cobra.Command {
	var filter api.LogFilter
	var format string
	var last tail
	var between period.Period
	cmd := &cobra.Command{
		Use:        "logs [OPTIONS] [VOLUME]",
		SuggestFor: []string{"log"},
		Short:      "Show the plugin's log, or what it says about a volume",
		Long: `Show the last lines of the plugin's log since its start, at most 5000, the oldest first. With a volume, only those about it,
and those about its clone that name no other volume.

Older lines are in the log of what runs the plugin: journalctl -u docker for an engine, journalctl -u helmdeck-repos for
Podman, kubectl logs for Kubernetes.`,
		Args: cli.RequiresMaxArgs(1),
		RunE: calling(s, func(ctx context.Context, c *api.Client, args []string) (err error) {
			print, err := show.Printer(s.Out(), format, logText)
			if err != nil {
				return err
			}
			if filter.Tail, err = last.number(); err != nil {
				return err
			}
			now := time.Now()
			if filter.Since, filter.Until, err = between.Times(now); err != nil {
				return err
			}
			filter.Follow = filter.Follow && !period.HasEnded(filter.Until, now)
			if len(args) > 0 {
				filter.Volume = args[0]
			}
			if !filter.Follow {
				return c.Logs(ctx, filter, print)
			}
			return period.Follow(ctx, filter.Until, func(ctx context.Context) error {
				if err := c.Logs(ctx, filter, print); err != nil || !filter.Until.IsZero() {
					return err // at the end of the period the plugin ends its answer
				}
				return errors.New("the plugin has ended its log: it stops, or restarts")
			})
		}),
		ValidArgsFunction: completed(s, 1, volumeNames),
	}
	cmd.Flags().BoolVarP(&filter.Follow, "follow", "f", false, "Wait for new lines, until Ctrl-C or the time of --until")
	last.addTo(cmd.Flags(), "lines")
	between.AddTo(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "", flags.InspectFormatHelp)
	return cmd
}

// logText returns a line of the log as text, its fields by name.
func logText(l api.LogLine) string {
	words := []string{l.Time.Local().Format(time.RFC3339), l.Level, l.Message}
	for _, name := range slices.Sorted(maps.Keys(l.Fields)) {
		words = append(words, quoted(name)+"="+quoted(l.Fields[name]))
	}
	return strings.Join(words, " ")
}

// tail is the value of the flag --tail, as docker logs has it.
type tail string

func (t *tail) addTo(set *pflag.FlagSet, of string) {
	set.StringVarP((*string)(t), "tail", "n", "all", "Only this many "+of+" from the end")
}

// number returns how many are wanted; 0 for all.
func (t tail) number() (int, error) {
	if t == "all" {
		return 0, nil
	}
	n, err := strconv.Atoi(string(t))
	if err != nil || n < 1 {
		return 0, cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("--tail: %q is neither a number above 0 nor all", string(t))}
	}
	return n, nil
}
