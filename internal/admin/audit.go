package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/volume"
)

// actions are the names in the audit log of the requests that change something, or take work out
// of a workspace. What an action leads to, such as an eviction, has records of its own, with the
// same request.
var actions = map[string]string{
	"PUT /v1/credentials/{name}":               "credential.put",
	"DELETE /v1/credentials/{name}":            "credential.remove",
	"DELETE /v1/checkpoints/{id}":              "checkpoint.remove",
	"DELETE /v1/clones/{subject}/{hash}":       "clone.evict",
	"POST /v1/sweep":                           "sweep",
	"POST /v1/prune":                           "prune",
	"POST /v1/refresh":                         "refresh",
	"POST /v1/warm":                            "warm",
	"PUT /v1/subjects/{name}":                  "subject.limits",
	"POST /v1/subjects/{name}/fresh":           "subject.fresh",
	"POST /v1/clones/{subject}/{hash}/fresh":   "clone.fresh",
	"DELETE /v1/clones/{subject}/{hash}/cache": "cache.remove",
	"POST /v1/workspaces/{id}/cache":           "cache.publish",
	"POST /v1/workspaces/{id}/draft":           "checkpoint.begin",
	"POST /v1/drafts/{id}/catch-up":            "checkpoint.catch-up",
	"POST /v1/drafts/{id}/keep":                "checkpoint.keep",
	"DELETE /v1/drafts/{id}":                   "checkpoint.drop",
	"POST /v1/volumes/{name}/rewind":           "volume.rewind",
	"DELETE /v1/leases/{volume}/{holder}":      "lease.release",
	"POST /v1/workspaces/{id}/push":            "push",
	"GET /v1/workspaces/{id}/bundle":           "bundle",
	"GET /v1/workspaces/{id}/diff":             "diff",
	"GET /v1/workspaces/{id}/changes.tar":      "export",
}

// audited records each request with a pattern that changes something, or in actions, and how it
// was answered. A handler that has changed nothing empties the action.
func (c Config) audited(pattern string, h http.Handler) http.Handler {
	if strings.HasPrefix(pattern, http.MethodGet+" ") && actions[pattern] == "" {
		return h
	}
	action := cmp.Or(actions[pattern], pattern)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &api.AuditRecord{
			Action: action, Name: r.PathValue("name"), Checkpoint: r.PathValue("id"), Volume: r.PathValue("volume"), Lease: r.PathValue("holder"),
		}
		if strings.Contains(pattern, "/subjects/") {
			rec.Subject, rec.Name = rec.Name, ""
		}
		if hash := r.PathValue("hash"); hash != "" {
			rec.Clone = r.PathValue("subject") + "/" + hash
		}
		seen := &answered{ResponseWriter: w}
		aborted := errAborted
		defer func() {
			if rec.Action != "" {
				c.Audit.Record(r.Context(), *rec, cmp.Or(seen.err(), aborted))
			}
		}()
		h.ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), recordKey{}, rec)))
		aborted = nil
	})
}

// errAborted is the error of an answer that was begun and not completed, because of a panic or of
// the client.
var errAborted = errors.New("the answer is not complete")

type recordKey struct{}

// note adds what a request is about to its record in the audit log.
func note(r *http.Request, f func(rec *api.AuditRecord)) {
	if rec, ok := r.Context().Value(recordKey{}).(*api.AuditRecord); ok {
		f(rec)
	}
}

// noteRepo is note for a request about a repository. A URL that is not allowed is left out,
// because it may have a password.
func noteRepo(r *http.Request, repo, ref, subject string) {
	note(r, func(rec *api.AuditRecord) {
		rec.Ref, rec.Subject = ref, subject
		if u, err := volume.ParseURL(repo, volume.AllSchemes()); err == nil {
			rec.Repo = u.String()
		}
	})
}

// answered keeps the beginning of the last line of an answer, which has the error if there is
// one.
type answered struct {
	http.ResponseWriter
	status int
	line   []byte
	ended  bool // line is complete
}

// lineKept is how much of the last line of an answer is kept.
const lineKept = 8 << 10

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answered) WriteHeader(status int) {
	a.status = cmp.Or(a.status, status)
	a.ResponseWriter.WriteHeader(status)
}

func (a *answered) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		if a.ended {
			a.line = a.line[:0]
		}
		a.ended = bytes.HasSuffix(part, []byte("\n"))
		a.line = append(a.line, part[:min(len(part), lineKept-len(a.line))]...)
	}
	return a.ResponseWriter.Write(p)
}

// err returns the error that was answered, or nil.
func (a *answered) err() error {
	begin := []byte(`{"error":`)
	kind := a.Header().Get("Content-Type") // what is not JSON has the content of others
	if a.status < http.StatusBadRequest && (kind != "" && !strings.HasPrefix(kind, "application/json") || !bytes.HasPrefix(a.line, begin)) {
		return nil
	}
	var said api.ErrorAnswer
	if json.Unmarshal(a.line, &said) == nil && said.Error != "" {
		return errors.New(said.Error)
	}
	return fmt.Errorf("%d: %s", cmp.Or(a.status, http.StatusOK), bytes.TrimPrefix(a.line, begin)) // the line was cut off
}

// listAudit streams the audit log.
func (c Config) listAudit(w http.ResponseWriter, r *http.Request) {
	filter, err := auditFilter(r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	out := &auditStream{w: w, buffer: bufio.NewWriterSize(w, 32<<10), tail: filter.Tail}
	err = c.Audit.Read(r.Context(), filter, out.line, out.idle)
	if err == nil {
		err = out.release()
	}
	switch {
	case err == nil:
		out.begin()
		err = out.flush()
	case out.begun:
	case errors.Is(err, audit.ErrReaders):
		c.refuse(w, r, requestError{http.StatusServiceUnavailable, err})
		return
	case errors.Is(err, audit.ErrOff):
		c.refuse(w, r, requestError{http.StatusNotFound, err})
		return
	case err != nil:
		c.refuse(w, r, err)
		return
	}
	if err != nil && r.Context().Err() == nil {
		c.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
	}
}

// auditFilter reads the query of a request for the audit log.
func auditFilter(r *http.Request) (f api.AuditFilter, err error) {
	query, err := queryOf(r, append([]string{"subject", "volume", "action"}, spanParameters...))
	if err != nil {
		return f, err
	}
	of, err := spanOf(query)
	return api.AuditFilter{
		Since: of.since, Until: of.until, Tail: of.tail, Follow: of.follow, Subject: query["subject"], Volume: query["volume"], Action: query["action"],
	}, err
}

// auditStream sends lines that are JSON already.
type auditStream struct {
	w      http.ResponseWriter
	buffer *bufio.Writer
	begun  bool
	sent   time.Time // when something was sent last
	// tail, if not 0, is how many of the lines that are there are sent: the last ones, which kept has
	// until then.
	tail int
	kept [][]byte
}

// keepAlive is how long nothing is sent at most to a client that follows.
const keepAlive = 20 * time.Second

// begin sends the header, with status 200.
func (s *auditStream) begin() {
	if s.begun {
		return
	}
	s.begun = true
	s.w.Header().Set("Content-Type", "application/jsonl")
	s.w.WriteHeader(http.StatusOK)
}

func (s *auditStream) line(line []byte) error {
	if s.tail > 0 {
		if s.kept = append(s.kept, slices.Clone(line)); len(s.kept) > s.tail {
			s.kept = s.kept[1:]
		}
		return nil
	}
	return s.send(line)
}

// release sends the kept lines, and from then on each line at once.
func (s *auditStream) release() error {
	kept := s.kept
	s.kept, s.tail = nil, 0
	for _, line := range kept {
		if err := s.send(line); err != nil {
			return err
		}
	}
	return nil
}

func (s *auditStream) send(line []byte) error {
	s.begin()
	if s.buffer.Available() < len(line) { // what is sent ends with a line
		if err := s.flush(); err != nil {
			return err
		}
	}
	_, err := s.buffer.Write(line)
	return err
}

// idle sends what waits. If there was nothing for long, it sends an empty line, so that it is
// noticed if the client is gone.
func (s *auditStream) idle() error {
	s.begin()
	if err := s.release(); err != nil {
		return err
	}
	if s.buffer.Buffered() == 0 && !s.sent.IsZero() {
		if time.Since(s.sent) < keepAlive {
			return nil
		}
		if err := s.buffer.WriteByte('\n'); err != nil {
			return err
		}
	}
	return s.flush()
}

func (s *auditStream) flush() error {
	s.sent = time.Now()
	s.extend()
	if err := s.buffer.Flush(); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

// extend gives the client writeWait for the next write.
func (s *auditStream) extend() {
	_ = http.NewResponseController(s.w).SetWriteDeadline(time.Now().Add(writeWait)) // fails in tests without a connection
}
