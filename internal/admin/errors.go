package admin

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/admin/quota"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/outbound/look"
	"github.com/helmdeck/repos/internal/repo/ready"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/verbs/removal"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/obstacle"
	"github.com/helmdeck/repos/janitor"
)

// requestError is an error with a status of its own.
type requestError struct {
	status int
	error
}

func (e requestError) Unwrap() error { return e.error }

// badRequest is the error of a request that can't be understood.
func badRequest(err error) error { return requestError{http.StatusBadRequest, err} }

// notFound is the error of a request for something that does not exist.
func notFound(format string, args ...any) error {
	return requestError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// statusOf returns the HTTP status of an error. 500 means that the plugin itself failed.
func statusOf(err error) int {
	refused, ok := errors.AsType[requestError](err)
	switch {
	case ok:
		return refused.status
	case is[*credential.InvalidError](err), is[*volume.OptionError](err), is[*quota.InvalidError](err), is[*look.PairError](err):
		return http.StatusBadRequest
	case is[*credential.NotFoundError](err), is[*workspace.NoCheckpointError](err), is[*workspace.NoLeaseError](err), is[*workspace.NoWorkspaceError](err),
		errors.Is(err, janitor.ErrNoClone), errors.Is(err, ready.ErrNoClone), errors.Is(err, removal.ErrNone):
		return http.StatusNotFound
	case is[*workspace.InUseError](err), is[*workspace.RefusedError](err), is[*workspace.NoCacheError](err), is[*obstacle.Error](err), errors.Is(err, janitor.ErrHeld):
		return http.StatusConflict
	}
	switch verbs.KindOf(err) {
	case verbs.Invalid:
		return http.StatusBadRequest
	case verbs.Denied:
		return http.StatusForbidden
	case verbs.NotFound:
		return http.StatusNotFound
	case verbs.Exists, verbs.InUse, verbs.Exhausted, verbs.Held:
		return http.StatusConflict
	case verbs.Unavailable, verbs.Unfinished, verbs.Unreachable, verbs.Canceled:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// gone is the error of a request whose client hung up, or that the plugin's stop ended, if it did, and else err, which
// may be nil.
func gone(r *http.Request, err error) error {
	if err != nil && r.Context().Err() != nil {
		return requestError{http.StatusServiceUnavailable, err}
	}
	return err
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// errorAnswer is the body of the answer for an error.
func errorAnswer(err error) api.ErrorAnswer {
	answer := api.ErrorAnswer{Error: err.Error()}
	if blocked, ok := errors.AsType[*obstacle.Error](err); ok {
		for _, o := range blocked.List[:min(len(blocked.List), maxObstacles)] {
			answer.Obstacles = append(answer.Obstacles, api.Obstacle{
				Kind: o.Kind, ID: o.ID, Volume: o.Volume, Clone: o.Clone, Text: o.Text, Forced: o.Forced,
			})
		}
	}
	return answer
}

// maxObstacles bounds an answer. The error says how many there are.
const maxObstacles = 1000
