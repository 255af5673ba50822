package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Event is one thing that happened: an eviction, a fault that the plugin found, a push, or a step of a checkpoint.
type Event struct {
	// Seq is larger than that of all earlier events.
	Seq  int64     `json:"seq"`
	Time time.Time `json:"time"`
	// Type is evicted, failed, deferred, warning, cleared, pushed, not-pushed or started (the events
	// before are those of an earlier process), and lost in a stream that the client reads too
	// slowly. Of a checkpoint, the ID, it is checkpoint (one was made or named), begun (a new workspace
	// of the volume begins with it), rewound (the volume went back to it) or removed.
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

// Events returns the last 1000 events, oldest first, also those before the plugin's start.
func (c *Client) Events(ctx context.Context) ([]Event, error) {
	return list[Event](ctx, c, "events", make(url.Values))
}

// FollowEvents calls f with the events after the one with the number after that are still
// known (0: all), and then with each new one, until f fails, ctx ends, or the plugin ends
// the stream. The error is that of f, or of the connection.
func (c *Client) FollowEvents(ctx context.Context, after int64, f func(Event) error) error {
	path := "/v1/events?follow=true&after=" + strconv.FormatInt(after, 10)
	type line struct {
		Event
		ErrorAnswer
	}
	return records(ctx, c, path, func(l line) error {
		if l.Error != "" {
			return &Error{Status: http.StatusOK, Message: l.Error}
		}
		return f(l.Event)
	})
}
