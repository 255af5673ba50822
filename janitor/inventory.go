package janitor

import (
	"fmt"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Inventory is everything that takes space now. The planner does not modify it.
type Inventory struct {
	Now   time.Time
	Space disk.Space // of the filesystem; 0 total inodes: it does not count them
	// Trash is the size of all that is being deleted. It counts as free.
	Trash  disk.Size
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
	// Held says why the clone can't be evicted as a whole; Free if it is idle.
	Held Hold
	// Size is that of its stores, its LFS objects and the warm layers that several heads
	// share, which are evicted only with the clone.
	Size        disk.Size
	LFS, Shared disk.Size // of Size: the LFS objects, and the shared warm layers
	Parts       []Part
}

// Part is a part of a clone that is measured on its own.
type Part struct {
	ID     string
	Volume string // of an upper or a discard
	Used   int64  // of a discard: when its workspace ended
	Size   disk.Size
	Kind   Kind
	Held   Hold
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
	Discard
	Tree
	GitLayer
	Warm
	Cache
	// Upper is what a workspace other than a discard has written: it counts, and is never
	// evicted.
	Upper
)

// EvictableKinds lists the kinds of what is evicted.
func EvictableKinds() []Kind { return []Kind{WholeClone, Discard, Tree, GitLayer, Warm, Cache} }

var kindNames = []string{"clone", "discard", "tree", "git layer", "warm layer", "cache", "workspace"}

func (k Kind) String() string { return name(kindNames, uint8(k)) }

// Hold is why something can't be evicted.
type Hold uint8

const (
	Free       Hold = iota
	Leased          // a container has it
	Pending         // a Create or a Mount waits for it
	Kept            // by a volume with mode=keep
	Restoring       // a volume is being made of it
	Pinned          // a workspace or a discard uses it as a layer
	Busy            // the kernel says that a container still uses it
	Failed          // a recent eviction failed
	JustMade        // within Limits.Grace
	ExceedsAll      // used within Limits.Grace, and larger than the limit on its own
	Working         // a fetch or a build that nobody waits for works on it
)

var holdNames = []string{
	"free", "in use by a container", "being fetched or built", "kept by its volume (mode=keep)", "being restored",
	"a workspace or discard stands on it", "still used by a container that kept it", "its eviction failed, and is tried again later",
	"just made", "larger than the limit on its own, and just used", "being fetched or built, while nobody waits for it",
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
