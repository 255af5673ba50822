package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound/look"
)

// Inspector is the part of *look.Inspector that the API uses.
type Inspector interface {
	Status(ctx context.Context, id, from string) (*look.Status, error)
	Diff(ctx context.Context, id, from string, ignored bool) (*look.Output, error)
	Archive(ctx context.Context, id, from string, ignored bool) (*look.Output, error)
	Conflicts(ctx context.Context, a, b string) (*look.Conflicts, error)
}

// maxChanges and maxPathBytes bound the paths in an answer. JSON has up to eight times their bytes.
const (
	maxChanges   = 10_000
	maxPathBytes = 2 << 20
)

// inspections has the handlers that say what is in a workspace.
type inspections struct{ config Config }

// routes returns the handlers by their patterns.
func (i inspections) routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /v1/workspaces/{id}/status":      http.HandlerFunc(i.status),
		"GET /v1/workspaces/{id}/diff":        i.stream("text/x-diff", Inspector.Diff),
		"GET /v1/workspaces/{id}/changes.tar": i.stream("application/x-tar", Inspector.Archive),
		"GET /v1/workspaces/{id}/conflicts":   i.config.serve(i.conflicts),
	}
}

// comparison is the query of a request.
type comparison struct {
	from    string // the workspace to compare with; empty for the checkout that the workspace began with
	ignored bool
}

func comparisonOf(r *http.Request) (c comparison, err error) {
	query, err := queryOf(r, []string{"from", "ignored"})
	if c.from = query["from"]; err != nil || query["ignored"] == "" {
		return c, err
	}
	c.ignored, err = parseFlag("ignored", query["ignored"])
	return c, err
}

func (i inspections) status(w http.ResponseWriter, r *http.Request) {
	want, err := comparisonOf(r)
	var s *look.Status
	if err == nil {
		s, err = i.config.Inspector.Status(r.Context(), r.PathValue("id"), want.from)
	}
	if err != nil {
		i.config.refuse(w, r, err)
		return
	}
	defer s.Close()
	setWriteDeadline(w, time.Now().Add(writeWait))
	defer context.AfterFunc(s.Context(), func() { setWriteDeadline(w, time.Unix(1, 0)) })()
	w.Header().Set("Content-Type", "application/json")
	if err := writeStatus(s.Writer(w), s, want); err != nil {
		i.config.Log.WithContext(r.Context()).WithError(err).Infof("%s: the answer is not complete", r.Pattern)
		panic(http.ErrAbortHandler)
	}
}

// writeStatus writes a WorkspaceStatus, with one change at a time: all of them could take much memory.
func writeStatus(to io.Writer, s *look.Status, want comparison) error {
	most, more, err := listed(s, want)
	if err != nil {
		return err
	}
	status := statusOfWorkspace(s, want)
	if more && status.Truncated == "" {
		status.Truncated = fmt.Sprintf("only the first %d paths are listed", most)
	}
	text, err := json.Marshal(status)
	if err != nil {
		return err
	}
	const list = `"changes":[` // not in a text, because its quotes would be escaped
	head, tail, _ := bytes.Cut(text, []byte(list))
	w := bufio.NewWriterSize(to, 32<<10)
	w.Write(head) // the writer keeps its first error
	w.WriteString(list)
	n := 0
	for c, err := range s.All {
		if err != nil {
			return err
		}
		if c.Ignored && !want.ignored {
			continue
		}
		if n == most {
			break
		}
		path, raw := pathOf(c.Path)
		module, _ := pathOf(c.Module)
		one, err := json.Marshal(api.WorkspaceChange{Path: path, RawPath: raw, Kind: string(c.Kind), Ignored: c.Ignored, Submodule: module})
		if err != nil {
			return err
		}
		if n > 0 {
			w.WriteByte(',')
		}
		if _, err := w.Write(one); err != nil {
			return err
		}
		n++
	}
	w.Write(append(tail, '\n'))
	return w.Flush()
}

// listed returns how many of the changes, from the first one on, an answer has, and whether there are more.
func listed(s *look.Status, want comparison) (n int, more bool, err error) {
	size := 0
	for c, err := range s.All {
		if err != nil {
			return n, false, err
		}
		if c.Ignored && !want.ignored {
			continue
		}
		if size += len(c.Path) + len(c.Module); n == maxChanges || size > maxPathBytes {
			return n, true, nil
		}
		n++
	}
	return n, false, nil
}

// statusOfWorkspace returns a status without its changes.
func statusOfWorkspace(s *look.Status, want comparison) api.WorkspaceStatus {
	out := api.WorkspaceStatus{
		ID: s.Record.ID, From: want.from, Phase: s.Record.Phase.String(), Volume: s.Record.Volume, Commit: s.Record.Commit, Ref: s.Record.Ref,
		Branch: s.Head.Name, Head: s.Head.ID, HeadError: s.HeadError, Ahead: s.Ahead, AheadError: s.AheadError, AheadAsOf: s.AheadAsOf,
		Added: s.Added, Changed: s.Changed, Deleted: s.Deleted, Ignored: s.Ignored,
		Worktrees: []api.Worktree{}, WorktreesError: s.WorktreesError,
		Changes: []api.WorkspaceChange{}, LeftOut: []api.LeftOut{}, Truncated: s.Truncated,
	}
	for _, w := range s.Worktrees {
		name, _ := pathOf(w.Name)
		out.Worktrees = append(out.Worktrees, api.Worktree{Name: name, Branch: w.Head.Name, Head: w.Head.ID, Ahead: w.Ahead})
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
func (i inspections) stream(kind string, prepare func(i Inspector, ctx context.Context, id, from string, ignored bool) (*look.Output, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		noteWorkspace(r, meta.Workspace{})
		want, err := comparisonOf(r)
		note(r, func(rec *api.AuditRecord) { rec.Text = comparedWith(want.from) })
		var out *look.Output
		if err == nil {
			out, err = prepare(i.config.Inspector, r.Context(), r.PathValue("id"), want.from, want.ignored)
		}
		if err != nil {
			i.config.refuse(w, r, err)
			return
		}
		defer out.Close()
		noteWorkspace(r, out.Record)
		w.Header().Set("Content-Type", kind)
		n := int64(0)
		to, stop := newTimedWriter(out.Context(), w) // a Mount does not wait for a client that does not read
		defer stop()
		err = out.Write(counting{to, &n})
		note(r, func(rec *api.AuditRecord) { rec.Bytes = n })
		if err != nil {
			i.config.Log.WithContext(r.Context()).WithError(err).Infof("%s: the answer is not complete", r.Pattern)
			panic(http.ErrAbortHandler)
		}
	})
}

// comparedWith says for the audit log which workspace another one was compared with; empty for none.
func comparedWith(id string) string {
	if id == "" {
		return ""
	}
	return "compared with workspace " + id
}

func (i inspections) conflicts(r *http.Request) (any, error) {
	query, err := queryOf(r, []string{"with"})
	if err != nil {
		return nil, err
	}
	if query["with"] == "" {
		return nil, badRequest(errors.New("with is missing: it is the ID of the other workspace"))
	}
	c, err := i.config.Inspector.Conflicts(r.Context(), r.PathValue("id"), query["with"])
	if err != nil {
		return nil, pushError(r, err)
	}
	noteWorkspace(r, c.Sides[0].Record)
	out := api.Conflicts{Clean: c.Clean, Paths: []api.ConflictPath{}, More: c.More, Workspaces: []api.Merged{}}
	for _, name := range c.Paths {
		path, raw := pathOf(name)
		out.Paths = append(out.Paths, api.ConflictPath{Path: path, RawPath: raw})
	}
	for _, s := range c.Sides {
		out.Workspaces = append(out.Workspaces, api.Merged{
			ID: s.Record.ID, Volume: s.Record.Volume, Branch: s.Head.Name, Head: s.Head.ID, Uncommitted: s.Uncommitted, UncommittedError: s.UncommittedError,
		})
	}
	return out, nil
}

// noteWorkspace adds a workspace to the record of a request in the audit log.
func noteWorkspace(r *http.Request, w meta.Workspace) {
	note(r, func(rec *api.AuditRecord) {
		rec.Checkpoint, rec.Workspace = "", r.PathValue("id")
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
