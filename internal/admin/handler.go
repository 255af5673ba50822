package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/ready"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/janitor"
)

// maxBody bounds a request. The largest legitimate one is a known_hosts file.
const maxBody = 1 << 20

// Config has the objects that the API manages.
type Config struct {
	Credentials Credentials
	Discards    Discards
	Janitor     Janitor
	Refresher   Refresher
	Metrics     http.Handler // of GET /metrics
	Log         *logrus.Logger
}

// Handler returns the API.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	for pattern, f := range map[string]route{
		"PUT /v1/credentials/{name}":    c.putCredential,
		"GET /v1/credentials":           c.listCredentials,
		"DELETE /v1/credentials/{name}": c.removeCredential,
		"GET /v1/discards":              c.listDiscards,
		"DELETE /v1/discards/{id}":      c.removeDiscard,

		"GET /v1/janitor/plan":               c.planJanitor,
		"POST /v1/janitor/sweep":             c.sweepJanitor,
		"GET /v1/janitor/events":             c.listEvents,
		"GET /v1/janitor/stats":              c.janitorStats,
		"GET /v1/clones":                     c.listClones,
		"DELETE /v1/clones/{subject}/{hash}": c.evictClone,
		"POST /v1/refresh":                   c.refresh,
	} {
		mux.Handle(pattern, c.serve(f))
	}
	mux.Handle("GET /metrics", c.Metrics)
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
		c.answer(w, r, none.status, errorAnswer{fmt.Sprintf("there is no %s %.200q here", r.Method, r.URL.Path)})
	})
}

// route handles a request. Its result is sent as JSON with status 200, nil as 204, and an
// error with the status of statusOf.
type route func(r *http.Request) (any, error)

// list is a response with one list, by its name.
type list map[string]any

type errorAnswer struct {
	Error string `json:"error"`
}

// requestError is the error of a request that can't be decoded.
type requestError struct {
	status int
	error
}

// statusOf returns the HTTP status of an error. 500 means that the plugin itself failed.
func statusOf(err error) int {
	refused, ok := errors.AsType[requestError](err)
	switch {
	case ok:
		return refused.status
	case is[*credential.InvalidError](err), is[*volume.OptionError](err):
		return http.StatusBadRequest
	case is[*credential.NotFoundError](err), is[*workspace.NoDiscardError](err), errors.Is(err, janitor.ErrNoClone), errors.Is(err, ready.ErrNoClone):
		return http.StatusNotFound
	case is[*workspace.InUseError](err), errors.Is(err, janitor.ErrHeld):
		return http.StatusConflict
	}
	return http.StatusInternalServerError
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

func (c Config) serve(f route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				c.Log.WithContext(r.Context()).WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", r.Pattern, p)
				c.answer(w, r, http.StatusInternalServerError, errorAnswer{"internal error: the plugin's log says more"})
			}
		}()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := f(r)
		switch status := statusOf(err); {
		case err != nil:
			if status == http.StatusInternalServerError {
				c.Log.WithContext(r.Context()).WithError(err).Errorf("%s failed", r.Pattern)
			}
			c.answer(w, r, status, errorAnswer{err.Error()})
		case answer == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			c.answer(w, r, http.StatusOK, answer)
		}
	})
}

func (c Config) answer(w http.ResponseWriter, r *http.Request, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		c.Log.WithContext(r.Context()).WithError(err).Debugf("answer %s", r.Pattern)
	}
}

// decode reads the body as one T and nothing else.
func decode[T any](r *http.Request) (T, error) {
	var t T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(&t)
	if err == nil {
		if _, more := d.Token(); more == nil {
			err = errors.New("more than one JSON value")
		} else if !errors.Is(more, io.EOF) {
			err = more
		}
	}
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
	return t, requestError{http.StatusBadRequest, err}
}

// statusOnly is a ResponseWriter that keeps status and header, and drops the body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
