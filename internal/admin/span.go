package admin

import (
	"fmt"
	"strconv"
	"time"
)

// span is the part of a list in time that a request asks for.
type span struct {
	since, until time.Time // until is excluded
	tail         int       // the last ones of those that are there; 0: all
	follow       bool
}

// spanParameters are the parameters that spanOf reads.
var spanParameters = []string{"since", "until", "tail", "follow"}

// maxTail bounds the memory for the last records.
const maxTail = 10_000

// spanOf reads the parameters of a query. A duration is a time ago.
func spanOf(query map[string]string) (s span, err error) {
	for name, to := range map[string]*time.Time{"since": &s.since, "until": &s.until} {
		text := query[name]
		if text == "" {
			continue
		}
		if ago, err := time.ParseDuration(text); err == nil {
			*to = time.Now().Add(-ago)
		} else if *to, err = time.Parse(time.RFC3339, text); err != nil {
			return s, badRequest(fmt.Errorf("%s is %.40q: allowed is a time such as 2026-01-31T12:00:00Z, or a duration such as 24h", name, text))
		}
	}
	if text := query["tail"]; text != "" {
		if s.tail, err = strconv.Atoi(text); err != nil || s.tail < 1 || s.tail > maxTail {
			return s, badRequest(fmt.Errorf("tail is %.40q: allowed is a number from 1 to %d", text, maxTail))
		}
	}
	if text, ok := query["follow"]; ok {
		if s.follow, err = parseFlag("follow", text); err != nil {
			return s, err
		}
	}
	return s, nil
}

// has reports whether a time is in the span.
func (s span) has(at time.Time) bool {
	return !at.Before(s.since) && (s.until.IsZero() || at.Before(s.until))
}
