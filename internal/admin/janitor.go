package admin

import (
	"context"
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

func (c Config) planJanitor(r *http.Request) (any, error) { return c.Janitor.Plan(r.Context()) }

func (c Config) sweepJanitor(r *http.Request) (any, error) {
	// Complete the sweep even if the client disconnects, because an interrupted one is
	// not reported.
	return c.Janitor.Sweep(context.WithoutCancel(r.Context()))
}

func (c Config) listEvents(*http.Request) (any, error) {
	return list{"events": c.Janitor.Events()}, nil
}

func (c Config) janitorStats(*http.Request) (any, error) { return c.Janitor.Stats(), nil }

func (c Config) listClones(r *http.Request) (any, error) {
	clones, err := c.Janitor.Clones(r.Context())
	return list{"clones": clones}, err
}

func (c Config) evictClone(r *http.Request) (any, error) {
	return nil, c.Janitor.EvictClone(r.Context(), r.PathValue("subject")+"/"+r.PathValue("hash"))
}
