package api

import (
	"context"
	"net/http"
	"time"
)

// Lease is a holder of a volume's workspace: for Docker, one use of the volume by one
// container.
type Lease struct {
	// ID is unique: the volume's name, a slash, and the holder.
	ID     string `json:"id"`
	Volume string `json:"volume"`
	// Holder is the ID that the engine sent with Mount, unique in the volume.
	Holder    string    `json:"holder"`
	Mounts    int       `json:"mounts"` // that the engine has not unmounted
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"`
	Clone     string    `json:"clone"`
	Workspace string    `json:"workspace"` // ID
	Commit    string    `json:"commit"`
	MountedAt time.Time `json:"mounted_at"` // of the workspace
	// Pod is the pod of Kubernetes that has it, as namespace/name; empty for a container of
	// an engine.
	Pod string `json:"pod,omitempty"`
}

// Leases lists the leases, by ID.
func (c *Client) Leases(ctx context.Context, f Filter) ([]Lease, error) {
	return list[Lease](ctx, c, "leases", f.query())
}

// ReleaseLease releases a lease whose container is gone. The error is an *Error with the
// status 404 if there is none, and 409 while the kernel says that a process or a container
// still uses the workspace.
func (c *Client) ReleaseLease(ctx context.Context, volume, holder string) error {
	return c.call(ctx, http.MethodDelete, "/v1/leases/"+segment(volume)+"/"+segment(holder), nil, nil)
}
