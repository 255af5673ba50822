package volume

import "time"

// Refresh says how old the remote's last answer about a ref may be before a Mount asks again. The zero Refresh
// always asks; there is no field for that, so that no two values mean the same.
type Refresh struct {
	Never    bool          // only the first Mount fetches
	Interval time.Duration // not negative; 0 if Never
}

const (
	allowedRefresh = "always, never, a duration such as 30s"
	allowedStale   = "a duration such as 24h; 0s for none"
)

// parseRefresh reads always, never, or a duration in Go's syntax that is not negative; 0s means always.
func parseRefresh(text string) (Refresh, string) {
	switch text {
	case "always":
		return Refresh{}, ""
	case "never":
		return Refresh{Never: true}, ""
	}
	d, problem := parseDuration(text)
	return Refresh{Interval: d}, problem
}

func parseDuration(text string) (d time.Duration, problem string) {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, "is not a duration"
	case d < 0:
		return 0, "is negative"
	}
	return d, ""
}

// String returns always, never or the duration, as Parse reads it.
func (r Refresh) String() string {
	switch r {
	case Refresh{Never: true}:
		return "never"
	case Refresh{}:
		return "always"
	}
	return r.Interval.String()
}
