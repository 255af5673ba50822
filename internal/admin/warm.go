package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/repo/ready"
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
	case errors.Is(err, clone.ErrEvicted):
		return nil, requestError{http.StatusServiceUnavailable, err}
	case err != nil:
		return nil, gone(r, err)
	}
	note(r, func(rec *api.AuditRecord) {
		rec.Ref, rec.Subject, rec.Clone, rec.Commit = res.Ref, res.Subject, res.Clone, res.Commit
	})
	out := api.WarmResult{
		Clone: res.Clone, Subject: res.Subject, Repo: res.Repo, Ref: res.Ref, Commit: res.Commit, Size: sizeOf(res.Size), States: []api.WarmState{},
	}
	for _, s := range res.States {
		state := api.WarmState{Path: s.Path, Head: s.Head, Exact: s.Exact, LeftOut: s.Never, Commit: s.Commit, BuiltAt: s.BuiltAt.UTC(), Label: s.Label}
		if !s.Exact {
			state.Why = cmp.Or(s.LeftOut, s.Why, "there is none yet")
		}
		out.States = append(out.States, state)
	}
	return out, nil
}
