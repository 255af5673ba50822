package janitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Inventory is everything that takes space now. The planner does not modify it.
type Inventory struct {
	Now   time.Time
	Space disk.Space // of the filesystem; 0 total inodes: it does not count them
	// Trash is the size of all that is being deleted. It counts as free: nothing is evicted
	// for bytes that go already.
	Trash disk.Size
	// Own is the size of all that is neither a clone nor going: the plugin's own files, and
	// what could not be deleted. It counts for Limits.MaxSize.
	Own    disk.Size
	Clones []Clone
	// SubjectMaxSize has the subjects whose limit is not Limits.SubjectMaxSize, with that
	// limit in bytes; zero means no limit.
	SubjectMaxSize map[string]int64
}

// Clone is one clone with its parts.
type Clone struct {
	Key     string
	Subject string
	Repo    string // for people
	Made    int64  // see Stamp
	Used    int64  // likewise
	// Mounted is set once it had a workspace. Before that it is protected for
	// Limits.Grace, because its first mount is probably about to come.
	Mounted bool
	// Use is that of the clone itself, without its parts.
	Use Use
	// Size is that of its stores, its LFS objects and the warm layers that several heads
	// share, which are evicted only with the clone.
	Size        disk.Size
	LFS, Common disk.Size // of Size: the LFS objects, and the warm layers that several heads have in common
	Parts       []Part
}

// Part is a part of a clone that is measured on its own.
type Part struct {
	ID     string
	Volume string // of an upper or a checkpoint
	Used   int64  // of a checkpoint: when its workspace ended
	Size   disk.Size
	// Unmeasured is set for an upper whose size is not known yet; Size is zero then.
	Unmeasured bool
	Limit      disk.Size // of an upper; zero for no limit
	// Below are the IDs of the layers that a layer stands on, or of the checkpoints that a checkpoint does, from the top. Each
	// has, in turn, those that follow it. They go after it, however long ago they were used. Depth orders the layers of a cache in the same way: the deepest goes first.
	Below []string
	// Merged are the IDs of checkpoints with which a checkpoint shares files. If room is needed they go after it; they
	// expire as any others.
	Merged []string
	Depth  int
	Kind   Kind
	Use    Use
	// Named is set for a checkpoint with a name.
	Named bool
	// Needed is set for a tree or a git layer that the next mount of a ref would use.
	Needed bool
}

// Stamp returns a time as inventories have it: seconds since 1970; 0 for the zero time.
func Stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// Kind is the kind of a part, or WholeClone.
type Kind uint8

const (
	WholeClone Kind = iota
	Checkpoint
	Tree
	GitLayer
	Warm
	// Cache is a layer of a dependency cache. The others of that cache stay of use without it.
	Cache
	// Upper is what a workspace other than a checkpoint has written: it counts, and is never
	// evicted.
	Upper
)

// EvictableKinds lists the kinds of what is evicted.
func EvictableKinds() []Kind { return []Kind{WholeClone, Checkpoint, Tree, GitLayer, Warm, Cache} }

var kindNames = []string{"clone", "checkpoint", "tree", "git layer", "warm layer", "cache", "workspace"}

func (k Kind) String() string { return name(kindNames, uint8(k)) }

// ParseKind returns the kind whose String is text.
func ParseKind(text string) (k Kind, ok bool) {
	i := slices.Index(kindNames, text)
	return Kind(max(i, 0)), i >= 0
}

// Hold is why something can't be evicted.
type Hold uint8

const (
	Free           Hold = iota
	Leased              // a container has it
	Pending             // a Create or a Mount waits for it
	Kept                // by a volume with mode=keep
	Pinned              // a workspace or a checkpoint uses it as a layer
	Busy                // the kernel says that a container still uses it
	Failed              // a recent eviction failed
	JustMade            // within Limits.Grace
	ExceedsAll          // in use or just used, and larger than the limit on its own
	Working             // a fetch or a build that nobody waits for works on it
	HasCheckpoints      // it has checkpoints: an operator removes them first
	HasNamed            // it has checkpoints with names, which the janitor never removes
)

var holdNames = []string{
	"free", "in use by a container", "being fetched or built", "kept by its volume (mode=keep)",
	"a workspace or checkpoint stands on it", "still used by a container that kept it", "its eviction failed, and is tried again later",
	"just made", "larger than the limit on its own, and just used", "being fetched or built, while nobody waits for it",
	"it has checkpoints", "it has checkpoints with names",
}

func (h Hold) String() string { return name(holdNames, uint8(h)) }

// or returns h, or other if h is Free.
func (h Hold) or(other Hold) Hold {
	if h == Free {
		return other
	}
	return h
}

// and returns the hold to report if both apply.
func (h Hold) and(other Hold) Hold {
	if h == Free || other == Free {
		return max(h, other)
	}
	return min(h, other)
}

func name(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}
