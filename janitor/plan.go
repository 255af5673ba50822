package janitor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
)

// Reason is why something is evicted.
type Reason string

const (
	Expired        Reason = "expired"          // a checkpoint past CHECKPOINT_TTL
	TTL            Reason = "ttl"              // a clone unused for TTL
	Unneeded       Reason = "unneeded"         // a layer unneeded for TTL
	SubjectMaxSize Reason = "subject_max_size" // its subject exceeds its limit
	MaxSize        Reason = "max_size"         // all clones together exceed their limit
	MinFree        Reason = "min_free"         // the filesystem is too full
	NoSpace        Reason = "enospc"           // a fetch, build or mount had no room
	OnDemand       Reason = "on_demand"        // an operator requested it
	Pruned         Reason = "pruned"           // nothing used it, and an operator pruned
)

// WorkspaceLimit is the reason of a Finding: a workspace has filled nine tenths of its limit, or all. Nothing is evicted
// for it, because that would not help.
const WorkspaceLimit Reason = "workspace_limit"

// NamedCheckpoints is the reason of a Finding: checkpoints with names keep much of a limit. Nothing is evicted for it.
const NamedCheckpoints Reason = "named_checkpoints"

// Reasons lists all reasons.
func Reasons() []Reason {
	return []Reason{Expired, TTL, Unneeded, SubjectMaxSize, MaxSize, MinFree, NoSpace, OnDemand, Pruned}
}

// Plan lists evictions, in their order, and what they can't solve.
type Plan struct {
	Evictions []Eviction
	// More is set when there is more to evict than one plan holds.
	More bool
	// Frees is the size of all evictions.
	Frees disk.Size
	// Used is the size for which MAX_SIZE evicts, before the evictions: of the clones and
	// Inventory.Own, without the parts that can't be evicted of clones that exceed the limit
	// on their own. All is the same with these parts. Both are without the trash.
	Used, All disk.Size
	// Trash is the size of all that is being deleted.
	Trash disk.Size
	Space disk.Space
	// Evictable is the size of all that may still be evicted after the evictions.
	Evictable disk.Size
	// Late counts the late clones and parts that are left for the next sweeps.
	Late int
	// Missing are the limits that stay exceeded after the evictions.
	Missing []Missing
	// Holders lists what can't be freed, largest first, if something is missing.
	Holders []Holder
	// TooLarge lists the clones that exceed a limit on their own.
	TooLarge []TooLarge
	// Named lists the limits of which checkpoints with names keep much.
	Named []Named
	// Again, if not zero, is after how long a new plan may evict a clone of TooLarge.
	Again time.Duration
}

// Eviction is the eviction of one clone or part.
type Eviction struct {
	Kind    Kind
	Reason  Reason
	Subject string
	Clone   string // its key
	ID      string // of a part
	Volume  string // of a checkpoint
	Size    disk.Size
	Text    string // why, for people
	// TooLarge is set for a clone that exceeds a limit on its own, and for its checkpoints.
	TooLarge bool
	// Unused is the time since its last use.
	Unused time.Duration
}

// Stops reports whether the eviction of a clone cancels work on it that nobody waits for
// (on demand, all work): a full disk is a reason for that, a limit on sizes is not.
func (e Eviction) Stops() bool {
	return e.Reason == MinFree || e.Reason == NoSpace || e.Reason == OnDemand
}

// Missing is a limit that stays exceeded.
type Missing struct {
	Reason  Reason
	Subject string
	Size    disk.Size // of the excess
	Text    string
}

// amount formats the size.
func (m Missing) amount() string {
	parts := []string{}
	if m.Size.Bytes > 0 {
		parts = append(parts, Bytes(m.Size.Bytes))
	}
	if m.Size.Inodes > 0 {
		parts = append(parts, fmt.Sprintf("%d inodes", m.Size.Inodes))
	}
	return strings.Join(parts, " and ") + " too much"
}

// Holder is something that takes space and can't be evicted.
type Holder struct {
	Clone   string
	Repo    string
	Subject string
	Volume  string // of a workspace or a checkpoint
	// Checkpoint is the ID of a checkpoint; empty for a workspace and a clone.
	Checkpoint string
	Size       disk.Size
	Unmeasured bool // its size is not known yet, and may be the largest
	Held       Hold
}

func (h Holder) String() string {
	switch {
	case h.Checkpoint != "":
		return fmt.Sprintf("checkpoint %s of volume %q (%s, %s)", h.Checkpoint, h.Volume, Bytes(h.Size.Bytes), h.Why())
	case h.Unmeasured:
		return fmt.Sprintf("what was written to volume %q (not measured yet, %s)", h.Volume, h.Held)
	case h.Volume != "":
		return fmt.Sprintf("what was written to volume %q (%s, %s)", h.Volume, Bytes(h.Size.Bytes), h.Held)
	}
	return fmt.Sprintf("the clone of %s for subject %q (%s, %s)", h.Repo, h.Subject, Bytes(h.Size.Bytes), h.Held)
}

// Why says why it can't be evicted.
func (h Holder) Why() string {
	if h.Checkpoint != "" && h.Held == HasNamed {
		return "it has a name: only docker repos checkpoints rm removes it"
	}
	return h.Held.String()
}

// holdersShown is how many holders an error names.
const holdersShown = 3

// Held describes the largest holders.
func Held(holders []Holder) string {
	if len(holders) == 0 {
		return "nothing that the plugin keeps can be freed"
	}
	var parts []string
	for _, h := range holders[:min(len(holders), holdersShown)] {
		parts = append(parts, h.String())
	}
	text := "held by " + strings.Join(parts, ", ")
	if n := len(holders) - holdersShown; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// sortHolders sorts the largest first, after those of unknown size.
func sortHolders(list []Holder) {
	unmeasured := func(h Holder) int {
		if h.Unmeasured {
			return 1
		}
		return 0
	}
	slices.SortFunc(list, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(unmeasured(b), unmeasured(a)), cmp.Compare(b.Size.Bytes, a.Size.Bytes), cmp.Compare(b.Size.Inodes, a.Size.Inodes),
			strings.Compare(a.Subject, b.Subject), strings.Compare(a.Clone, b.Clone), strings.Compare(a.Volume, b.Volume), strings.Compare(a.Checkpoint, b.Checkpoint),
			cmp.Compare(a.Held, b.Held))
	})
}

// Bytes formats a number of bytes for people, such as 1.5 GiB.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n > -1024 && n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1024, 0
	for ; (v >= 1024 || v <= -1024) && i < len(units)-1; i++ {
		v /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", v, units[i])
}
