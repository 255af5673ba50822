package api

import (
	"context"
	"net/http"
	"time"
)

// Subject is an owner of clones, with all that it has.
type Subject struct {
	Name string `json:"name"`
	// Dir is the first part of the keys of its clones.
	Dir         string    `json:"dir"`
	Size        Size      `json:"size"` // the sum of the classes
	Classes     Classes   `json:"classes"`
	Used        time.Time `json:"used,omitzero"` // when a Create or a Mount last used a clone of it
	Clones      int       `json:"clones"`
	Volumes     int       `json:"volumes"`
	Workspaces  int       `json:"workspaces"` // without checkpoints
	Checkpoints int       `json:"checkpoints"`
	Leases      int       `json:"leases"` // holders, as MaxLeases counts them
	// WorkspaceLimits is the sum of the limits of its live workspaces, in bytes, without those that have none. A mount
	// whose limit would make it more than Limits.MaxSize is refused.
	WorkspaceLimits int64  `json:"workspace_limits"`
	Limits          Limits `json:"limits"`
}

// Limits are the limits in force for a subject. Zero means no limit.
type Limits struct {
	MaxSize   int64 `json:"max_size"` // bytes
	MaxLeases int   `json:"max_leases"`
	// Own reports which of them the subject has of its own, instead of the setting's.
	Own OwnLimits `json:"own"`
}

// OwnLimits are a subject's own limits, which replace the settings SUBJECT_MAX_SIZE and
// SUBJECT_MAX_LEASES. Nil means the setting, zero no limit.
type OwnLimits struct {
	MaxSize   *int64 `json:"max_size"` // bytes
	MaxLeases *int   `json:"max_leases"`
}

// Subjects lists the subjects that have a volume, a clone, a workspace or limits of their
// own, by name.
func (c *Client) Subjects(ctx context.Context, f Filter) ([]Subject, error) {
	return list[Subject](ctx, c, "subjects", f.query())
}

// Subject returns one subject. An unknown one is an *Error with the status 404.
func (c *Client) Subject(ctx context.Context, name string) (s Subject, err error) {
	err = c.call(ctx, http.MethodGet, subjectPath(name), nil, &s)
	return s, err
}

// SetLimits replaces the subject's own limits, also of one that does not exist yet. They
// survive restarts.
func (c *Client) SetLimits(ctx context.Context, subject string, l OwnLimits) error {
	return c.call(ctx, http.MethodPut, subjectPath(subject), l, nil)
}

// FreshSubject is FreshClone for all clones of a subject.
func (c *Client) FreshSubject(ctx context.Context, name string, force bool) (f Freed, err error) {
	err = c.call(ctx, http.MethodPost, subjectPath(name)+"/fresh", Fresh{force}, &f)
	return f, err
}

func subjectPath(name string) string { return "/v1/subjects/" + segment(name) }
