package driver

import (
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/keylock"
)

// Config is what a Driver works with.
type Config struct {
	Volumes   verbs.Verbs
	Log       *logrus.Logger
	Now       func() time.Time
	MountWait time.Duration // how long a Mount may take
	// SharePrivate allows private workspaces also for Podman, whose containers then share
	// one.
	SharePrivate bool
	Remap        *Remap // the engine's --userns-remap; nil if it has none
	// Observe, if not nil, is called at the end of each request of an Operation. It must not
	// block, and may be called concurrently.
	Observe func(Event)
}

// Driver answers the engine. It is safe for concurrent use.
type Driver struct {
	config   Config
	patience patience
	mounts   keylock.Locks[mountID] // held by Mount and Unmount

	mu sync.Mutex // never held over I/O
	// uncounted has the mount IDs from before the engine's start, until their first
	// Unmount.
	uncounted map[mountID]bool
}

// mountID is the ID of a container, with which the engine mounts a volume. The engine
// counts: docker cp on a running container mounts with the same ID again. Each Mount is a
// lease of its own (meta.NthLease).
type mountID verbs.Lease

// nth returns the lease of the n-th Mount, from 1.
func (m mountID) nth(n int) verbs.Lease {
	return verbs.Lease{Volume: m.Volume, ID: meta.NthLease(m.ID, n)}
}

// New returns a Driver.
func New(c Config) *Driver {
	return &Driver{config: c, patience: patience{most: c.MountWait}}
}

// Deadline returns how long the engine waits for a Mount, or 0 if that is not known.
func (d *Driver) Deadline() time.Duration {
	d.patience.mu.Lock()
	defer d.patience.mu.Unlock()
	d.patience.expire(d.config.Now())
	return d.patience.deadline
}

// lastMount returns the number of the last Mount with an ID that had no Unmount; 0 if
// none is left.
func (d *Driver) lastMount(m mountID) (last int) {
	for _, lease := range d.config.Volumes.Leases(m.Volume) {
		if id, n := meta.HolderOf(lease); id == m.ID {
			last = max(last, n)
		}
	}
	return last
}

// noMountpoint returns a path that can't exist, because it leads through a file. It ends
// with the reason, because the engine's error names the path. The engine would take a
// path that merely does not exist for a file that is missing in the container.
func noMountpoint(file string, why error) string {
	words := strings.ReplaceAll(why.Error(), "/", " ")
	return filepath.Join(file, strings.ToValidUTF8(words[:min(len(words), unix.NAME_MAX)], ""))
}
