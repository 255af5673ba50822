package api

import (
	"context"
	"net/http"
	"time"
)

// Volume is a named handle: repository, ref and options.
type Volume struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"`
	Ref       string    `json:"ref"` // as the volume names it
	Clone     string    `json:"clone"`
	Mode      string    `json:"mode"` // private, shared or keep
	Leases    int       `json:"leases"`
	// Options are its options, with the defaults when it was made.
	Options map[string]string `json:"options"`
}

// VolumeDetail is a volume with its state.
type VolumeDetail struct {
	Volume
	// Mountpoint is where the newest workspace is mounted, empty without one.
	Mountpoint string `json:"mountpoint,omitempty"`
	// Status is that of docker volume inspect, without what only Docker has.
	Status map[string]any `json:"status"`
}

// Volumes lists the volumes, by name.
func (c *Client) Volumes(ctx context.Context, f Filter) ([]Volume, error) {
	return list[Volume](ctx, c, "volumes", f.query())
}

// Volume returns one volume. An unknown one is an *Error with the status 404.
func (c *Client) Volume(ctx context.Context, name string) (v VolumeDetail, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/volumes/"+segment(name), nil, &v)
	return v, err
}
