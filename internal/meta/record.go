package meta

import (
	"fmt"
	"maps"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Measured is a size and when it was measured; the zero value is not measured yet.
type Measured struct {
	disk.Size
	At time.Time `json:"at,omitzero"`
}

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
	// Used is when a Create or Mount last used it, to the minute or so: what the
	// janitor calls recent. Zero is CreatedAt.
	Used time.Time `json:"used,omitzero"`
	// LFS is the size of its LFS objects.
	LFS Measured `json:"lfs,omitzero"`
	// Caches are the sizes of the dependency caches, by uid.
	Caches map[string]Measured `json:"caches,omitempty"`
	// Stores are those that were fetched at least once, by the name of their
	// history; never empty.
	Stores map[string]Store `json:"stores"`
}

// Copy returns a copy that shares nothing with c.
func (c Clone) Copy() Clone {
	c.Caches = maps.Clone(c.Caches)
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
	ClonedAt time.Time `json:"cloned_at"`
	Snapshot string    `json:"snapshot"` // identifies the refs: a hash of all of them
	// RefCount is the number of branches and tags, and RefSum a hash of them, which
	// is compared with what the remote lists. Empty in the record of an older version.
	RefCount  int       `json:"ref_count,omitempty"`
	RefSum    string    `json:"ref_sum,omitempty"`
	Head      string    `json:"head,omitempty"`
	FetchedAt time.Time `json:"fetched_at"`
	// Refs are the resolutions of the refs that volumes have named, by the
	// volume's word for it ("HEAD" is the remote's).
	Refs map[string]Resolution `json:"refs,omitempty"`
	// Size is that of the bare repository, as of the last fetch.
	Size Measured `json:"size,omitzero"`
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

// Kind is a kind of layer, in words.
type Kind string

const (
	Tree      Kind = "tree"
	GitLayer  Kind = "git layer"
	WarmLayer Kind = "warm layer" // build state that was promoted from a workspace that has ended
)

// Layer is an immutable directory of a clone that workspaces stand on.
type Layer struct {
	Kind  Kind   `json:"-"` // which the bucket says
	Clone string `json:"clone"`
	ID    string `json:"id"` // unique in its kind
	// Durable is set once the layer is known to be on disk. Until then it is
	// good for this boot only.
	Durable   bool      `json:"durable,omitempty"`
	Boot      string    `json:"boot"`
	CreatedAt time.Time `json:"created_at"`
	// Used is, of a tree and a git layer, when a workspace last stood on it, to the
	// minute or so. Zero is CreatedAt.
	Used time.Time `json:"used,omitzero"`
	// Size is what this layer alone adds: without the layers below it, and without
	// the packs of the store that it links.
	Size Measured `json:"size,omitzero"`
	// Chain are the directories of a tree, topmost first, the layer's own among
	// them; it lets a tree stand on another one's layers.
	Chain []string `json:"chain,omitempty"`
	// Commit is that of a tree or a git layer, and Store the name of the store whose
	// objects it needs.
	Commit string `json:"commit,omitempty"`
	Store  string `json:"store,omitempty"`
	// Shape is, of a tree, all that it was made from but the commit: trees of one
	// shape can stand on each other.
	Shape string `json:"shape,omitempty"`
	// TracksCache is set when the commit has a .hdcache of its own.
	TracksCache bool `json:"tracks_cache,omitempty"`
	// Modules is, of a tree, what its submodules add to the repository's
	// configuration.
	Modules string `json:"modules,omitempty"`
	// Snapshot is, of a git layer, the refs of the store that it shows.
	Snapshot string `json:"snapshot,omitempty"`
	// Of is, of a warm layer that was made by copying, the chain whose content it
	// has.
	Of []string `json:"of,omitempty"`
}

func (l Layer) key() string { return l.Clone + "/" + l.ID }

// Stack returns the IDs of the layer and of those that it stands on, topmost first.
func (l Layer) Stack() []string {
	if len(l.Chain) > 0 {
		return l.Chain
	}
	return []string{l.ID}
}

// Phase is where a workspace is in its life. Package workspace has the table of its
// transitions.
type Phase string

const (
	// Making: its directory is being made. No record on disk has this phase.
	Making Phase = "making"
	// Mounted: its overlay is mounted. Only a mounted workspace has leases, and one
	// without leases is kept by its volume.
	Mounted Phase = ""
	// Parked: its volume keeps it, and its overlay is not mounted.
	Parked Phase = "parked"
	// Ended: no volume and no lease holds it. It and its layers stay until the kernel
	// says that no container uses it; then it is discarded or removed.
	Ended Phase = "ended"
	// Discarded: no container uses it, and its upper is kept so that it can be restored.
	// A discard is a workspace in this phase, and its ID is the workspace's.
	Discarded Phase = "discarded"
)

// String names a phase in errors and logs.
func (p Phase) String() string {
	if p == Mounted {
		return "mounted"
	}
	return string(p)
}

// check refuses a workspace that can't be.
func (w Workspace) check() error {
	switch {
	case w.Phase == Making:
		return fmt.Errorf("workspace %s is being made: it has no record yet", w.ID)
	case w.Phase != Mounted && len(w.Leases) > 0:
		return fmt.Errorf("workspace %s is %s: it can't have leases", w.ID, w.Phase)
	}
	return nil
}

// Live reports whether a lease or a volume holds a workspace of this phase.
func (p Phase) Live() bool { return p == Mounted || p == Parked }

// Workspace is a writable overlay, or the discard that is left of one.
type Workspace struct {
	ID    string `json:"id"`
	Phase Phase  `json:"state,omitempty"`
	// Mode is the volume's when it was made: private, shared or keep.
	Mode     string   `json:"mode,omitempty"`
	Clone    string   `json:"clone"`
	Volume   string   `json:"volume"`
	Tree     string   `json:"tree"`      // layer ID
	Chain    []string `json:"chain"`     // of the tree
	GitLayer string   `json:"git_layer"` // layer ID
	// Warm are the warm paths of the volume, with the layers that the workspace
	// stands on, if there were any.
	Warm   []WarmPath     `json:"warm,omitempty"`
	UID    uint32         `json:"uid,omitempty"`
	GID    uint32         `json:"gid,omitempty"`
	Ref    string         `json:"ref,omitempty"`
	Commit string         `json:"commit"`
	Pulled string         `json:"pulled"`
	Reused bool           `json:"reused"`
	Stale  bool           `json:"stale,omitempty"`
	Leases map[string]int `json:"leases,omitempty"` // mount ID: how often it was mounted
	// Options are those of the volume, canonical, with which it was made or restored.
	Options map[string]string `json:"options,omitempty"`
	// Metacopy says how it is mounted, for ever: an upper means something only to
	// the same kind of mount.
	Metacopy bool `json:"metacopy,omitempty"`
	// Redirects says so of a mount without metacopy, which those with warm paths
	// have: what they write must be complete in itself.
	Redirects bool `json:"redirects,omitempty"`
	// Orphan is set when its overlay was gone while leases held it: containers that
	// outlived a disabled plugin or a killed engine may still use it.
	Orphan bool `json:"orphan,omitempty"`
	// Lost are the mount IDs of the leases that a private workspace has lost: their
	// containers may still use it.
	Lost []string `json:"lost,omitempty"`
	// NoCache says why it was mounted again without the cache that its volume asks
	// for; empty if it has it.
	NoCache string `json:"no_cache,omitempty"`
	// Restored is set once it was a discard, and its volume made from that.
	Restored  bool      `json:"restored,omitempty"`
	Boot      string    `json:"boot"`
	MountedAt time.Time `json:"mounted_at"`
	// EndedAt is when its last lease went.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Size is that of its upper.
	Size Measured `json:"size,omitzero"`
	// Changed is, of a discard, the number of files outside of .git that differ
	// from its layers; nil until they are counted.
	Changed *int64 `json:"changed,omitempty"`
}

// WarmPath is an untracked directory of a workspace that is carried over to the
// next one.
type WarmPath struct {
	Path string `json:"path"`
	// Head is the key of the WarmHead that the workspace may move.
	Head string `json:"head"`
	// From is the key of the head that the chain was taken from, if it is not its
	// own: the default branch's.
	From string `json:"from,omitempty"`
	// Chain are the IDs of the warm layers that it stands on, topmost first; empty
	// when there were none. A workspace may move the head only from here.
	Chain []string `json:"chain,omitempty"`
	// LeftOut says why the path is like any other in this workspace: nothing is
	// stacked, and nothing published.
	LeftOut string `json:"left_out,omitempty"`
	// ReadOnly is set where nothing may be published (cache=readonly).
	ReadOnly bool `json:"read_only,omitempty"`
}

// WarmHead says on which warm layers the next workspace of its key stands.
type WarmHead struct {
	Clone string `json:"clone"`
	Key   string `json:"key"` // a hash of the next five
	Path  string `json:"path"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Ref   string `json:"ref"`
	Text  string `json:"text,omitempty"` // the volume's warm_key
	// Chain are the IDs of its layers, topmost first. Empty: a workspace removed
	// the directory, and the default branch's does not take its place.
	Chain   []string  `json:"chain"`
	MovedAt time.Time `json:"moved_at"`
	// Used is when a workspace last stood on it, to the minute or so. Zero is
	// MovedAt.
	Used time.Time `json:"used,omitzero"`
}

func (h WarmHead) key() string { return h.Clone + "/" + h.Key }
