// Package period has the flags --since and --until of the commands that list records and log lines.
package period

import (
	"context"
	"fmt"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/pflag"
)

// Period has the flags --since and --until.
type Period struct{ since, until string }

// AddTo adds the flags to those of a command.
func (p *Period) AddTo(set *pflag.FlagSet) {
	set.StringVar(&p.since, "since", "", `Only those since a time, such as 2026-01-31, 2026-01-31T15:04:05 or 24h for "24 hours ago"`)
	set.StringVar(&p.until, "until", "", "Only those before a time")
}

// Times returns the ends of the period. The zero time is no limit.
func (p Period) Times(now time.Time) (since, until time.Time, err error) {
	if since, err = Parse("since", p.since, now); err == nil {
		until, err = Parse("until", p.until, now)
	}
	return since, until, err
}

// HasEnded reports whether a period has an end, and nothing that comes from now on is before it.
func HasEnded(until, now time.Time) bool { return !until.IsZero() && !until.After(now) }

// Follow calls f with a context that ends with the period. The end of the period is not an error.
func Follow(ctx context.Context, until time.Time, f func(context.Context) error) error {
	if until.IsZero() {
		return f(ctx)
	}
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	err := f(limited)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil
	}
	return err
}

// Parse reads the value of a flag: a time, in the zone of now unless it names one, or a duration
// before now.
func Parse(flag, value string, now time.Time) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(value); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, value, now.Location()); err == nil {
			return t, nil
		}
	}
	return time.Time{}, cli.StatusError{StatusCode: 125, Status: fmt.Sprintf("--%s: %q is neither a time, such as 2026-01-31T15:04:05, nor a duration, such as 24h", flag, value)}
}
