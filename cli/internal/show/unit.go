package show

import (
	"time"

	"github.com/docker/go-units"
)

// Bytes formats a size with the units of the plugin's settings, such as 1.5GiB.
func Bytes(n int64) string { return units.BytesSize(float64(n)) }

// Limit is Bytes for a limit: zero is none.
func Limit(n int64) string {
	if n == 0 {
		return "none"
	}
	return Bytes(n)
}

// Ago formats a time that has passed. The zero time is never.
func Ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return units.HumanDuration(max(0, time.Since(t))) + " ago"
}

// For formats a duration.
func For(d time.Duration) string { return units.HumanDuration(max(0, d)) }

// In formats a time to come.
func In(t time.Time) string {
	left := time.Until(t)
	if left <= 0 {
		return "now"
	}
	return "in " + units.HumanDuration(left)
}
