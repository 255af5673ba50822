package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/ready"
)

// Warmer is the part of *ready.Keeper that warms clones.
type Warmer interface {
	Warm(ctx context.Context, r ready.WarmRequest, report func(ready.Progress)) (ready.Warmed, error)
}

func (c Config) warm(r *http.Request, report func(api.Progress)) (any, error) {
	want, err := decode[api.Warm](r)
	if err != nil {
		return nil, err
	}
	noteRepo(r, want.Repo, want.Ref, want.Subject)
	res, err := c.Warmer.Warm(r.Context(), ready.WarmRequest(want), func(p ready.Progress) {
		out := api.Progress{Status: p.Status, Current: p.Objects, Total: p.Total}
		if p.Total > 0 {
			out.Unit = "objects"
		}
		report(out)
	})
	switch {
	case err != nil && (r.Context().Err() != nil || errors.Is(err, clone.ErrEvicted)): // the client hung up, or the plugin stops
		return nil, requestError{http.StatusServiceUnavailable, err}
	case err != nil:
		return nil, err
	}
	note(r, func(rec *api.AuditRecord) {
		rec.Ref, rec.Subject, rec.Clone, rec.Commit = res.Ref, res.Subject, res.Clone, res.Commit
	})
	return api.WarmResult{
		Clone: res.Clone, Subject: res.Subject, Repo: res.Repo, Ref: res.Ref, Commit: res.Commit, Size: sizeOf(res.Size),
	}, nil
}
