package api

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

// LogLine is one line of the plugin's log. No text has control characters or a secret.
type LogLine struct {
	// Seq is that of the line before plus one. It begins anew when the plugin starts.
	Seq     int64             `json:"seq"`
	Time    time.Time         `json:"time"`
	Level   string            `json:"level"` // error, warning, info or debug
	Message string            `json:"message"`
	Fields  map[string]string `json:"fields"`
}

// LogFilter selects lines. Empty fields select all.
type LogFilter struct {
	Since, Until time.Time // Until is excluded
	Volume       string    // lines about the volume, or about its clone and no other volume
	Tail         int       // only the last ones of those that are there; 0: all
	Follow       bool      // wait for new lines
}

// Logs calls f with the lines of the log since the plugin's start that filter selects and that are
// still known, oldest first, until f fails, ctx ends, or the plugin ends the answer. The error is
// that of f, or of the connection.
func (c *Client) Logs(ctx context.Context, filter LogFilter, f func(LogLine) error) error {
	query := make(url.Values)
	setQuery(query, filter.Since, filter.Until, filter.Tail, filter.Follow)
	if filter.Volume != "" {
		query.Set("volume", filter.Volume)
	}
	return records(ctx, c, "/v1/logs?"+query.Encode(), f)
}

// setQuery sets the parameters of a list in time that are not zero.
func setQuery(query url.Values, since, until time.Time, tail int, follow bool) {
	for name, at := range map[string]time.Time{"since": since, "until": until} {
		if !at.IsZero() {
			query.Set(name, at.Format(time.RFC3339Nano))
		}
	}
	if tail > 0 {
		query.Set("tail", strconv.Itoa(tail))
	}
	if follow {
		query.Set("follow", strconv.FormatBool(true))
	}
}
