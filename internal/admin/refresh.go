package admin

import (
	"context"
	"net/http"

	"github.com/helmdeck/repos/internal/ready"
)

// Refresher is the part of *ready.Keeper that the API uses.
type Refresher interface {
	Refresh(ctx context.Context, r ready.Request) ([]ready.Result, error)
}

func (c Config) refresh(r *http.Request) (any, error) {
	want, err := decode[ready.Request](r)
	if err != nil {
		return nil, err
	}
	results, err := c.Refresher.Refresh(r.Context(), want)
	switch {
	case err != nil && r.Context().Err() != nil: // the client hung up, or the plugin stops
		return nil, requestError{http.StatusServiceUnavailable, err}
	case err != nil:
		return nil, err
	case results == nil:
		results = []ready.Result{}
	}
	return list{"refreshed": results}, nil
}
