package admin

import (
	"context"
	"net/http"
	"slices"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/repo/ready"
)

// Refresher is the part of *ready.Keeper that the API uses.
type Refresher interface {
	Refresh(ctx context.Context, r ready.Request) ([]ready.Result, error)
}

func (c Config) refresh(r *http.Request) (any, error) {
	want, err := decode[api.Refresh](r)
	if err != nil {
		return nil, err
	}
	noteRepo(r, want.Repo, want.Ref, want.Subject)
	results, err := c.Refresher.Refresh(r.Context(), ready.Request{Repo: want.Repo, Ref: want.Ref, Subject: want.Subject})
	if err != nil {
		return nil, gone(r, err)
	}
	refreshed := []api.RefreshResult{}
	if len(results) > 0 && !slices.ContainsFunc(results, func(one ready.Result) bool { return one.Clone != results[0].Clone }) {
		note(r, func(rec *api.AuditRecord) { rec.Clone = results[0].Clone })
	}
	for _, one := range results {
		refreshed = append(refreshed, api.RefreshResult{Clone: one.Clone, Subject: one.Subject, Ref: one.Ref, Commit: one.Commit, Error: one.Error})
	}
	return list{"refreshed": refreshed}, nil
}
