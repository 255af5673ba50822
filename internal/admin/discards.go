package admin

import (
	"net/http"
	"time"

	"github.com/helmdeck/repos/internal/workspace"
)

// Discards is the part of *workspace.Manager that the API uses.
type Discards interface {
	Discards() []workspace.Discard
	EvictDiscard(id string) error
}

// discard is a discard as the API returns it.
type discard struct {
	ID        string    `json:"id"`
	Volume    string    `json:"volume"`
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"`
	Commit    string    `json:"commit"`        // checked out when the workspace was made
	Ref       string    `json:"ref,omitempty"` // full name; empty for a commit
	EndedAt   time.Time `json:"ended_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// Changed is the number of files outside of .git that were written or removed; nil
	// until they are counted.
	Changed *int64 `json:"changed"`
	// Bytes is its size on disk; nil until it is measured.
	Bytes      *int64     `json:"bytes"`
	MeasuredAt *time.Time `json:"measured_at"`
}

func (c Config) listDiscards(*http.Request) (any, error) {
	discards := []discard{}
	for _, d := range c.Discards.Discards() {
		out := discard{
			ID: d.ID, Volume: d.Volume, Subject: d.Subject, Repo: d.Repo, Commit: d.Commit, Ref: d.Ref,
			EndedAt: d.EndedAt.UTC(), ExpiresAt: d.ExpiresAt.UTC(), Changed: d.Changed,
		}
		if at := d.Size.At.UTC(); !d.Size.At.IsZero() {
			out.Bytes, out.MeasuredAt = &d.Size.Bytes, &at
		}
		discards = append(discards, out)
	}
	return list{"discards": discards}, nil
}

func (c Config) removeDiscard(r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := c.Discards.EvictDiscard(id); err != nil {
		return nil, err
	}
	c.Log.WithContext(r.Context()).WithField("discard", id).Info("discard removed")
	return nil, nil
}
