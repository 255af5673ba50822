// Package admission decides whether a subject may have one more lease, one more workspace with a limit, and one more
// checkpoint with a name.
//
// With MaxSize, an Acquire of a new workspace, and a Rewind, reserve its limit among those of the subject's live
// workspaces (budget.go). The limits are added, and not what is written, because a container may write up to its limit
// at any time. Nothing is reserved for a workspace that exists: whoever shares it, or mounts what a volume keeps, adds
// nothing. A Rewind replaces a workspace that exists, so the limit of the new one is counted in place of the old one's.
//
// What checkpoints with names keep is never evicted, so it has a bound too (named.go).
package admission

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work/keylock"
)

// Config is what decisions stand on.
type Config struct {
	// Each calls f for the record of each workspace. It may not call the Desk.
	Each func(f func(meta.Workspace))
	// MaxLeases and MaxSize return the limits of a subject, by the name of its directory, and whether they are its own. Zero
	// is no limit.
	MaxLeases func(subject string) (n int, own bool)
	MaxSize   func(subject string) (bytes int64, own bool)
	// Total is what everything in the data directory may take, in bytes; zero for no limit.
	Total int64
}

// Desk counts what is at work, besides what is in records. It is safe for concurrent use.
type Desk struct {
	config   Config
	mu       sync.Mutex       // taken before those of Each
	atWork   map[place]string // the subjects of the Acquires in progress
	reserved map[*reservation]bool

	naming keylock.Locks[string] // by subject; held by Name, while a record is committed

	// MaxCheckpoints is maxCheckpoints, except in tests.
	MaxCheckpoints int
}

// New returns a Desk at which nothing is at work.
func New(c Config) *Desk {
	return &Desk{config: c, atWork: make(map[place]string), reserved: make(map[*reservation]bool), MaxCheckpoints: maxCheckpoints}
}

// Busy returns how many Acquires and reservations are at work.
func (d *Desk) Busy() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.atWork) + len(d.reserved)
}

// SubjectOf returns the directory name of the subject of a clone.
func SubjectOf(cloneKey string) string { return path.Dir(cloneKey) }

// Admit counts an Acquire for a subject, until done is called. The Acquire
// and the lease that it makes count as one, and so do several leases of one holder.
// Acquires of one lease must follow one another. It is an error if the subject has as many
// leases as MaxLeases allows, or if a new workspace with a limit of so many bytes would exceed
// MaxSize.
func (d *Desk) Admit(subject, volume, lease string, private bool, bytes int64) (done func(), err error) {
	l := place{volume, lease}
	release, err := d.reserve(&reservation{subject: subject, of: placeOf(private, l), bytes: bytes})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	most, own := d.config.MaxLeases(subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	if most > 0 {
		volumes, holders := make(map[string]int), make(map[place]bool)
		d.config.Each(func(rec meta.Workspace) {
			for _, id := range rec.Leases {
				id, _ := meta.HolderOf(id)
				if holder := (place{rec.Volume, id}); !holders[holder] && SubjectOf(rec.Clone) == subject {
					holders[holder] = true
					volumes[rec.Volume]++
				}
			}
		})
		n := len(holders)
		for l, of := range d.atWork {
			if !holders[l] && of == subject {
				n++
			}
		}
		if n >= most {
			limit := "the setting SUBJECT_MAX_LEASES"
			if own {
				limit = "its own limit"
			}
			return nil, fmt.Errorf("the subject has %d mounts, and %s allows %d: "+
				"end a container of %s, or raise the limit (docker repos subjects set --max-leases)", n, limit, most, named(volumes))
		}
	}
	d.atWork[l] = subject
	return func() {
		release()
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.atWork, l)
	}, nil
}

// maxNamed bounds how many volumes an error names.
const maxNamed = 5

// named lists volumes with their numbers of leases, or their limits.
func named[T any](volumes map[string]T) string {
	if len(volumes) == 0 {
		return "those that are being mounted"
	}
	var list []string
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		list = append(list, fmt.Sprintf("%q (%v)", name, volumes[name]))
	}
	more := ""
	if n := len(list) - maxNamed; n > 0 {
		list, more = list[:maxNamed], fmt.Sprintf(" and %d more", n)
	}
	return "the volumes " + strings.Join(list, ", ") + more
}
