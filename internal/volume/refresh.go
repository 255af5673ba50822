package volume

import "time"

// Refresh says how old the remote's last answer about a ref may be before a Mount asks again. The zero Refresh
// always asks; there is no field for that, so that no two values mean the same.
type Refresh struct {
	Never    bool          // only the first Mount fetches
	Interval time.Duration // not negative; 0 if Never
}

const allowedRefresh = "always, never, a duration such as 30s"

// parseRefresh reads always, never, or a duration in Go's syntax that is not negative; 0s means always.
func parseRefresh(text string) (Refresh, error) {
	switch text {
	case "":
		return Refresh{}, newOptionError(optRefresh, text, "empty value", allowedRefresh)
	case "always":
		return Refresh{}, nil
	case "never":
		return Refresh{Never: true}, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return Refresh{}, newOptionError(optRefresh, text, "is not a duration", allowedRefresh)
	}
	if d < 0 {
		return Refresh{}, newOptionError(optRefresh, text, "is negative", allowedRefresh)
	}
	return Refresh{Interval: d}, nil
}

// always reports whether every Mount asks the remote.
func (r Refresh) always() bool { return r == Refresh{} }

// String returns always, never or the duration, as Parse reads it.
func (r Refresh) String() string {
	switch {
	case r.Never:
		return "never"
	case r.always():
		return "always"
	}
	return r.Interval.String()
}
