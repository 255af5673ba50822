package api

import (
	"context"
	"time"
)

// Work is something that is being done for a clone: a question to its remote, a fetch or a build.
type Work struct {
	ID      string `json:"id"` // unique
	Clone   string `json:"clone"`
	Subject string `json:"subject"`
	Repo    string `json:"repo"`
	// URL is that of the repository that it is about: another one than Repo for a submodule.
	URL   string `json:"url"`
	State string `json:"state"` // such as asking, cloning, fetching or checking out
	// Queued is set while it waits for its turn behind other work.
	Queued bool      `json:"queued"`
	Since  time.Time `json:"since"`
	// For says who began it, such as `a mount of volume "src"`.
	For string `json:"for,omitempty"`
	// Progress is how far it is, for people, such as "receiving objects 43% (1.20 GiB, 3.50 MiB/s)".
	// Objects of Total are done; zero if that is unknown.
	Progress string `json:"progress,omitempty"`
	Objects  int64  `json:"objects,omitempty"`
	Total    int64  `json:"total,omitempty"`
}

// Work lists the fetches and builds that run now, by clone, and of a clone the oldest first.
func (c *Client) Work(ctx context.Context, f Filter) ([]Work, error) {
	return list[Work](ctx, c, "work", f.query())
}
