package api

import (
	"context"
	"net/http"
	"time"
)

// Workspace is a writable tree of files, or the discard that is left of one.
type Workspace struct {
	ID string `json:"id"`
	// Phase is making, mounted, parked, ended or discarded.
	Phase   string   `json:"phase"`
	Mode    string   `json:"mode"` // private, shared or keep
	Volume  string   `json:"volume"`
	Subject string   `json:"subject"`
	Repo    string   `json:"repo"`
	Clone   string   `json:"clone"`
	Ref     string   `json:"ref,omitempty"` // full name; empty for a commit
	Commit  string   `json:"commit"`        // checked out when it was made
	Leases  []string `json:"leases"`        // holders
	UID     uint32   `json:"uid"`
	GID     uint32   `json:"gid"`
	// ForeignUID is a uid other than UID that wrote files, which git calls dubious ownership. It is
	// missing if no such file was found, in the last half minute or longer.
	ForeignUID *uint32    `json:"foreign_uid,omitempty"`
	MountedAt  time.Time  `json:"mounted_at"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
	// Reused is set if the clone served a mount before, Stale if the remote did not answer and the
	// ref may have moved, and Shallow if it has the newest commits alone.
	Reused   bool `json:"reused"`
	Stale    bool `json:"stale"`
	Shallow  bool `json:"shallow"`
	Restored bool `json:"restored"` // from a discard
	// Size is that of what was written to it, as of MeasuredAt: nil until it is measured.
	Size       Size       `json:"size"`
	MeasuredAt *time.Time `json:"measured_at"`
}

// WorkspaceDetail is a workspace with what it is made of.
type WorkspaceDetail struct {
	Workspace
	Mountpoint string `json:"mountpoint,omitempty"` // empty if it is not mounted
	// Tree are the IDs of the layers of its files, topmost first, and GitLayer that of .git.
	Tree     []string `json:"tree"`
	GitLayer string   `json:"git_layer"`
	Warm     []Warmed `json:"warm"`
	// Lost are holders whose leases were lost: their containers may still use it.
	Lost []string `json:"lost,omitempty"`
	// NoCache says why it was mounted again without the cache that its volume asks for.
	NoCache string `json:"no_cache,omitempty"`
	// Options are the options of the volume when it was made or restored.
	Options map[string]string `json:"options"`
}

// Warmed is a directory that was carried over from an earlier workspace.
type Warmed struct {
	Path   string   `json:"path"`
	Layers []string `json:"layers"` // IDs, topmost first
	// LeftOut says why the path is not warm in this workspace.
	LeftOut  string `json:"left_out,omitempty"`
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Workspaces lists the workspaces and discards, by ID.
func (c *Client) Workspaces(ctx context.Context, f Filter) ([]Workspace, error) {
	return list[Workspace](ctx, c, "workspaces", f.query())
}

// Workspace returns one workspace. An unknown one is an *Error with the status 404.
func (c *Client) Workspace(ctx context.Context, id string) (w WorkspaceDetail, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/workspaces/"+segment(id), nil, &w)
	return w, err
}

// Discard is what an ended workspace left. It can be restored.
type Discard struct {
	ID        string    `json:"id"`
	Volume    string    `json:"volume"`
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"`
	Clone     string    `json:"clone"`
	Commit    string    `json:"commit"`        // checked out when the workspace was made
	Ref       string    `json:"ref,omitempty"` // full name; empty for a commit
	EndedAt   time.Time `json:"ended_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Changed is the number of files outside of .git that were written or removed; nil
	// until they are counted.
	Changed *int64 `json:"changed"`
	// Bytes is its size on disk; nil until it is measured.
	Bytes      *int64     `json:"bytes"`
	MeasuredAt *time.Time `json:"measured_at"`
}

// Discards lists the discards, by ID.
func (c *Client) Discards(ctx context.Context, f Filter) ([]Discard, error) {
	return list[Discard](ctx, c, "discards", f.query())
}

// Discard returns one discard. An unknown one is an *Error with the status 404.
func (c *Client) Discard(ctx context.Context, id string) (d Discard, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/discards/"+segment(id), nil, &d)
	return d, err
}

// RemoveDiscard deletes a discard. The error is an *Error with the status 404 if there is
// none, and 409 if it is being restored or was.
func (c *Client) RemoveDiscard(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/discards/"+segment(id), nil, nil)
}
