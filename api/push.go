package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Push is a request to push a branch of a workspace to the remote of its volume.
type Push struct {
	Branch string `json:"branch,omitempty"` // of the workspace; empty: the one that HEAD is at
	// RemoteBranch is the branch at the remote, without refs/heads/; empty: the same as Branch.
	RemoteBranch string `json:"remote_branch,omitempty"`
	// ForceWithLease is the full ID of the commit that the remote's branch must be at. Then it may
	// be overwritten.
	ForceWithLease string `json:"force_with_lease,omitempty"`
	// WithoutLFS pushes the commits without the checks about git-lfs. Otherwise two things are refused:
	// LFS pointers whose objects the plugin has not fetched, because objects are not pushed, and
	// contents of files that .gitattributes gives to git-lfs.
	WithoutLFS bool `json:"without_lfs,omitempty"`
}

// PushResult says which commits a push brought to the remote.
type PushResult struct {
	Workspace    string `json:"workspace"`
	Volume       string `json:"volume"`
	Subject      string `json:"subject"`
	Repo         string `json:"repo"`
	Branch       string `json:"branch"` // empty for a detached HEAD
	RemoteBranch string `json:"remote_branch"`
	OldCommit    string `json:"old_commit,omitempty"` // empty for a new branch
	NewCommit    string `json:"new_commit"`           // the same as OldCommit if there was nothing to push
	Commits      int64  `json:"commits"`              // that the volume did not begin with
	Objects      int64  `json:"objects"`              // the same, with files and directories
	Bytes        int64  `json:"bytes"`                // of the pack with the objects
	// Warnings are the findings of git fsck in these objects that are no reason to refuse them: known faults of old history.
	// Each names an object and the finding, in printable ASCII. There are at most 20, and one more that counts the others.
	Warnings []string `json:"warnings,omitempty"`
}

// Outbound is what leaves one workspace, which may be mounted, kept or a checkpoint.
type Outbound struct {
	c    *Client
	path string
}

// Outbound returns the access to what a workspace has committed.
func (c *Client) Outbound(workspace string) Outbound {
	return Outbound{c, "/v1/workspaces/" + segment(workspace)}
}

// Push pushes a branch, and calls progress, which may be nil. The error is an *Error that says why it
// is refused.
func (o Outbound) Push(ctx context.Context, p Push, progress func(Progress)) (PushResult, error) {
	return operate[PushResult](ctx, o.c, o.path+"/push", p, progress)
}

// Bundle selects what a bundle has.
type Bundle struct {
	Branch string // of the workspace; empty: all that have commits that the volume did not begin with
	// WithoutLFS makes the bundle without the checks about git-lfs, which are those of a push: a bundle
	// has no LFS objects.
	WithoutLFS bool
}

// WarningHeader is the header of a bundle's answer that has one of the Warnings of a PushResult.
const WarningHeader = "Helmdeck-Warning"

// Bundle writes a git bundle with the commits of a workspace to w, and returns its size and what PushResult has as
// Warnings. After an error w may have a part of it.
func (o Outbound) Bundle(ctx context.Context, b Bundle, w io.Writer) (bytes int64, warnings []string, err error) {
	path, query := o.path+"/bundle", make(url.Values)
	if b.Branch != "" {
		query.Set("branch", b.Branch)
	}
	if b.WithoutLFS {
		query.Set("without_lfs", "true")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	res, err := o.c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	if bytes, err = io.Copy(w, res.Body); err != nil {
		return bytes, nil, fmt.Errorf("GET %s: %w", path, err)
	}
	return bytes, res.Header.Values(WarningHeader), nil
}
