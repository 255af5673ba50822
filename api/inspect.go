package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// WorkspaceStatus is what a workspace changed against the commit that it began with: everything
// that its containers did, committed or not. .git, the link to the cache and the warm directories
// are left out.
type WorkspaceStatus struct {
	ID string `json:"id"`
	// From is the workspace or checkpoint that the changes are against, if it is not the commit.
	From   string `json:"from,omitempty"`
	Phase  string `json:"phase"`
	Volume string `json:"volume"`
	Commit string `json:"commit"`        // that it began with; empty if the repository was empty
	Ref    string `json:"ref,omitempty"` // full name; empty for a commit
	// Branch and Head are where the container's HEAD is. The branch is empty if HEAD is detached,
	// and the commit if the branch has none. HeadError says why they are not known.
	Branch    string `json:"branch,omitempty"`
	Head      string `json:"head,omitempty"`
	HeadError string `json:"head_error,omitempty"`
	// Ahead is how many commits of Head the remote lacked when the workspace was made and lacks now: on the branches that it had
	// then, on that of the volume, and on the one with the name of Branch. It is nil if that is not known, because of AheadError.
	Ahead      *int64 `json:"ahead"`
	AheadError string `json:"ahead_error,omitempty"`
	// AheadAsOf is when the remote last said what it has, if it does not say so now.
	AheadAsOf time.Time `json:"ahead_as_of,omitzero"`
	// Worktrees are those with commits that the remote lacks in the same way. WorktreesError
	// says why there may be more, or why it is not known how many commits they have.
	Worktrees      []Worktree `json:"worktrees"` // by name
	WorktreesError string     `json:"worktrees_error,omitempty"`
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

// Worktree is a worktree in a workspace (git worktree add).
type Worktree struct {
	Name   string `json:"name"`             // as git has it in .git/worktrees
	Branch string `json:"branch,omitempty"` // empty if HEAD is detached
	Head   string `json:"head"`
	Ahead  *int64 `json:"ahead"` // commits; nil if it is not known
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

// Compare selects the files that a workspace is compared with.
type Compare struct {
	// From is the ID of another workspace or checkpoint of the same clone; empty for the commit that the workspace began
	// with.
	From    string
	Ignored bool // with ignored files
}

// WorkspaceStatus returns what a workspace or checkpoint changed.
func (c *Client) WorkspaceStatus(ctx context.Context, id string, with Compare) (s WorkspaceStatus, err error) {
	err = c.call(ctx, http.MethodGet, workspacePath(id, "status", with), nil, &s)
	return s, err
}

// WorkspaceDiff writes what a workspace or checkpoint changed as a patch for git apply. After an error, a part may have
// been written.
func (c *Client) WorkspaceDiff(ctx context.Context, id string, with Compare, w io.Writer) error {
	return copyAnswer(ctx, c, workspacePath(id, "diff", with), w)
}

// WorkspaceChanges writes what a workspace or checkpoint added and changed as a tar archive. Its first entry,
// .helmdeck-export/deleted, has the deleted paths, each ended by a zero. After an error, a part may have been written.
func (c *Client) WorkspaceChanges(ctx context.Context, id string, with Compare, w io.Writer) error {
	return copyAnswer(ctx, c, workspacePath(id, "changes.tar", with), w)
}

func workspacePath(id, what string, with Compare) string {
	path, query := "/v1/workspaces/"+segment(id)+"/"+what, make(url.Values)
	if with.From != "" {
		query.Set("from", with.From)
	}
	if with.Ignored {
		query.Set("ignored", "true")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// Conflicts says whether the commits that the HEADs of two workspaces are at merge.
type Conflicts struct {
	Clean bool           `json:"clean"` // no conflict
	Paths []ConflictPath `json:"paths"` // in conflict, by path; some conflicts, as between renames of directories, have none
	More  int64          `json:"more"`  // how many more paths there are
	// Workspaces are both, in the order of the request.
	Workspaces []Merged `json:"workspaces"`
}

// ConflictPath is a path in conflict.
type ConflictPath struct {
	// Path is slash-separated. If it is not UTF-8, it is not exact, and RawPath has its bytes, in
	// base64.
	Path    string `json:"path"`
	RawPath string `json:"raw_path,omitempty"`
}

// Merged is a workspace whose commits are merged.
type Merged struct {
	ID     string `json:"id"`
	Volume string `json:"volume"`
	Branch string `json:"branch,omitempty"` // empty if HEAD is detached
	Head   string `json:"head"`
	// Uncommitted is how many files of its work tree are not as in Head, which are no part of the merge. Ignored files do
	// not count, and files that git converts do. Nil if it is not known, because of UncommittedError.
	Uncommitted      *int64 `json:"uncommitted"`
	UncommittedError string `json:"uncommitted_error,omitempty"`
}

// Conflicts merges the commits of two workspaces or checkpoints of one clone, on copies, and says whether there are
// conflicts. Nothing is kept.
func (c *Client) Conflicts(ctx context.Context, a, b string) (conflicts Conflicts, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/workspaces/"+segment(a)+"/conflicts?with="+url.QueryEscape(b), nil, &conflicts)
	return conflicts, err
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
