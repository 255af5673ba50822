package api

import (
	"context"
	"net/http"
	"time"
)

// Prune says what to remove of what nothing uses.
type Prune struct {
	// DryRun only says what would be removed.
	DryRun bool `json:"dry_run,omitempty"`
	// All removes clones too that a volume names and no container has: its next mount clones again.
	All bool `json:"all,omitempty"`
	// Checkpoints removes checkpoints too. Nothing can begin with them then.
	Checkpoints bool `json:"checkpoints,omitempty"`
	// Unused is for how long nobody must have used it.
	Unused time.Duration `json:"unused_ns,omitempty"`
	// Subject and Repo select what belongs to a subject, or to a repository by its URL.
	Subject string `json:"subject,omitempty"`
	Repo    string `json:"repo,omitempty"`
}

// Pruned lists the clones and checkpoints that a prune removed, or would remove.
type Pruned struct {
	Evicted []Eviction `json:"evicted"`
	Frees   Size       `json:"frees"`
	// Held counts what came into use meanwhile, and the clones that only work uses, which ends: a fetch, a build, or a
	// mount that begins. Failed counts what could not be removed.
	Held   int `json:"held,omitempty"`
	Failed int `json:"failed,omitempty"`
}

// Prune makes the plugin remove what nothing uses: clones that no volume names and no container has,
// and trees that nothing needs.
func (c *Client) Prune(ctx context.Context, p Prune) (r Pruned, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/prune", p, &r)
	return r, err
}
