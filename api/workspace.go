package api

import (
	"context"
	"net/http"
	"time"
)

// Workspace is a writable tree of files, or a checkpoint.
type Workspace struct {
	ID string `json:"id"`
	// Phase is making, mounted, parked, ended or checkpoint.
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
	Reused  bool `json:"reused"`
	Stale   bool `json:"stale"`
	Shallow bool `json:"shallow"`
	// From has the IDs of the checkpoints that it began with, the newest first; missing if there were none.
	From []string `json:"from,omitempty"`
	// Size is that of what was written to it, as of MeasuredAt: nil until it is measured.
	Size       Size       `json:"size"`
	MeasuredAt *time.Time `json:"measured_at"`
	// Limit is the most that it may hold; zero bytes or inodes mean any number of them.
	Limit Size `json:"limit"`
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
	// Options are the options of the volume when it was made.
	Options map[string]string `json:"options"`
}

// Warmed is a directory that was carried over from an earlier workspace.
type Warmed struct {
	Path string `json:"path"`
	// Head identifies the state that the workspace may publish. Workspaces with equal ones share it.
	Head   string   `json:"head"`
	Layers []string `json:"layers"` // IDs, topmost first
	// Commit is that of the workspace that left this state, and BuiltAt when that ended. Label is what its container
	// wrote into the mark of publish=marked.
	Commit  string    `json:"commit,omitempty"`
	BuiltAt time.Time `json:"built_at,omitzero"`
	Label   string    `json:"label,omitempty"`
	// Why says why the layers are those of another head.
	Why string `json:"why,omitempty"`
	// LeftOut says why the path is not warm in this workspace.
	LeftOut string `json:"left_out,omitempty"`
}

// Workspaces lists the workspaces and checkpoints, by ID.
func (c *Client) Workspaces(ctx context.Context, f Filter) ([]Workspace, error) {
	return list[Workspace](ctx, c, "workspaces", f.query())
}

// Workspace returns one workspace. An unknown one is an *Error with the status 404.
func (c *Client) Workspace(ctx context.Context, id string) (w WorkspaceDetail, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/workspaces/"+segment(id), nil, &w)
	return w, err
}

// Checkpoint is what an ended workspace left. Volumes with the option from begin with it.
type Checkpoint struct {
	ID        string    `json:"id"`
	Volume    string    `json:"volume"`
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"`
	Clone     string    `json:"clone"`
	Commit    string    `json:"commit"`              // checked out when the workspace was made
	Ref       string    `json:"ref,omitempty"`       // full name; empty for a commit
	EndedAt   time.Time `json:"ended_at"`            // or was copied
	ExpiresAt time.Time `json:"expires_at,omitzero"` // missing for one with a name
	// Made is the cause of it: "end" if its workspace ended, "user" if a user had the workspace copied, and "rewind" if its
	// volume went back to another checkpoint.
	Made string `json:"made"`
	Note
	// From has the IDs of the checkpoints that its workspace began with, the newest first; missing if there were none.
	From []string `json:"from,omitempty"`
	// InUse is set while workspaces or other checkpoints stand on it. It can't be removed then.
	InUse bool `json:"in_use"`
	// Changed is the number of files outside of .git that were written or removed; nil
	// until they are counted.
	Changed *int64 `json:"changed"`
	// Bytes is its size on disk; nil until it is measured.
	Bytes      *int64     `json:"bytes"`
	MeasuredAt *time.Time `json:"measured_at"`
}

// Checkpoints lists the checkpoints, by ID.
func (c *Client) Checkpoints(ctx context.Context, f Filter) ([]Checkpoint, error) {
	return list[Checkpoint](ctx, c, "checkpoints", f.query())
}

// Checkpoint returns one checkpoint. An unknown one is an *Error with the status 404.
func (c *Client) Checkpoint(ctx context.Context, id string) (d Checkpoint, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/checkpoints/"+segment(id), nil, &d)
	return d, err
}

// RemoveCheckpoint deletes a checkpoint. The error is an *Error with the status 404 if there is
// none, and 409 if a workspace stands on it, or somebody looks at it.
func (c *Client) RemoveCheckpoint(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/checkpoints/"+segment(id), nil, nil)
}
