package api

import (
	"context"
	"net/http"
	"time"
)

// Plan lists evictions, in their order, and what they can't solve.
type Plan struct {
	Evictions []Eviction `json:"evictions"`
	// More is set if there is more to evict than one plan holds.
	More  bool `json:"more,omitempty"`
	Frees Size `json:"frees"`
	// Used is the size for which MAX_SIZE evicts, before the evictions: all but the trash, which
	// goes already.
	Used  Size  `json:"used"`
	Trash Size  `json:"trash"` // being deleted
	Space Space `json:"space"`
	// Late counts the late clones and parts that are left for the next sweeps.
	Late int `json:"late,omitempty"`
	// Missing are the limits that stay exceeded after the evictions, Holders what can't be
	// freed then, largest first, and TooLarge the clones that exceed a limit on their own.
	Missing  []Missing  `json:"missing,omitempty"`
	Holders  []Holder   `json:"holders,omitempty"`
	TooLarge []TooLarge `json:"too_large,omitempty"`
}

// Eviction is the eviction of one clone, or of a part of it.
type Eviction struct {
	// Kind is clone, checkpoint, tree, git layer, warm layer or cache.
	Kind string `json:"kind"`
	// Reason is expired, ttl, unneeded, subject_max_size, max_size, min_free, enospc, on_demand or
	// pruned.
	Reason   string        `json:"reason"`
	Subject  string        `json:"subject"`
	Clone    string        `json:"clone"`
	ID       string        `json:"id,omitempty"`     // of a part
	Volume   string        `json:"volume,omitempty"` // of a checkpoint
	Size     Size          `json:"size"`
	Text     string        `json:"text"` // why, for people
	TooLarge bool          `json:"too_large,omitempty"`
	Unused   time.Duration `json:"unused_ns"` // since its last use
}

// Missing is a limit that stays exceeded.
type Missing struct {
	Reason  string `json:"reason"`
	Subject string `json:"subject,omitempty"`
	Size    Size   `json:"size"` // of the excess
	Text    string `json:"text"`
}

// Holder is something that takes space and can't be evicted.
type Holder struct {
	Clone   string `json:"clone"`
	Repo    string `json:"repo"`
	Subject string `json:"subject"`
	Volume  string `json:"volume,omitempty"` // of a workspace or a checkpoint
	// Checkpoint is the ID of a checkpoint.
	Checkpoint string `json:"checkpoint,omitempty"`
	Size       Size   `json:"size"`
	Unmeasured bool   `json:"unmeasured,omitempty"` // its size is not known yet
	Held       string `json:"held"`                 // why
}

// TooLarge is a clone that exceeds a limit on its own.
type TooLarge struct {
	Clone   string `json:"clone"`
	Repo    string `json:"repo"`
	Subject string `json:"subject"`
	Size    int64  `json:"size"` // bytes
	Limit   int64  `json:"limit"`
	Reason  string `json:"reason"` // max_size or subject_max_size
	// Grace is how long it is exempt after its last use.
	Grace time.Duration `json:"grace_ns"`
}

// Report is the result of a sweep.
type Report struct {
	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"`
	Evicted []Eviction    `json:"evicted"`
	Frees   Size          `json:"frees"`
	// Held counts the planned evictions that a new use prevented, Failed those that failed.
	Held   int `json:"held,omitempty"`
	Failed int `json:"failed,omitempty"`
	// Left is the plan after the sweep.
	Left Plan `json:"left"`
}

// Stats are figures of all that the plugin has, and of what it did since its start.
type Stats struct {
	Subjects    int `json:"subjects"`
	Clones      int `json:"clones"`
	Volumes     int `json:"volumes"`
	Workspaces  int `json:"workspaces"` // without checkpoints
	Checkpoints int `json:"checkpoints"`
	Leases      int `json:"leases"`
	// Size is the sum of the classes. Trash is what is being deleted. Own is what the plugin's own
	// files take, and what could not be deleted. Space is that of the filesystem. The sum of
	// Size, Trash and Own counts for MaxSize.
	Size    Size    `json:"size"`
	Classes Classes `json:"classes"`
	Trash   Size    `json:"trash"`
	Own     Size    `json:"own"`
	Space   Space   `json:"space"`
	// MaxSize is that of everything in the data directory, in bytes; 0 for no limit. MinFree is the share of the
	// filesystem to keep free, 0 to 1.
	MaxSize int64   `json:"max_size"`
	MinFree float64 `json:"min_free"`

	Counts   []Count   `json:"counts"`
	Findings []Finding `json:"findings"`
	// FindingsAt is when the findings were found: at the last sweep, or when room was last sought in vain; zero before.
	FindingsAt time.Time `json:"findings_at,omitzero"`
	Last       Report    `json:"last"` // sweep
}

// Count is the number and total size of events of one type, kind and reason.
type Count struct {
	Type   string `json:"type"`
	Kind   string `json:"kind,omitempty"`
	Reason string `json:"reason,omitempty"`
	Times  int64  `json:"times"`
	Size   Size   `json:"size"`
}

// Finding is a problem that eviction can't solve.
type Finding struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // the limit concerned
	Clone  string    `json:"clone,omitempty"`
	Volume string    `json:"volume,omitempty"`
	ID     string    `json:"id,omitempty"` // of a workspace
	// Size is how large it is, or how much is missing, and Growth how much it grew since the
	// sweep before, in bytes.
	Size   Size   `json:"size"`
	Growth int64  `json:"growth"`
	Text   string `json:"text"`
}

// Plan returns what a sweep would evict now, and why.
func (c *Client) Plan(ctx context.Context) (p Plan, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/plan", nil, &p)
	return p, err
}

// Sweep makes the plugin evict what its limits demand, and returns what it evicted.
func (c *Client) Sweep(ctx context.Context) (r Report, err error) {
	err = c.call(ctx, http.MethodPost, "/v1/sweep", nil, &r)
	return r, err
}

// Stats returns figures.
func (c *Client) Stats(ctx context.Context) (s Stats, err error) {
	err = c.call(ctx, http.MethodGet, "/v1/stats", nil, &s)
	return s, err
}
