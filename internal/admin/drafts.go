package admin

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"unicode/utf8"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
)

// Drafts is the part of *workspace.Manager that makes checkpoints of workspaces that go on.
type Drafts interface {
	Draft(ctx context.Context, id string, n workspace.Note) (workspace.Copied, error)
	CatchUp(ctx context.Context, id string) (workspace.Copied, error)
	Keep(ctx context.Context, id string) (meta.Workspace, error)
	DropDraft(ctx context.Context, id string) meta.Workspace
}

var noteName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$`)

const maxMessage = 1000

// noteOf checks what a user says about a checkpoint.
func noteOf(n api.Note) (workspace.Note, error) {
	if n.Name != "" && !noteName.MatchString(n.Name) {
		return workspace.Note{}, badRequest(fmt.Errorf("the name %.100q is not allowed: "+
			"1 to 64 letters, digits, dots, dashes and underscores are, of which the first is a letter or a digit", n.Name))
	}
	if len(n.Message) > maxMessage || !utf8.ValidString(n.Message) {
		return workspace.Note{}, badRequest(fmt.Errorf("the message has %d bytes, or is no UTF-8: at most %d bytes are allowed", len(n.Message), maxMessage))
	}
	return workspace.Note{Name: n.Name, Message: n.Message}, nil
}

func (c Config) draft(r *http.Request) (any, error) {
	id := r.PathValue("id")
	want, err := decode[api.Note](r)
	if err != nil {
		return nil, err
	}
	n, err := noteOf(want)
	if err != nil {
		return nil, err
	}
	note(r, func(rec *api.AuditRecord) {
		rec.Checkpoint, rec.Workspace, rec.Name, rec.Text = "", id, n.Name, n.Message
		if w, ok := c.Workspaces.Workspace(id); ok {
			rec.Volume, rec.Clone, rec.Repo, rec.Subject, rec.Ref, rec.Commit = w.Volume, w.Clone, w.Options["repo"], subjectName(w), w.Ref, w.Commit
		}
	})
	done, err := c.Drafts.Draft(r.Context(), id, n)
	if err != nil {
		return nil, gone(r, err)
	}
	out := draftOf(done)
	out.Made, out.Was = done.ID == id, done.Was
	note(r, func(rec *api.AuditRecord) {
		rec.Checkpoint, rec.Bytes = done.ID, done.Copied
		switch {
		case out.Made && n == (workspace.Note{}):
			rec.Action = ""
		case out.Made:
			rec.Action, rec.Workspace = "checkpoint.note", ""
		}
	})
	return out, nil
}

// noteDraft adds a draft, or the checkpoint that it became, to the record of a request.
func noteDraft(r *http.Request, w meta.Workspace) {
	note(r, func(rec *api.AuditRecord) {
		rec.Volume, rec.Clone, rec.Repo, rec.Subject, rec.Ref, rec.Commit, rec.Name = w.Volume, w.Clone, w.Options["repo"], subjectName(w), w.Ref, w.Commit, w.Name
	})
}

func draftOf(d workspace.Copied) api.Draft {
	return api.Draft{ID: d.ID, Files: d.Files + d.Dirs, Changed: d.Changed, Copied: d.Copied, Cloned: d.Cloned, Torn: d.Torn}
}

func (c Config) catchUp(r *http.Request) (any, error) {
	if _, err := decode[struct{}](r); err != nil {
		return nil, err
	}
	done, err := c.Drafts.CatchUp(r.Context(), r.PathValue("id"))
	if done.Of.ID != "" {
		noteDraft(r, done.Of)
		note(r, func(rec *api.AuditRecord) { rec.Bytes = done.Copied })
	}
	if err != nil {
		return nil, gone(r, err)
	}
	return draftOf(done), nil
}

func (c Config) keepDraft(r *http.Request) (any, error) {
	if _, err := decode[struct{}](r); err != nil {
		return nil, err
	}
	rec, err := c.Drafts.Keep(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, gone(r, err)
	}
	noteDraft(r, rec)
	return c.checkpointWith(rec.ID) // none, if it was removed at once
}

func (c Config) dropDraft(r *http.Request) (any, error) {
	if dropped := c.Drafts.DropDraft(r.Context(), r.PathValue("id")); dropped.ID != "" {
		noteDraft(r, dropped)
	}
	return nil, nil
}

func (c Config) rewind(r *http.Request) (any, error) {
	want, err := decode[api.Rewind](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	note(r, func(rec *api.AuditRecord) { rec.Volume, rec.Name, rec.Checkpoint = name, "", want.Checkpoint })
	w, err := c.Volumes.Rewind(r.Context(), name, want.Checkpoint)
	if err != nil {
		return nil, gone(r, err)
	}
	note(r, func(rec *api.AuditRecord) {
		rec.Workspace, rec.Clone, rec.Repo, rec.Subject, rec.Ref, rec.Commit = w.ID, w.Clone, w.Options["repo"], subjectName(w), w.Ref, w.Commit
	})
	return workspaceOf(w), nil
}
