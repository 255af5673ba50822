package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Cache is the dependency cache of one uid and gid in a clone.
type Cache struct {
	Clone   string `json:"clone"` // key
	Subject string `json:"subject"`
	Repo    string `json:"repo"`
	UID     uint32 `json:"uid"`
	GID     uint32 `json:"gid"`
	Size    Size   `json:"size"`
	// Layers is the number of layers with published files, which are merged when they are too many.
	Layers int       `json:"layers"`
	Used   time.Time `json:"used,omitzero"` // by a workspace
	// PublishedAt is when files were last published; zero for never.
	PublishedAt time.Time `json:"published_at,omitzero"`
}

// CacheParts selects the files to drop from a clone's caches. The zero value selects all files.
type CacheParts struct {
	UID *uint32 // only caches of this uid
	// Path is a file or directory below the cache, such as npm/_cacache. Other files stay.
	Path string
}

// DroppedCache is the result of dropping a cache, or a part of it.
type DroppedCache struct {
	// Freed is deleted in the background, but what a workspace uses is deleted when that has ended.
	Freed Size `json:"freed"`
}

// PublishedCache is what a publication added to a cache.
type PublishedCache struct {
	Files int64 `json:"files"`
	Bytes int64 `json:"bytes"` // on the disk
	// Left says why some things were left out, which should have been published: the first few.
	Left []string `json:"left,omitempty"`
}

// Caches lists the dependency caches, by clone, uid and gid.
func (c *Client) Caches(ctx context.Context, f Filter) ([]Cache, error) {
	return list[Cache](ctx, c, "caches", f.query())
}

// DropCache removes published files from the caches of a clone. A workspace that uses a cache keeps the files that it
// began with, and may publish its own files later. The error is an *Error with the status 404 if there is no
// such clone or cache, or nothing at the path.
func (c *Client) DropCache(ctx context.Context, clone string, parts CacheParts) (d DroppedCache, err error) {
	query := make(url.Values)
	if parts.UID != nil {
		query.Set("uid", strconv.FormatUint(uint64(*parts.UID), 10))
	}
	if parts.Path != "" {
		query.Set("path", parts.Path)
	}
	path := clonePath(clone) + "/cache"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.call(ctx, http.MethodDelete, path, nil, &d)
	return d, err
}

// PublishCache publishes what a workspace has in its cache now, for the workspaces that begin later. The error
// is an *Error with the status 404 if there is no such workspace, and 409 if it publishes nothing, or is just
// being mounted or ended.
func (c *Client) PublishCache(ctx context.Context, workspace string) (p PublishedCache, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/workspaces/"+segment(workspace)+"/cache", nil, &p)
	return p, err
}
