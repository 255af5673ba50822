package meta

import (
	"maps"
	"time"
)

// Volume is a named handle on a clone.
type Volume struct {
	Name      string            `json:"name"`
	Options   map[string]string `json:"options"` // canonical; never a secret
	CreatedAt time.Time         `json:"created_at"`
}

// Clone is everything kept for one (subject, repository).
type Clone struct {
	Key       string    `json:"key"` // also its directory below clones/
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"` // the normalized URL
	CreatedAt time.Time `json:"created_at"`
	// FirstMount is when a workspace was first made of it: from then on it is
	// reused. Zero before.
	FirstMount time.Time `json:"first_mount,omitzero"`
	// Stores are those that were fetched at least once, by the name of their
	// history; never empty.
	Stores map[string]Store `json:"stores"`
}

// Copy returns a copy that shares nothing with c.
func (c Clone) Copy() Clone {
	c.Stores = maps.Clone(c.Stores)
	for name, s := range c.Stores {
		s.Refs = maps.Clone(s.Refs)
		c.Stores[name] = s
	}
	return c
}

// Store is what the last fetch brought into one of a clone's bare repositories.
type Store struct {
	// Format is the hash of its objects: sha1 or sha256.
	Format string `json:"format"`
	// ClonedAt tells a store from one that took the place of a damaged one.
	ClonedAt  time.Time `json:"cloned_at"`
	Snapshot  string    `json:"snapshot"` // identifies the refs: a hash of all of them
	Head      string    `json:"head,omitempty"`
	FetchedAt time.Time `json:"fetched_at"`
	// Refs are the resolutions of the refs that volumes have named, by the
	// volume's word for it ("" is the remote's HEAD).
	Refs map[string]Resolution `json:"refs,omitempty"`
}

// Resolution is what a ref stood for when it was last fetched.
type Resolution struct {
	Ref    string    `json:"ref,omitempty"` // full name; empty for a commit
	Pulled string    `json:"pulled"`        // the object that the remote named
	Commit string    `json:"commit"`        // the commit behind it
	At     time.Time `json:"at"`            // when the remote was last asked and agreed
	// Stale is set in an answer that was given because the remote did not. It is
	// not stored.
	Stale bool `json:"-"`
}

// Layer is an immutable directory of a clone that workspaces stand on: a tree
// or a git layer.
type Layer struct {
	Clone string `json:"clone"`
	ID    string `json:"id"`
	// Chain are the directories of a tree, topmost first, the layer's own among
	// them; it lets a tree stand on another one's layers.
	Chain  []string `json:"chain,omitempty"`
	Commit string   `json:"commit"`
	// TracksCache is set when the commit has a .hdcache of its own.
	TracksCache bool `json:"tracks_cache,omitempty"`
	// Modules is, of a tree, what its submodules add to the repository's
	// configuration.
	Modules string `json:"modules,omitempty"`
	// Store is the name of the store whose objects the layer needs.
	Store string `json:"store"`
	// Snapshot is, of a git layer, the refs of the store that it shows.
	Snapshot string `json:"snapshot,omitempty"`
	// Durable is set once the layer is known to be on disk. Until then it is
	// good for this boot only.
	Durable   bool      `json:"durable,omitempty"`
	Boot      string    `json:"boot"`
	CreatedAt time.Time `json:"created_at"`
}

func (l Layer) key() string { return l.Clone + "/" + l.ID }

// Workspace is a writable overlay. Leases hold it; when the last one is gone it
// has ended, and its record stays, and keeps the layers, until the kernel says
// that no container uses it any more.
type Workspace struct {
	ID        string         `json:"id"`
	Clone     string         `json:"clone"`
	Volume    string         `json:"volume"`
	Tree      string         `json:"tree"`      // layer ID
	Chain     []string       `json:"chain"`     // of the tree
	GitLayer  string         `json:"git_layer"` // layer ID
	Ref       string         `json:"ref,omitempty"`
	Commit    string         `json:"commit"`
	Pulled    string         `json:"pulled"`
	Reused    bool           `json:"reused"`
	Stale     bool           `json:"stale,omitempty"`
	Leases    map[string]int `json:"leases,omitempty"` // mount ID: how often it was mounted
	MountedAt time.Time      `json:"mounted_at"`
}
