package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/sirupsen/logrus"
)

// maxBody bounds a request. The largest legitimate one is a known_hosts file.
const maxBody = 1 << 20

// Config has the objects that the API manages.
type Config struct {
	Credentials Credentials
	Discards    Discards
	Janitor     Janitor
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
	} {
		mux.Handle(pattern, c.serve(f))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
// error with the status of its statusError, or 500.
type route func(r *http.Request) (any, error)

type errorAnswer struct {
	Error string `json:"error"`
}

// statusError is an error with a status other than 500.
type statusError struct {
	status int
	err    error
}

func (e *statusError) Error() string { return e.err.Error() }

func (e *statusError) Unwrap() error { return e.err }

func (c Config) serve(f route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if p := recover(); p != nil {
				c.Log.WithField("stack", string(debug.Stack())).Errorf("panic in %s: %v", r.Pattern, p)
				c.answer(w, r, http.StatusInternalServerError, errorAnswer{"internal error: the plugin's log says more"})
			}
		}()
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		answer, err := f(r)
		var coded *statusError
		switch {
		case errors.As(err, &coded):
			c.answer(w, r, coded.status, errorAnswer{err.Error()})
		case err != nil:
			c.Log.WithError(err).Errorf("%s failed", r.Pattern)
			c.answer(w, r, http.StatusInternalServerError, errorAnswer{err.Error()})
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
		c.Log.WithError(err).Debugf("answer %s", r.Pattern)
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
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return t, nil
	case errors.As(err, &tooLarge):
		return t, &statusError{http.StatusRequestEntityTooLarge, fmt.Errorf("the request is larger than %d bytes", tooLarge.Limit)}
	case errors.Is(err, io.EOF):
		err = errors.New("the request has no body")
	default:
		err = fmt.Errorf("the request is malformed: %w", err)
	}
	return t, &statusError{http.StatusBadRequest, err}
}

// statusOnly is a ResponseWriter that keeps status and header, and drops the body.
type statusOnly struct {
	header http.Header
	status int
}

func (s *statusOnly) Header() http.Header         { return s.header }
func (s *statusOnly) WriteHeader(status int)      { s.status = status }
func (s *statusOnly) Write(p []byte) (int, error) { return len(p), nil }
