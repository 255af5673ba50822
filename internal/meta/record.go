package meta

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
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
	// Empty in records of older versions.
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
	// Caches are the sizes of the dependency caches, by uid.
	Caches map[string]Measured `json:"caches,omitempty"`
	// Recent has what was mounted in the last day, to be kept ready; empty in records of
	// older versions.
	Recent []Recent `json:"recent,omitempty"`
	// Stores has the stores that were fetched at least once, by the name of their
	// history; never empty.
	Stores map[string]Store `json:"stores"`
}

// Recent is a checkout that a workspace was made of.
type Recent struct {
	// Options are those of the volume that decide what is checked out (volume.Checkout);
	// never a secret. They are not changed in place.
	Options map[string]string `json:"options"`
	At      time.Time         `json:"at"` // of the last time, to about a minute
}

// Copy returns a copy that shares nothing with c.
func (c Clone) Copy() Clone {
	c.Caches = maps.Clone(c.Caches)
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
	// RefCount is the number of branches and tags, and RefSum a hash of them, to compare
	// with the remote's list. Empty in records of older versions.
	RefCount  int       `json:"ref_count,omitempty"`
	RefSum    string    `json:"ref_sum,omitempty"`
	Head      string    `json:"head,omitempty"`
	FetchedAt time.Time `json:"fetched_at"`
	// Refs are the resolutions of the refs that volumes named, by the volume's name for
	// it ("HEAD" is the remote's).
	Refs map[string]Resolution `json:"refs,omitempty"`
	// Size is the size of the bare repository after the last fetch.
	Size Measured `json:"size,omitzero"`
}

// Resolution is what a ref pointed to when it was last fetched.
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
	// Commit is the commit of a tree or a git layer, and Store the name of the store
	// whose objects it needs.
	Commit string `json:"commit,omitempty"`
	Store  string `json:"store,omitempty"`
	// Shape identifies all that a tree was made from except the commit: trees of one
	// shape can share layers.
	Shape string `json:"shape,omitempty"`
	// TracksCache is set when the commit has a .hdcache of its own.
	TracksCache bool `json:"tracks_cache,omitempty"`
	// Modules is what a tree's submodules add to the repository's configuration.
	Modules string `json:"modules,omitempty"`
	// Snapshot identifies the store's refs that a git layer has.
	Snapshot string `json:"snapshot,omitempty"`
	// Of is the chain that a warm layer was copied from, if it was.
	Of []string `json:"of,omitempty"`
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

// UnmarshalJSON also reads version 2, which had the number of mounts by mount ID.
func (l *Leases) UnmarshalJSON(data []byte) error {
	var counts map[string]int
	if json.Unmarshal(data, &counts) != nil {
		return json.Unmarshal(data, (*[]string)(l))
	}
	*l = nil
	for id, n := range counts {
		for i := range n {
			*l = l.With(NthLease(id, i+1))
		}
	}
	return nil
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
func (w Workspace) Lasts() bool { return w.Kept() || w.Phase == Discarded }

// Workspace is a writable overlay, or the discard that is left of one.
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
	Shallow bool   `json:"shallow,omitempty"`
	Leases  Leases `json:"leases,omitempty"`
	// Options are the volume's canonical options with which it was made or restored.
	Options map[string]string `json:"options,omitempty"`
	// Metacopy is the mount's option, which never changes, because the upper is valid
	// only with it.
	Metacopy bool `json:"metacopy,omitempty"`
	// Redirects is the option of a mount without metacopy, as with warm paths: their
	// content must be complete without the lower layers.
	Redirects bool `json:"redirects,omitempty"`
	// Orphan is set when its overlay was unmounted while it had leases: containers that
	// outlived a disabled plugin or a killed engine may still use it.
	Orphan bool `json:"orphan,omitempty"`
	// Lost are the lost leases of a private workspace: their containers may still use it.
	Lost []string `json:"lost,omitempty"`
	// NoCache says why it was mounted again without the cache that its volume asks for;
	// empty if it has the cache.
	NoCache string `json:"no_cache,omitempty"`
	// NoHelper says why it was mounted again without the credential helper; empty if it has that,
	// or its volume hands out no credential.
	NoHelper string `json:"no_helper,omitempty"`
	// Restored is set if its volume was made by restoring this workspace as a discard.
	Restored  bool      `json:"restored,omitempty"`
	Boot      string    `json:"boot"`
	MountedAt time.Time `json:"mounted_at"`
	// EndedAt is when its last lease ended.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Size is the size of its upper.
	Size Measured `json:"size,omitzero"`
	// Foreign is a uid other than UID that wrote files; nil if no such file was found.
	Foreign *uint32 `json:"foreign,omitempty"`
	// Changed is the number of files of a discard, outside of .git, that differ from its
	// layers; nil until they are counted.
	Changed *int64 `json:"changed,omitempty"`
}

// WarmPath is an untracked directory of a workspace that is carried over to the
// next one.
type WarmPath struct {
	Path string `json:"path"`
	// Head is the key of the WarmHead that the workspace may move.
	Head string `json:"head"`
	// From is the key of the default branch's head, if the chain was taken from there.
	From string `json:"from,omitempty"`
	// Chain has the IDs of the warm layers below it, topmost first; empty if there were
	// none. A workspace may move the head only if its chain is still this one.
	Chain []string `json:"chain,omitempty"`
	// LeftOut says why the path is not warm in this workspace: it has no warm layers, and
	// is not published.
	LeftOut string `json:"left_out,omitempty"`
	// ReadOnly is set if the path must not be published (cache=readonly).
	ReadOnly bool `json:"read_only,omitempty"`
}

// WarmHead says which warm layers the next workspace of its key gets.
type WarmHead struct {
	Clone string `json:"clone"`
	Key   string `json:"key"` // a hash of the five fields below
	Path  string `json:"path"`
	UID   uint32 `json:"uid"`
	GID   uint32 `json:"gid"`
	Ref   string `json:"ref"`
	Text  string `json:"text,omitempty"` // the volume's warm_key
	// Chain has the IDs of its layers, topmost first. Empty: a workspace removed the
	// directory, and that of the default branch does not replace it.
	Chain   []string  `json:"chain"`
	MovedAt time.Time `json:"moved_at"`
	// Used is when a workspace last used it, to about a minute; zero means MovedAt.
	Used time.Time `json:"used,omitzero"`
}

func (h WarmHead) key() string { return h.Clone + "/" + h.Key }
