package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/audit"
	"github.com/helmdeck/repos/internal/admin/journal"
	"github.com/helmdeck/repos/internal/intake"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
)

const (
	// maxBody bounds a request. The largest legitimate one is a known_hosts file.
	maxBody = 1 << 20
	// writeWait is how long a client may take to read an answer, or one line of a stream.
	writeWait = 30 * time.Second
)

// Config has the objects that the API shows and manages.
type Config struct {
	Credentials Credentials
	Clones      Clones
	Caches      Caches
	Volumes     Volumes
	Workspaces  Workspaces
	Drafts      Drafts
	Janitor     Janitor
	Refresher   Refresher
	Warmer      Warmer
	Health      Health
	Limits      Limits
	Remover     Remover
	Releaser    Releaser
	Pusher      Pusher
	Inspector   Inspector
	// Publications returns what is published to pods of Kubernetes. It may be nil.
	Publications func() []meta.Publication
	// Settings are the settings in force, by name. Their values are shown.
	Settings []api.Setting
	Version  string // of the plugin
	Started  time.Time
	Metrics  http.Handler // of GET /metrics
	Audit    *audit.Trail // nil if it is off
	Journal  *journal.Ring
	Log      *logrus.Logger
}

// routes returns the handlers by their patterns.
func (c Config) routes() map[string]http.Handler {
	all := map[string]http.Handler{
		"GET /v1/events": newFollowers(c),
		"POST /v1/warm":  c.operate(c.warm),

		"POST /v1/workspaces/{id}/push":  c.operate(pushes{c}.push),
		"GET /v1/workspaces/{id}/bundle": http.HandlerFunc(pushes{c}.bundle),

		"GET /v1/logs":  newLogs(c),
		"GET /v1/audit": http.HandlerFunc(c.listAudit),
		"GET /metrics":  c.Metrics,
	}
	maps.Copy(all, inspections{c}.routes())
	for pattern, f := range map[string]route{
		"GET /v1/version":  c.version,
		"GET /v1/health":   c.health,
		"GET /v1/settings": c.settings,
		"GET /v1/stats":    c.stats,

		"GET /v1/subjects":                         c.listSubjects,
		"GET /v1/subjects/{name}":                  c.subject,
		"PUT /v1/subjects/{name}":                  c.setLimits,
		"POST /v1/subjects/{name}/fresh":           c.freshSubject,
		"GET /v1/clones":                           c.listClones,
		"GET /v1/clones/{subject}/{hash}":          c.clone,
		"DELETE /v1/clones/{subject}/{hash}":       c.evictClone,
		"POST /v1/clones/{subject}/{hash}/fresh":   c.freshClone,
		"GET /v1/caches":                           c.listCaches,
		"DELETE /v1/clones/{subject}/{hash}/cache": c.dropCache,
		"POST /v1/workspaces/{id}/cache":           c.publishCache,
		"GET /v1/volumes":                          c.listVolumes,
		"GET /v1/volumes/{name}":                   c.volume,
		"POST /v1/volumes/{name}/rewind":           c.rewind,
		"POST /v1/workspaces/{id}/draft":           c.draft,
		"POST /v1/drafts/{id}/catch-up":            c.catchUp,
		"POST /v1/drafts/{id}/keep":                c.keepDraft,
		"DELETE /v1/drafts/{id}":                   c.dropDraft,
		"GET /v1/work":                             c.listWork,
		"GET /v1/leases":                           c.listLeases,
		"DELETE /v1/leases/{volume}/{holder}":      c.releaseLease,
		"GET /v1/workspaces":                       c.listWorkspaces,
		"GET /v1/workspaces/{id}":                  c.workspace,
		"GET /v1/checkpoints":                      c.listCheckpoints,
		"GET /v1/checkpoints/{id}":                 c.checkpoint,
		"DELETE /v1/checkpoints/{id}":              c.removeCheckpoint,

		"GET /v1/credentials":           c.listCredentials,
		"PUT /v1/credentials/{name}":    c.putCredential,
		"DELETE /v1/credentials/{name}": c.removeCredential,

		"GET /v1/plan":     c.plan,
		"POST /v1/sweep":   c.sweep,
		"POST /v1/prune":   c.prune,
		"POST /v1/refresh": c.refresh,
	} {
		all[pattern] = c.serve(f)
	}
	return all
}

// Handler returns the API.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range c.routes() {
		mux.Handle(pattern, c.audited(pattern, c.guard(h)))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user := origin.NewUser(origin.PeerOf(r.Context()), r.Header.Get(api.ClaimHeader))
		r = r.WithContext(origin.Begin(r.Context(), user))
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		// The mux chooses between 404 and 405, but answers in plain text.
		none := statusOnly{header: w.Header()}
		h.ServeHTTP(&none, r)
		c.answer(w, r, none.status, api.ErrorAnswer{Error: fmt.Sprintf("there is no %s %.200q here", r.Method, r.URL.Path)})
	})
}

// guard bounds the request's body, and answers a panic.
func (c Config) guard(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p == http.ErrAbortHandler { // a stream that failed midway
				panic(p)
			} else if p != nil {
				c.Log.WithContext(r.Context()).WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", r.Pattern, p)
				c.answer(w, r, http.StatusInternalServerError, api.ErrorAnswer{Error: "internal error: the plugin's log says more"})
			}
		}()
		setWriteDeadline(w, time.Time{}) // the connection may have that of an earlier request
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		h.ServeHTTP(w, r)
	})
}

// route handles a request. Its result is sent as JSON with status 200, nil as 204, and an
// error with the status of statusOf.
type route func(r *http.Request) (any, error)

func (c Config) serve(f route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, err := f(r)
		switch {
		case err != nil:
			c.refuse(w, r, err)
		case answer == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			c.answer(w, r, http.StatusOK, answer)
		}
	})
}

// refuse answers with an error.
func (c Config) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := statusOf(err)
	if status == http.StatusInternalServerError {
		c.Log.WithContext(r.Context()).WithError(err).Errorf("%s failed", r.Pattern)
	}
	c.answer(w, r, status, errorAnswer(err))
}

func (c Config) answer(w http.ResponseWriter, r *http.Request, status int, answer any) {
	setWriteDeadline(w, time.Now().Add(writeWait))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
	}
}

func setWriteDeadline(w http.ResponseWriter, at time.Time) {
	_ = http.NewResponseController(w).SetWriteDeadline(at) // fails only in tests, which have no connection
}

// decode reads the body as one T and nothing else.
func decode[T any](r *http.Request) (T, error) {
	var t T
	err := intake.Whole(r.Context(), r.Body, func(data []byte) error {
		if err := intake.Elements(data, intake.MaxElements); err != nil {
			return err
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		err := d.Decode(&t)
		if err == nil {
			if _, more := d.Token(); more == nil {
				err = errors.New("more than one JSON value")
			} else if !errors.Is(more, io.EOF) {
				err = more
			}
		}
		return err
	})
	tooLarge, ok := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil:
		return t, nil
	case ok:
		return t, requestError{http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", tooLarge.Limit)}
	case errors.Is(err, io.EOF):
		err = errors.New("the request has no body")
	default:
		err = fmt.Errorf("the request is malformed: %w", err)
	}
	return t, badRequest(err)
}

// statusOnly is a ResponseWriter that keeps status and header, and drops the body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
