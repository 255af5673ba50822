package volume

import "time"

// Refresh says when a Mount asks the remote. The zero Refresh asks, but the answer that Create got also serves the run
// for which an engine has made the volume's name (IsGenerated). At most one field is set.
type Refresh struct {
	Always   bool          // every Mount asks, also that of such a run
	Never    bool          // only the first Mount fetches
	Interval time.Duration // how old the last answer about the ref may be before a Mount asks again; not negative
}

const (
	allowedRefresh = "auto, always, never, a duration such as 30s"
	allowedStale   = "a duration such as 24h; 0s for none"
)

// parseRefresh reads auto, always, never, or a duration in Go's syntax that is not negative; 0s means always.
func parseRefresh(text string) (Refresh, string) {
	switch text {
	case "auto":
		return Refresh{}, ""
	case "always":
		return Refresh{Always: true}, ""
	case "never":
		return Refresh{Never: true}, ""
	}
	d, problem := parseDuration(text)
	return Refresh{Always: d == 0 && problem == "", Interval: d}, problem
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

// String returns auto, always, never or the duration, as Parse reads it.
func (r Refresh) String() string {
	switch {
	case r == Refresh{}:
		return "auto"
	case r.Always:
		return "always"
	case r.Never:
		return "never"
	}
	return r.Interval.String()
}
