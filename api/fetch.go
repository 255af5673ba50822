package api

import (
	"context"
	"net/http"
	"time"
)

// Warm is a request to fetch and build ahead of time what a Mount needs.
type Warm struct {
	Repo    string            `json:"repo"`              // a URL
	Ref     string            `json:"ref,omitempty"`     // as a volume names it; empty: the default branch
	Subject string            `json:"subject,omitempty"` // empty: that of a volume without one
	Options map[string]string `json:"options,omitempty"` // others of a volume
}

// WarmResult is what a warm repository has.
type WarmResult struct {
	Clone   string `json:"clone"`
	Subject string `json:"subject"`
	Repo    string `json:"repo"`
	Ref     string `json:"ref"`
	Commit  string `json:"commit"`
	Size    Size   `json:"size"` // of the clone, as far as it is measured
	// States has the warm paths of the options, sorted by path.
	States []WarmState `json:"states"`
}

// WarmState is what a mount finds at a warm path.
type WarmState struct {
	Path string `json:"path"`
	Head string `json:"head"` // as in Warmed: the mount may publish this state
	// Exact is set if this state exists, and the mount begins with it.
	Exact bool `json:"exact"`
	// LeftOut is set if the path can't be warm at this commit, for the reason Why: nothing that a workspace leaves there
	// is published.
	LeftOut bool `json:"left_out,omitempty"`
	// Commit, BuiltAt and Label are those of the state that the mount begins with, as in Warmed.
	Commit  string    `json:"commit,omitempty"`
	BuiltAt time.Time `json:"built_at,omitzero"`
	Label   string    `json:"label,omitempty"` // a container wrote it
	// Why says why the mount begins with another state, or with none. It is empty if Exact is set.
	Why string `json:"why,omitempty"`
}

// Refresh is a request to ask the remote, and to fetch and build what has changed.
type Refresh struct {
	Repo string `json:"repo"` // a URL
	// Ref is a ref as a volume names it, or its full name; empty: all that were mounted in
	// the last day.
	Ref     string `json:"ref,omitempty"`
	Subject string `json:"subject,omitempty"` // empty: all subjects
}

// RefreshResult is the result of a refresh of one ref: a commit or an error.
type RefreshResult struct {
	Clone   string `json:"clone"`
	Subject string `json:"subject"`
	Ref     string `json:"ref"` // as the volume names it
	Commit  string `json:"commit,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Warm fetches and builds what a Mount of a volume with these options needs, and calls
// progress, which may be nil, meanwhile.
func (c *Client) Warm(ctx context.Context, w Warm, progress func(Progress)) (WarmResult, error) {
	return operate[WarmResult](ctx, c, "/v1/warm", w, progress)
}

// Refresh asks, fetches and builds what was mounted of a repository in the last day. The
// error is an *Error with the status 404 if there is no clone of it.
func (c *Client) Refresh(ctx context.Context, r Refresh) ([]RefreshResult, error) {
	var answer struct{ Refreshed []RefreshResult }
	err := c.call(ctx, http.MethodPost, "/v1/refresh", r, &answer)
	return answer.Refreshed, err
}
