package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
)

// Config is what a Manager works with.
type Config struct {
	Root     string // the data directory
	DB       *meta.DB
	Trash    *trash.Trash
	Clones   *clone.Manager
	Features overlay.Features
	Log      *logrus.Logger
	Now      func() time.Time
}

// Manager holds all workspaces. It is safe for concurrent use, except that calls
// for the same volume and mount ID must follow one another.
type Manager struct {
	Config

	mu sync.Mutex // never held over I/O
	// all are the workspaces by ID: leased, ended, and those that Open is making.
	all    map[string]*workspace
	leases map[lease]*workspace
}

// lease is one (volume, mount ID).
type lease struct{ volume, id string }

type workspace struct {
	rec   meta.Workspace
	clone *clone.Clone // nil while Open has not come so far
}

func (m *Manager) dir(rec meta.Workspace) string {
	return filepath.Join(m.Root, "clones", rec.Clone, "workspaces", rec.ID)
}

// Mountpoint returns where a workspace is mounted.
func (m *Manager) Mountpoint(rec meta.Workspace) string { return filepath.Join(m.dir(rec), "tree") }

// NewManager returns a Manager for the workspaces of state. Those that are no
// longer mounted have lost their leases: their containers, if they still run,
// kept the overlay, and nobody will get it again.
func NewManager(c Config, state meta.State) (*Manager, error) {
	m := &Manager{Config: c, all: make(map[string]*workspace), leases: make(map[lease]*workspace)}
	points, err := overlay.Mounts(filepath.Join(c.Root, "clones"))
	if err != nil {
		return nil, err
	}
	mounted := make(map[string]bool)
	for _, p := range points {
		mounted[p.Path] = true
	}
	for id, rec := range state.Workspaces {
		w := &workspace{rec: rec, clone: c.Clones.Lookup(rec.Clone)}
		if w.clone != nil {
			w.clone.Hold(rec.Chain, rec.GitLayer)
		}
		if !mounted[m.Mountpoint(rec)] {
			w.rec.Leases = nil
		}
		m.all[id] = w
		for leaseID := range w.rec.Leases {
			m.leases[lease{rec.Volume, leaseID}] = w
		}
	}
	return m, nil
}

// Request says which workspace Open makes, and for which lease.
type Request struct {
	Volume   string
	LeaseID  string
	Options  volume.Options
	Clone    *clone.Clone
	Checkout *clone.Checkout
}

// Open makes a workspace, mounts it and gives it its first lease. It takes over
// the Checkout's hold on the layers when it succeeds. An error leaves nothing
// behind.
func (m *Manager) Open(r Request) (meta.Workspace, error) {
	var id [8]byte
	rand.Read(id[:]) // never fails
	res := r.Checkout.Resolution
	rec := meta.Workspace{
		ID: hex.EncodeToString(id[:]), Clone: r.Clone.Key(), Volume: r.Volume,
		Tree: r.Checkout.Tree.ID, Chain: r.Checkout.Tree.Chain, GitLayer: r.Checkout.GitLayer.ID,
		Ref: res.Ref, Commit: res.Commit, Pulled: res.Pulled, Reused: r.Checkout.Reused, Stale: res.Stale,
		Leases: map[string]int{r.LeaseID: 1}, Boot: m.Clones.Boot, MountedAt: m.Now(),
	}
	w := &workspace{rec: rec}
	m.mu.Lock()
	m.all[rec.ID] = w // before its directory: the sweep leaves it alone
	m.mu.Unlock()

	err := m.make(rec, r)
	if err == nil {
		failpoint.Hit("workspace/open/bound")
		err = m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
		failpoint.Hit("workspace/open/recorded")
	}
	if err != nil {
		err = errors.Join(err, m.unmake(rec))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		delete(m.all, rec.ID)
		return meta.Workspace{}, err
	}
	w.clone = r.Clone
	m.leases[lease{r.Volume, r.LeaseID}] = w
	return rec, nil
}

// unmake removes what make may have made.
func (m *Manager) unmake(rec meta.Workspace) error {
	release, err := overlay.Detach(m.Mountpoint(rec))
	switch {
	case err == nil:
		defer release()
	case !errors.Is(err, overlay.ErrNotMounted) && !errors.Is(err, os.ErrNotExist):
		return err
	}
	if _, err := m.Trash.Put(m.dir(rec), "workspace"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// Retain counts one more Mount of a lease that is there already, as `docker cp`
// on a running container makes it.
func (m *Manager) Retain(volume, leaseID string) (rec meta.Workspace, ok bool, err error) {
	m.mu.Lock()
	w, ok := m.leases[lease{volume, leaseID}]
	if ok {
		w.rec.Leases = maps.Clone(w.rec.Leases)
		w.rec.Leases[leaseID]++
		rec = w.rec
	}
	m.mu.Unlock()
	if ok {
		err = m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
	}
	return rec, ok, err
}

// Release takes back one Mount of a lease. With the last one the workspace is
// detached and has ended. A lease that is not known was released already.
func (m *Manager) Release(volume, leaseID string) error {
	m.mu.Lock()
	w, ok := m.leases[lease{volume, leaseID}]
	if !ok {
		m.mu.Unlock()
		return nil
	}
	w.rec.Leases = maps.Clone(w.rec.Leases)
	if w.rec.Leases[leaseID]--; w.rec.Leases[leaseID] <= 0 {
		delete(w.rec.Leases, leaseID)
		delete(m.leases, lease{volume, leaseID})
	}
	rec := w.rec
	m.mu.Unlock()
	if len(rec.Leases) > 0 {
		return m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
	}
	free, err := overlay.Detach(m.Mountpoint(rec))
	if err != nil && !errors.Is(err, overlay.ErrNotMounted) && !errors.Is(err, os.ErrNotExist) {
		m.mu.Lock() // the engine may ask again
		w.rec.Leases = map[string]int{leaseID: 1}
		m.leases[lease{volume, leaseID}] = w
		m.mu.Unlock()
		return err
	}
	failpoint.Hit("workspace/release/detached")
	// That it has ended is said before anything is taken away.
	err = m.DB.Update(func(tx *meta.Tx) error { return tx.PutWorkspace(rec) })
	failpoint.Hit("workspace/release/recorded")
	m.Clones.Background(func(ctx context.Context) {
		if free != nil {
			// Tearing the overlay down takes as long as it is dirty.
			if err := free(); err != nil {
				m.Log.WithError(err).Warn("close a detached workspace")
			}
		}
		m.reap(ctx, w)
	})
	return err
}

// Leases returns copies of the records of a volume's leased workspaces, oldest
// first.
func (m *Manager) Leases(volume string) []meta.Workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []meta.Workspace
	seen := make(map[*workspace]bool)
	for l, w := range m.leases {
		if l.volume == volume && !seen[w] {
			seen[w] = true
			rec := w.rec
			rec.Leases = maps.Clone(rec.Leases)
			list = append(list, rec)
		}
	}
	slices.SortFunc(list, func(a, b meta.Workspace) int {
		return a.MountedAt.Compare(b.MountedAt)
	})
	return list
}

// String names a workspace in the log.
func (w *workspace) String() string { return fmt.Sprintf("%s of volume %q", w.rec.ID, w.rec.Volume) }
