package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/outbound"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
)

// Pusher is *outbound.Pusher.
type Pusher interface {
	Push(ctx context.Context, r outbound.Request, report outbound.Progress) (outbound.Result, error)
	Bundle(ctx context.Context, r outbound.Request, report outbound.Progress) (*outbound.Bundle, error)
}

// pushes answers requests for the commits of workspaces.
type pushes struct{ config Config }

func (c pushes) push(r *http.Request, report func(api.Progress)) (any, error) {
	want, err := decode[api.Push](r)
	if err != nil {
		return nil, err
	}
	id := r.PathValue("id")
	res, err := c.config.Pusher.Push(r.Context(), outbound.Request{
		Workspace: id, Branch: want.Branch, RemoteBranch: want.RemoteBranch, Lease: want.ForceWithLease, WithoutLFS: want.WithoutLFS,
	}, func(phase string, done, total int64) {
		out := api.Progress{Status: phase, Current: done, Total: total}
		if total > 0 {
			out.Unit = "objects"
		}
		report(out)
	})
	notePush(r, res)
	if err != nil {
		return nil, pushError(r, err)
	}
	return api.PushResult{
		Workspace: id, Volume: res.Volume, Subject: string(res.Subject), Repo: res.Repo, Branch: res.Branch, RemoteBranch: res.RemoteBranch,
		OldCommit: res.Old, NewCommit: res.New, Commits: res.Commits, Objects: res.Objects, Bytes: res.Bytes,
		Warnings: res.Warnings,
	}, nil
}

// notePush adds what is known of a push to its record in the audit log.
func notePush(r *http.Request, res outbound.Result) {
	note(r, func(rec *api.AuditRecord) {
		rec.Checkpoint, rec.Workspace = "", r.PathValue("id")
		rec.Volume, rec.Subject, rec.Repo, rec.Clone, rec.Commit = res.Volume, string(res.Subject), res.Repo, res.Clone, res.New
		if res.RemoteBranch != "" {
			rec.Ref = "refs/heads/" + res.RemoteBranch
		} else if res.Branch != "" {
			rec.Ref = "refs/heads/" + res.Branch
		}
		rec.Text, rec.Bytes = res.Summary(), res.Bytes
	})
}

// pushError adds the status to an error.
func pushError(r *http.Request, err error) error {
	if refused, ok := errors.AsType[*quarantine.Refusal](err); ok {
		return requestError{map[quarantine.Why]int{
			quarantine.Invalid: http.StatusBadRequest, quarantine.Missing: http.StatusNotFound, quarantine.Conflict: http.StatusConflict,
			quarantine.Denied: http.StatusForbidden, quarantine.TooLarge: http.StatusRequestEntityTooLarge,
			quarantine.Unusable: http.StatusUnprocessableEntity, quarantine.Changed: http.StatusServiceUnavailable,
		}[refused.Why], err}
	}
	return gone(r, err)
}

// bundleOf returns which bundle a request asks for.
func bundleOf(r *http.Request) (want outbound.Request, err error) {
	query, err := queryOf(r, []string{"branch", "without_lfs"})
	want = outbound.Request{Workspace: r.PathValue("id"), Branch: query["branch"]}
	if err != nil || query["without_lfs"] == "" {
		return want, err
	}
	want.WithoutLFS, err = parseFlag("without_lfs", query["without_lfs"])
	return want, err
}

// bundle answers with a git bundle.
func (c pushes) bundle(w http.ResponseWriter, r *http.Request) {
	want, err := bundleOf(r)
	if err != nil {
		c.config.refuse(w, r, err)
		return
	}
	notePush(r, outbound.Result{Branch: want.Branch})
	b, err := c.config.Pusher.Bundle(r.Context(), want, func(string, int64, int64) {})
	if err != nil {
		c.config.refuse(w, r, pushError(r, err))
		return
	}
	notePush(r, b.Result)
	w.Header().Set("Content-Type", "application/x-git-bundle")
	w.Header().Set("Content-Length", strconv.FormatInt(b.Size, 10))
	for _, text := range b.Warnings {
		w.Header().Add(api.WarningHeader, text)
	}
	to, stop := newTimedWriter(b.Context(), w)
	defer stop()
	_, err = io.Copy(to, b)
	stop() // before Close ends the context, because the end of the answer is not sent yet
	if cerr := b.Close(); cerr != nil {
		c.config.Log.WithContext(r.Context()).WithError(cerr).Warn("a bundle could not be removed from the quarantine; the next start tries again")
	}
	if err != nil { // the client sees a body that is too short
		c.config.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
	}
}

// timedWriter gives the client writeWait for each write. Its writes fail when ctx ends, also one
// that waits for the client. Call stop at the end.
type timedWriter struct {
	http.ResponseWriter
	ctx context.Context
}

func newTimedWriter(ctx context.Context, w http.ResponseWriter) (p timedWriter, stop func() bool) {
	return timedWriter{w, ctx}, context.AfterFunc(ctx, func() { setWriteDeadline(w, time.Unix(1, 0)) })
}

func (w timedWriter) Write(data []byte) (int, error) {
	setWriteDeadline(w.ResponseWriter, time.Now().Add(writeWait))
	if w.ctx.Err() != nil { // before the deadline was set
		return 0, context.Cause(w.ctx)
	}
	return w.ResponseWriter.Write(data)
}

func (w timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
