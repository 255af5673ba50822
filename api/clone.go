package api

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// Clone is all that is kept of one repository for one subject.
type Clone struct {
	Clone   string `json:"clone"` // its key
	Subject string `json:"subject"`
	Repo    string `json:"repo"` // the normalized URL
	// Used is when a Create or a Mount last used it.
	Used    time.Time `json:"used,omitzero"`
	Size    Size      `json:"size"` // the sum of the classes
	Classes Classes   `json:"classes"`
	// Held says why the clone can't be evicted; "free" if nothing is in the way.
	Held string `json:"held"`
	// Free is set if an eviction takes it and nobody notices, also one that is being fetched or built while
	// nobody waits for it.
	Free bool `json:"free"`
}

// CloneDetail is a clone with its parts.
type CloneDetail struct {
	Clone
	CreatedAt time.Time `json:"created_at"`
	// State is absent, ready, cloning, fetching or checking out, and Progress says how far.
	State     string    `json:"state"`
	Progress  string    `json:"progress,omitempty"`
	FetchedAt time.Time `json:"fetched_at,omitzero"`
	Stores    []Store   `json:"stores"`
	Layers    []Layer   `json:"layers"`
	Caches    []Cache   `json:"caches"`
	// Volumes are the names of the volumes, and Workspaces the IDs of the workspaces and
	// checkpoints that were made of it. Both are sorted.
	Volumes    []string `json:"volumes"`
	Workspaces []string `json:"workspaces"`
}

// Store is one of a clone's bare repositories.
type Store struct {
	History    string     `json:"history"` // which history it has: full, or how it is cut
	Format     string     `json:"format"`  // sha1 or sha256
	FetchedAt  time.Time  `json:"fetched_at"`
	Size       Size       `json:"size"`
	MeasuredAt *time.Time `json:"measured_at"` // null until it is measured
	Refs       []Ref      `json:"refs"`        // those that volumes name
}

// Ref is what a ref pointed to when it was last fetched.
type Ref struct {
	Name   string    `json:"name"`          // as the volume names it
	Ref    string    `json:"ref,omitempty"` // full name; empty for a commit
	Commit string    `json:"commit"`
	At     time.Time `json:"at"` // when the remote last confirmed it
}

// Layer is a directory that workspaces are made of.
type Layer struct {
	ID         string     `json:"id"`
	Kind       string     `json:"kind"` // tree or git layer
	CreatedAt  time.Time  `json:"created_at"`
	Used       time.Time  `json:"used"`
	Size       Size       `json:"size"`
	MeasuredAt *time.Time `json:"measured_at"`
	Held       bool       `json:"held"` // a workspace or a build stands on it
	// Need says what needs it; empty if nothing does.
	Need string `json:"need,omitempty"`
}

// Fresh is a request to start fresh.
type Fresh struct {
	// Force discards what is in the way.
	Force bool `json:"force"`
}

// Freed is the result of an eviction.
type Freed struct {
	Freed int64 `json:"freed"` // bytes on disk, which are deleted in the background
	// Clones are the keys of the clones that were evicted.
	Clones []string `json:"clones"`
	// Removed are the IDs of the kept workspaces and the checkpoints that went with them by
	// force.
	Removed []string `json:"removed,omitempty"`
}

// Clones lists the clones, by key.
func (c *Client) Clones(ctx context.Context, f Filter) ([]Clone, error) {
	return list[Clone](ctx, c, "clones", f.query())
}

// Clone returns one clone. An unknown one is an *Error with the status 404.
func (c *Client) Clone(ctx context.Context, key string) (d CloneDetail, err error) {
	err = c.call(ctx, http.MethodGet, clonePath(key), nil, &d)
	return d, err
}

// EvictClone evicts a clone: its next mount clones again. The error is an *Error with the
// status 404 if there is none, and 409 if a part of it is in use or it has checkpoints.
func (c *Client) EvictClone(ctx context.Context, key string) (f Freed, err error) {
	err = c.call(ctx, http.MethodDelete, clonePath(key), nil, &f)
	return f, err
}

// FreshClone evicts a clone together with what is in the way, if force is set. Without
// force, the *Error with the status 409 lists that.
func (c *Client) FreshClone(ctx context.Context, key string, force bool) (f Freed, err error) {
	err = c.call(ctx, http.MethodPost, clonePath(key)+"/fresh", Fresh{force}, &f)
	return f, err
}

func clonePath(key string) string {
	subject, hash, _ := strings.Cut(key, "/")
	return "/v1/clones/" + segment(subject) + "/" + segment(hash)
}
