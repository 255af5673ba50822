package meta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/volume"
)

// Measured is a size and the time of its measurement; the zero value means not measured
// yet.
type Measured struct {
	disk.Size
	At time.Time `json:"at,omitzero"`
}

// Volume is a named handle on a clone.
type Volume struct {
	Name      string            `json:"name"`
	Options   map[string]string `json:"options"` // canonical; never a secret
	CreatedAt time.Time         `json:"created_at"`
	// ID is that of the request that created it. It is in log lines and in the audit log.
	ID string `json:"id,omitempty"`
}

// Subject has the limits that an operator set for one subject, whether or not it has a clone.
type Subject struct {
	Name string `json:"name"`
	// MaxSize, in bytes, and MaxLeases take the place of the settings SUBJECT_MAX_SIZE and
	// SUBJECT_MAX_LEASES. Zero means no limit, and nil that the setting applies.
	MaxSize   *int64 `json:"max_size,omitempty"`
	MaxLeases *int   `json:"max_leases,omitempty"`
}

// Clone is everything kept for one (subject, repository).
type Clone struct {
	Key       string    `json:"key"` // also its directory below clones/
	Subject   string    `json:"subject"`
	Repo      string    `json:"repo"` // the normalized URL
	CreatedAt time.Time `json:"created_at"`
	// FirstMount is when the first workspace was made from it, zero before; later ones
	// count as reused.
	FirstMount time.Time `json:"first_mount,omitzero"`
	// Used is when a Create or Mount last used it, to about a minute; for the
	// janitor; zero means CreatedAt.
	Used time.Time `json:"used,omitzero"`
	// LFS is the size of its LFS objects.
	LFS Measured `json:"lfs,omitzero"`
	// Recent has what was mounted in the last day, to be kept ready.
	Recent []Recent `json:"recent,omitempty"`
	// Stores has the stores that were fetched at least once, by the name of their
	// history; never empty.
	Stores map[string]Store `json:"stores"`
}

// Recent is a checkout that a workspace was made of.
type Recent struct {
	// Options are those of the volume that decide what is checked out (volume.Checkout);
	// never a secret.
	Options Options   `json:"options"`
	At      time.Time `json:"at"` // of the last time, to about a minute
}

// Copy returns a copy that shares nothing with c.
func (c Clone) Copy() Clone {
	c.Recent = slices.Clone(c.Recent)
	c.Stores = maps.Clone(c.Stores)
	for name, s := range c.Stores {
		s.Refs = maps.Clone(s.Refs)
		c.Stores[name] = s
	}
	return c
}

// Store is the state of one of a clone's bare repositories after its last fetch.
type Store struct {
	// Format is the hash function of its objects: sha1 or sha256.
	Format string `json:"format"`
	// ClonedAt distinguishes a store from one that replaced it after damage.
	ClonedAt time.Time `json:"cloned_at"`
	Snapshot string    `json:"snapshot"` // identifies the refs: a hash of all of them
	// Sums are the sums of the branches ("refs/heads/") and of the tags ("refs/tags/"), to
	// compare with the remote's. The map is never changed, only replaced.
	Sums      map[string]gitref.Sum `json:"sums,omitempty"`
	Head      string                `json:"head,omitempty"`
	FetchedAt time.Time             `json:"fetched_at"`
	// Refs are the resolutions of the refs that volumes named, by the volume's name for
	// it ("HEAD" is the remote's).
	Refs map[string]Resolution `json:"refs,omitempty"`
	// Size is the size of the bare repository after the last fetch.
	Size Measured `json:"size,omitzero"`
}

// Resolution is what a ref pointed to when it was last fetched. That of the default branch of a
// repository without branches has neither Pulled nor Commit.
type Resolution struct {
	Ref    string    `json:"ref,omitempty"` // full name; empty for a commit
	Pulled string    `json:"pulled"`        // the object that the remote listed
	Commit string    `json:"commit"`        // the commit that Pulled is, or, as a tag, points to
	At     time.Time `json:"at"`            // when the remote last confirmed it
	// Stale is set if the remote did not answer and the stored resolution is used. It is
	// not stored.
	Stale bool `json:"-"`
}

// Kind is a kind of layer.
type Kind string

const (
	Tree      Kind = "tree"
	GitLayer  Kind = "git layer"
	WarmLayer Kind = "warm layer" // build state promoted from an ended workspace
)

// Layer is an immutable directory of a clone that workspaces use as a lower layer.
type Layer struct {
	Kind  Kind   `json:"-"` // known from the bucket
	Clone string `json:"clone"`
	ID    string `json:"id"` // unique in its kind
	// Durable is set once the layer was synced to disk. Until then it is valid for this
	// boot only.
	Durable   bool      `json:"durable,omitempty"`
	Boot      string    `json:"boot"`
	CreatedAt time.Time `json:"created_at"`
	// Used is when a workspace last used a tree or git layer, to about a minute; zero
	// means CreatedAt.
	Used time.Time `json:"used,omitzero"`
	// Size is that of this layer alone, without those below it and without the store's
	// packs that it links.
	Size Measured `json:"size,omitzero"`
	// Chain has the layer IDs of a tree, topmost first, its own included; so a tree can
	// be a delta on another one.
	Chain []string `json:"chain,omitempty"`
	// Commit is the commit of a tree or a git layer, empty for those of a repository without
	// branches, and Store the name of the store whose objects it needs.
	Commit string `json:"commit,omitempty"`
	Store  string `json:"store,omitempty"`
	// Shape identifies all that a tree was made from except the commit: trees of one
	// shape can share layers.
	Shape string `json:"shape,omitempty"`
	// TracksCache is set when the commit has a .hdcache of its own.
	TracksCache bool `json:"tracks_cache,omitempty"`
	// Modules is what a tree's submodules add to the repository's configuration.
	Modules string `json:"modules,omitempty"`
	// Missing lists the submodules that a tree lacks, and the patterns of its volumes that match
	// none. It is not changed in place.
	Missing []MissingSubmodule `json:"missing,omitempty"`
	// Snapshot identifies the store's refs that a git layer has.
	Snapshot string `json:"snapshot,omitempty"`
	// Of is the chain that a warm layer was copied from, if it was. Of a layer of a cache, it lists the layers that it may
	// share files with: those that it was merged from, and those that these were merged from.
	Of []string `json:"of,omitempty"`
	// Base is what the workspace of a warm layer was made on, and BuiltAt a time after its last write, and not before
	// those of its files, unless these are more than a day ahead. Edited is set if it had other files than its base. Of a
	// layer of times, Base is the tree that it is for.
	Base    Base      `json:"base,omitzero"`
	BuiltAt time.Time `json:"built_at,omitzero"`
	Edited  bool      `json:"edited,omitempty"`
	// Cache is set for a layer of a dependency cache.
	Cache   CachePart `json:"cache,omitempty"`
	Foreign *uint32   `json:"foreign,omitempty"` // owns files of a warm layer or below it; neither root nor the volume's
	// Fits makes a warm layer one of times: it lists the layers of heads that it was made for.
	Fits []string `json:"fits,omitempty"`
}

func (l Layer) key() string { return l.Clone + "/" + l.ID }

// Stack returns the IDs of the layer and of those below it, topmost first.
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
	// says that no container uses it; then it is checkpoint or removed.
	Ended Phase = "ended"
	// Checkpoint: no container uses it, and its upper is kept, and never changes, so that others can begin with it.
	// A checkpoint is a workspace in this phase, and its ID is the workspace's.
	Checkpoint Phase = "checkpoint"
)

// Made is the cause of a checkpoint.
type Made string

const (
	MadeByEnd    Made = ""       // its workspace has ended
	MadeByUser   Made = "user"   // it is a copy of a workspace that went on
	MadeByRewind Made = "rewind" // its volume went back to another one
)

// String names it for users.
func (m Made) String() string { return cmp.Or(string(m), "end") }

// String names a phase in errors and logs.
func (p Phase) String() string {
	if p == Mounted {
		return "mounted"
	}
	return string(p)
}

// Leases is a set of lease IDs, sorted. It is never changed in place.
type Leases []string

// Has reports whether the set has a lease.
func (l Leases) Has(id string) bool {
	_, ok := slices.BinarySearch(l, id)
	return ok
}

// Within reports whether another set has all leases of this one.
func (l Leases) Within(other Leases) bool {
	return !slices.ContainsFunc(l, func(id string) bool { return !other.Has(id) })
}

// With returns the set with one more lease.
func (l Leases) With(id string) Leases {
	at, ok := slices.BinarySearch(l, id)
	if ok {
		return l
	}
	return slices.Insert(slices.Clone(l), at, id)
}

// Without returns the set without a lease.
func (l Leases) Without(id string) Leases {
	return slices.DeleteFunc(slices.Clone(l), func(other string) bool { return other == id })
}

// Of returns the leases of a holder.
func (l Leases) Of(holder string) Leases {
	return slices.DeleteFunc(slices.Clone(l), func(id string) bool { of, _ := HolderOf(id); return of != holder })
}

// NthLease returns the ID of the n-th lease of one holder, counted from 1: Docker mounts a
// volume more than once with the ID of one container.
func NthLease(holder string, n int) string {
	if n == 1 {
		return holder
	}
	return holder + "#" + strconv.Itoa(n)
}

// HolderOf is the inverse of NthLease.
func HolderOf(lease string) (holder string, n int) {
	holder, number, ok := strings.Cut(lease, "#")
	if n, err := strconv.Atoi(number); ok && err == nil {
		return holder, n
	}
	return holder, 1
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

// Kept reports whether the workspace's volume keeps it (mode=keep).
func (w Workspace) Kept() bool { return w.Mode == string(volume.ModeKeep) }

// Private reports whether each mount of the workspace's volume has one of its own.
func (w Workspace) Private() bool { return w.Mode == string(volume.ModePrivate) }

// Lasts reports whether the workspace survives a crash of the machine. Its record says so only
// when it is on disk, with all its layers.
func (w Workspace) Lasts() bool { return w.Kept() || w.Phase == Checkpoint }

// Workspace is a writable overlay, or a checkpoint.
type Workspace struct {
	ID    string `json:"id"`
	Phase Phase  `json:"state,omitempty"`
	// Mode is the volume's mode when the workspace was made: private, shared or keep.
	Mode     string   `json:"mode,omitempty"`
	Clone    string   `json:"clone"`
	Volume   string   `json:"volume"`
	VolumeID string   `json:"volume_id,omitempty"` // Volume.ID
	Tree     string   `json:"tree"`                // layer ID
	Chain    []string `json:"chain"`               // of the tree
	GitLayer string   `json:"git_layer"`           // layer ID
	// Warm are the warm paths of the volume, with the layers that the workspace uses, if
	// there were any.
	Warm   []WarmPath `json:"warm,omitempty"`
	UID    uint32     `json:"uid,omitempty"`
	GID    uint32     `json:"gid,omitempty"`
	Ref    string     `json:"ref,omitempty"`
	Commit string     `json:"commit"`
	Pulled string     `json:"pulled"`
	Reused bool       `json:"reused"`
	Stale  bool       `json:"stale,omitempty"`
	// Shallow is set if it has the newest commits alone, because of cold=shallow.
	Shallow bool `json:"shallow,omitempty"`
	// Missing is that of its tree.
	Missing []MissingSubmodule `json:"missing,omitempty"`
	Leases  Leases             `json:"leases,omitempty"`
	// Options are the volume's canonical options with which it was made.
	Options map[string]string `json:"options,omitempty"`
	// Metacopy is the mount's option, which never changes, because the upper is valid
	// only with it.
	Metacopy bool `json:"metacopy,omitempty"`
	// Orphan is set when its overlay was unmounted while it had leases: containers that
	// outlived a disabled plugin or a killed engine may still use it.
	Orphan bool `json:"orphan,omitempty"`
	// Lost are the lost leases of a private workspace: their containers may still use it.
	Lost []string `json:"lost,omitempty"`
	// NoHelper says why it was mounted again without the credential helper; empty if it has that,
	// or its volume hands out no credential.
	NoHelper string `json:"no_helper,omitempty"`
	// From has the IDs of the checkpoints whose uppers it stands on, topmost first. It has the same layers, commit and
	// Metacopy as they.
	From []string `json:"from,omitempty"`
	// OnMerged is set if it stands on what the last one of From became when it was merged, and not on what that was before.
	OnMerged bool `json:"on_merged,omitempty"`
	// Merged has the IDs of the checkpoints whose uppers a checkpoint has merged with its own, topmost first. It had them
	// in From. Others may still stand on what it was before.
	Merged []string `json:"merged,omitempty"`
	// Whole is what the files of a merged checkpoint take, also those that count for others, which have them too.
	Whole disk.Size `json:"whole,omitzero"`
	// Made is the cause of a checkpoint.
	Made Made `json:"made,omitempty"`
	// Name and Message are what a user gave a checkpoint; empty for none. One with a name does not expire.
	Name      string    `json:"name,omitempty"`
	Message   string    `json:"message,omitempty"`
	Boot      string    `json:"boot"`
	MountedAt time.Time `json:"mounted_at"`
	// EndedAt is when its last lease ended.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Size is the size of its upper.
	Size Measured `json:"size,omitzero"`
	// Limit is the most that its container may write, zero for no limit.
	Limit disk.Size `json:"limit,omitzero"`
	// Project is the ID of the project that its upper is, if it was made with a limit. No other workspace has it.
	Project uint32 `json:"project,omitempty"`
	// Foreign is a uid other than UID that wrote files; nil if no such file was found.
	Foreign *uint32 `json:"foreign,omitempty"`
	// Changed is the number of files of a checkpoint, outside of .git, that differ from its
	// layers; nil until they are counted.
	Changed *int64 `json:"changed,omitempty"`
}
