package admin

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/look"
	"github.com/helmdeck/repos/internal/meta"
)

// Inspector is the part of *look.Inspector that the API uses.
type Inspector interface {
	Status(ctx context.Context, id string) (look.Status, error)
	Diff(ctx context.Context, id string, ignored bool) (*look.Output, error)
	Archive(ctx context.Context, id string, ignored bool) (*look.Output, error)
}

// maxChanges bounds the paths in an answer.
const maxChanges = 10_000

// inspections has the handlers that say what is in a workspace.
type inspections struct{ Config }

// routes returns the handlers by their patterns.
func (i inspections) routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /v1/workspaces/{id}/status":      i.serve(i.status),
		"GET /v1/workspaces/{id}/diff":        i.stream("text/x-diff", Inspector.Diff),
		"GET /v1/workspaces/{id}/changes.tar": i.stream("application/x-tar", Inspector.Archive),
	}
}

// wantsIgnored reads the query of a request.
func wantsIgnored(r *http.Request) (bool, error) {
	query, err := queryOf(r, []string{"ignored"})
	if err != nil || query["ignored"] == "" {
		return false, err
	}
	ignored, err := strconv.ParseBool(query["ignored"])
	if err != nil {
		err = badRequest(fmt.Errorf("ignored is %.40q: allowed are true and false", query["ignored"]))
	}
	return ignored, err
}

func (i inspections) status(r *http.Request) (any, error) {
	ignored, err := wantsIgnored(r)
	if err != nil {
		return nil, err
	}
	s, err := i.Inspector.Status(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return statusOfWorkspace(s, ignored), nil
}

func statusOfWorkspace(s look.Status, ignored bool) api.WorkspaceStatus {
	out := api.WorkspaceStatus{
		ID: s.Record.ID, Phase: s.Record.Phase.String(), Volume: s.Record.Volume, Commit: s.Record.Commit, Ref: s.Record.Ref,
		Branch: s.Head.Name, Head: s.Head.ID, HeadError: s.HeadError, Ahead: s.Ahead, AheadError: s.AheadError,
		Added: s.Added, Changed: s.Changed, Deleted: s.Deleted, Ignored: s.Ignored,
		Changes: []api.WorkspaceChange{}, LeftOut: []api.LeftOut{}, Truncated: s.Truncated,
	}
	for _, c := range s.List {
		if c.Ignored && !ignored {
			continue
		}
		if len(out.Changes) == maxChanges {
			if out.Truncated == "" {
				out.Truncated = fmt.Sprintf("only the first %d paths are listed", maxChanges)
			}
			break
		}
		path, raw := pathOf(c.Path)
		module, _ := pathOf(c.Module)
		out.Changes = append(out.Changes, api.WorkspaceChange{Path: path, RawPath: raw, Kind: string(c.Kind), Ignored: c.Ignored, Submodule: module})
	}
	for _, o := range s.Omitted {
		path, raw := pathOf(o.Path)
		out.LeftOut = append(out.LeftOut, api.LeftOut{Path: path, RawPath: raw, Why: o.Why})
	}
	return out
}

// pathOf returns a path for JSON, which has no other text than UTF-8, and its bytes in base64 if
// that is not all of it.
func pathOf(path string) (text, raw string) {
	if utf8.ValidString(path) {
		return path, ""
	}
	return path, base64.StdEncoding.EncodeToString([]byte(path))
}

// stream answers with an output. If that fails midway, the connection is closed before the answer
// has ended, so that the client does not take it for a complete one.
func (i inspections) stream(kind string, prepare func(i Inspector, ctx context.Context, id string, ignored bool) (*look.Output, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteWorkspace(r, meta.Workspace{})
		ignored, err := wantsIgnored(r)
		var out *look.Output
		if err == nil {
			out, err = prepare(i.Inspector, r.Context(), r.PathValue("id"), ignored)
		}
		if err != nil {
			i.refuse(w, r, err)
			return
		}
		defer out.Close()
		noteWorkspace(r, out.Record)
		w.Header().Set("Content-Type", kind)
		n := int64(0)
		to, stop := newPatientWriter(out.Context(), w) // a Mount does not wait for a client that does not read
		defer stop()
		err = out.Write(counting{to, &n})
		note(r, func(rec *api.AuditRecord) { rec.Bytes = n })
		if err != nil {
			i.Log.WithContext(r.Context()).WithError(err).Infof("%s: the answer is not complete", r.Pattern)
			panic(http.ErrAbortHandler)
		}
	})
}

// noteWorkspace adds a workspace to the record of a request in the audit log.
func noteWorkspace(r *http.Request, w meta.Workspace) {
	note(r, func(rec *api.AuditRecord) {
		rec.Discard, rec.Workspace = "", r.PathValue("id")
		rec.Volume, rec.Subject, rec.Repo, rec.Clone, rec.Commit, rec.Ref = w.Volume, w.Options["subject"], w.Options["repo"], w.Clone, w.Commit, w.Ref
	})
}

// counting counts what is written.
type counting struct {
	io.Writer
	n *int64
}

func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	*c.n += int64(n)
	return n, err
}
