package commands

import (
	"fmt"
	"time"

	"github.com/docker/cli/cli"
	"github.com/spf13/pflag"
)

// period has the flags --since and --until.
type period struct{ since, until string }

func (p *period) addTo(set *pflag.FlagSet) {
	set.StringVar(&p.since, "since", "", `Only those since a time, such as 2026-01-31, 2026-01-31T15:04:05 or 24h for "24 hours ago"`)
	set.StringVar(&p.until, "until", "", "Only those before a time")
}

// times returns the ends of the period. The zero time is no limit.
func (p period) times(now time.Time) (since, until time.Time, err error) {
	if since, err = parseTime("since", p.since, now); err == nil {
		until, err = parseTime("until", p.until, now)
	}
	return since, until, err
}

// parseTime reads the value of a flag: a time, in the zone of now unless it names one, or a duration
// before now.
func parseTime(flag, value string, now time.Time) (time.Time, error) {
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
