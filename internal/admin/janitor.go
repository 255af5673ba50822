package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/helmdeck/repos/janitor"
)

// Janitor is the part of *janitor.Janitor that the API uses.
type Janitor interface {
	Plan(ctx context.Context) (janitor.Plan, error)
	Sweep(ctx context.Context) (janitor.Report, error)
	Events() []janitor.Event
	Stats() janitor.Stats
	Clones(ctx context.Context) ([]janitor.CloneInfo, error)
	EvictClone(ctx context.Context, key string) error
}

type eventList struct {
	Events []janitor.Event `json:"events"`
}

type cloneList struct {
	Clones []janitor.CloneInfo `json:"clones"`
}

func (c Config) planJanitor(r *http.Request) (any, error) { return c.Janitor.Plan(r.Context()) }

func (c Config) sweepJanitor(r *http.Request) (any, error) {
	// Complete the sweep even if the client disconnects, because an interrupted one is
	// not reported.
	return c.Janitor.Sweep(context.WithoutCancel(r.Context()))
}

func (c Config) listEvents(*http.Request) (any, error) { return eventList{c.Janitor.Events()}, nil }

func (c Config) janitorStats(*http.Request) (any, error) { return c.Janitor.Stats(), nil }

func (c Config) listClones(r *http.Request) (any, error) {
	list, err := c.Janitor.Clones(r.Context())
	return cloneList{list}, err
}

func (c Config) evictClone(r *http.Request) (any, error) {
	err := c.Janitor.EvictClone(r.Context(), r.PathValue("subject")+"/"+r.PathValue("hash"))
	switch {
	case errors.Is(err, janitor.ErrNoClone):
		return nil, &statusError{http.StatusNotFound, err}
	case errors.Is(err, janitor.ErrHeld):
		return nil, &statusError{http.StatusConflict, err}
	}
	return nil, err
}
