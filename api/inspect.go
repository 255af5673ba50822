package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

// WorkspaceStatus is what a workspace changed against the commit that it began with: everything
// that its containers did, committed or not. .git, the link to the cache and the warm directories
// are left out.
type WorkspaceStatus struct {
	ID     string `json:"id"`
	Phase  string `json:"phase"`
	Volume string `json:"volume"`
	Commit string `json:"commit"`        // that it began with
	Ref    string `json:"ref,omitempty"` // full name; empty for a commit
	// Branch and Head are where the container's HEAD is. The branch is empty if HEAD is detached,
	// and the commit if the branch has none. HeadError says why they are not known.
	Branch    string `json:"branch,omitempty"`
	Head      string `json:"head,omitempty"`
	HeadError string `json:"head_error,omitempty"`
	// Ahead is how many commits of Head no ref of the remote had when the workspace was made; nil
	// if it is not known, because of AheadError.
	Ahead      *int64 `json:"ahead"`
	AheadError string `json:"ahead_error,omitempty"`
	// The counts are of files and links. Ignored counts those that were added and that a
	// .gitignore names; Added does not.
	Added   int64             `json:"added"`
	Changed int64             `json:"changed"`
	Deleted int64             `json:"deleted"`
	Ignored int64             `json:"ignored"`
	Changes []WorkspaceChange `json:"changes"`  // by path
	LeftOut []LeftOut         `json:"left_out"` // by path
	// Truncated says why there is more than Changes has; empty if it has all.
	Truncated string `json:"truncated,omitempty"`
}

// WorkspaceChange is a file or a link that a workspace changed.
type WorkspaceChange struct {
	// Path is slash-separated. If it is not UTF-8, it is not exact, and RawPath has its bytes, in
	// base64.
	Path    string `json:"path"`
	RawPath string `json:"raw_path,omitempty"`
	Kind    string `json:"kind"` // added, changed or deleted
	Ignored bool   `json:"ignored,omitempty"`
	// Submodule is the path of the submodule that it is in.
	Submodule string `json:"submodule,omitempty"`
}

// LeftOut is a path of a workspace that is no change, such as that of a FIFO, or that could not be
// read.
type LeftOut struct {
	Path    string `json:"path"`
	RawPath string `json:"raw_path,omitempty"`
	Why     string `json:"why"`
}

// WorkspaceStatus returns what a workspace or discard changed, with the paths of ignored files if
// ignored is set.
func (c *Client) WorkspaceStatus(ctx context.Context, id string, ignored bool) (s WorkspaceStatus, err error) {
	err = c.call(ctx, http.MethodGet, workspacePath(id, "status", ignored), nil, &s)
	return s, err
}

// WorkspaceDiff writes what a workspace or discard changed as a patch for git apply, with ignored
// files if ignored is set. After an error, a part may have been written.
func (c *Client) WorkspaceDiff(ctx context.Context, id string, ignored bool, w io.Writer) error {
	return copyAnswer(ctx, c, workspacePath(id, "diff", ignored), w)
}

// WorkspaceChanges writes what a workspace or discard added and changed as a tar archive, with
// ignored files if ignored is set. Its first entry, .helmdeck-export/deleted, has the deleted
// paths, each ended by a zero. After an error, a part may have been written.
func (c *Client) WorkspaceChanges(ctx context.Context, id string, ignored bool, w io.Writer) error {
	return copyAnswer(ctx, c, workspacePath(id, "changes.tar", ignored), w)
}

func workspacePath(id, what string, ignored bool) string {
	path := "/v1/workspaces/" + segment(id) + "/" + what
	if ignored {
		path += "?ignored=true"
	}
	return path
}

// copyAnswer writes an answer of any size.
func copyAnswer(ctx context.Context, c *Client, path string, w io.Writer) error {
	res, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return fmt.Errorf("GET %s: the answer is not complete: %w", path, err)
	}
	return nil
}
