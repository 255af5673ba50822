package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is what the plugin evicted, found, or pushed.
type Event struct {
	// Seq is larger than that of all earlier events, also of an earlier process unless the
	// clock was put back.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Type is evicted, failed, deferred, warning, cleared, pushed or not-pushed, and lost in a
	// stream that the client reads too slowly.
	Type    string `json:"type"`
	Kind    string `json:"kind,omitempty"`   // of an Eviction
	Reason  string `json:"reason,omitempty"` // of an Eviction
	Subject string `json:"subject,omitempty"`
	Clone   string `json:"clone,omitempty"`
	ID      string `json:"id,omitempty"`
	Volume  string `json:"volume,omitempty"`
	Size    Size   `json:"size,omitzero"`
	Text    string `json:"text"`
}

// Events returns the last 1000 events since the plugin's start, oldest first.
func (c *Client) Events(ctx context.Context) ([]Event, error) {
	return list[Event](ctx, c, "events", make(url.Values))
}

// FollowEvents calls f with the events after the one with the number after that are still
// known (0: all), and then with each new one, until f fails, ctx ends, or the plugin ends
// the stream. The error is that of f, or of the connection.
func (c *Client) FollowEvents(ctx context.Context, after int64, f func(Event) error) error {
	path := "/v1/events?follow=true&after=" + strconv.FormatInt(after, 10)
	return c.lines(ctx, http.MethodGet, path, nil, func(line []byte) error {
		var l struct {
			Event
			ErrorAnswer
		}
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("GET %s: malformed line: %w", path, err)
		}
		if l.Error != "" {
			return &Error{Status: http.StatusOK, Message: l.Error}
		}
		return f(l.Event)
	})
}
