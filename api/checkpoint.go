package api

import (
	"context"
	"net/http"
)

// Note is what a user says about a checkpoint.
type Note struct {
	// Name is at most 64 letters, digits, dots, dashes and underscores, of which the first is a letter or a digit; empty
	// for none. A checkpoint with a name does not expire.
	Name string `json:"name,omitempty"`
	// Message is at most 1,000 bytes; empty for none.
	Message string `json:"message,omitempty"`
}

// Draft is a checkpoint that is being made: a copy of a workspace that goes on.
type Draft struct {
	ID string `json:"id"` // that the checkpoint is going to have
	// Made is set if the answer is about a checkpoint that was there: it has got the note, and is no draft.
	Made bool `json:"made"`
	// Was is the name that such a checkpoint had until it got another one.
	Was string `json:"was,omitempty"`
	// Files is how many files and directories the copy has, Changed how many of them this step made, replaced or removed.
	Files   int64 `json:"files"`
	Changed int64 `json:"changed"`
	// Copied and Cloned are bytes that this step wrote, and that are shared with the workspace.
	Copied int64 `json:"copied"`
	Cloned int64 `json:"cloned"`
	// Torn is how many files may be of no one moment, because they were written all the time.
	Torn int64 `json:"torn"`
}

// Draft copies a workspace, while its containers write. CatchUp and Keep go on with the copy; it is dropped two minutes
// after the last of these calls. One that is a checkpoint already only gets the note, if that is not empty. An unknown workspace
// is an *Error with the status 404; one that is being mounted, has just ended, or is too large to be copied is one with the
// status 409.
func (c *Client) Draft(ctx context.Context, workspace string, n Note) (d Draft, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/workspaces/"+segment(workspace)+"/draft", n, &d)
	return d, err
}

// CatchUp brings a draft up to date with its workspace. If nobody writes to the workspace meanwhile, the
// copy is as of now. The error is an *Error with the status 409 if there is no such draft any more.
func (c *Client) CatchUp(ctx context.Context, id string) (d Draft, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/drafts/"+segment(id)+"/catch-up", struct{}{}, &d)
	return d, err
}

// Keep makes a checkpoint of a draft. It is on disk then. The error is that of CatchUp.
func (c *Client) Keep(ctx context.Context, id string) (d Checkpoint, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/drafts/"+segment(id)+"/keep", struct{}{}, &d)
	return d, err
}

// DropDraft gives a draft up. One that does not exist is no error.
func (c *Client) DropDraft(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/v1/drafts/"+segment(id), nil, nil)
}

// Rewind is the body of the request to go back.
type Rewind struct {
	Checkpoint string `json:"checkpoint"` // an ID
}

// Rewind makes a volume with mode=keep, that no container uses, begin again with a checkpoint. What it had becomes a checkpoint
// itself. The answer is the new workspace. The error is an *Error with the status 404 if there is
// no such volume or checkpoint, and 409 if the volume is in use.
func (c *Client) Rewind(ctx context.Context, volume, checkpoint string) (w Workspace, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/volumes/"+segment(volume)+"/rewind", Rewind{checkpoint}, &w)
	return w, err
}
