package workspace

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/keylock"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/warm"
)

// Config is what a Manager works with.
type Config struct {
	Root     string // the data directory
	DB       *meta.DB
	Trash    *trash.Trash
	Clones   *clone.Manager
	Features overlay.Features
	// Context is the SELinux context of the workspaces' overlays; empty: none.
	Context string
	Log     *logrus.Logger
	Now     func() time.Time
	// DiscardTTL is how long what was written into a workspace stays recoverable
	// after its end. Zero: workspaces are removed at once.
	DiscardTTL time.Duration
	// MaxLeases is how many leases a subject may have at a time. Zero: any number.
	MaxLeases int
	// HeldWait is how long Join and Retain wait for a workspace that is still in use
	// by a container without a lease; until six times as long after the start they wait
	// in any case. Zero is 5 s.
	HeldWait time.Duration
	// Doubt says that the leases of an earlier process, or engine, are believed only
	// while a container has the workspace. It takes a Docker engine that gives containers
	// mounts that receive what is mounted here: a managed plugin's.
	Doubt bool
}

// Manager holds all workspaces. It is safe for concurrent use, except that calls
// for the same volume and mount ID must follow one another.
type Manager struct {
	Config
	// Warm are the warm layers that workspaces stand on.
	Warm *warm.Manager
	// volumes are held while the workspace that a volume shares or keeps is looked
	// for, made, mounted, left or ended.
	volumes keylock.Locks[string]
	// records are held, by workspace, while its record changes.
	records keylock.Locks[string]
	reapMax time.Duration
	started time.Time
	holders func(target, points string) (int, error) // overlay.Holders, but in tests

	mu sync.Mutex // never held over I/O
	// all are the workspaces by ID, also those that Open is making.
	all    map[string]*workspace
	leases map[lease]*workspace
	// inherited are, of the Mounts of leases, those that an earlier process answered,
	// or that an earlier engine asked for.
	inherited map[lease]inheritance
	// uncounted are leases of before the engine's start with no Unmount since.
	uncounted map[lease]bool
	// orphans are private workspaces that have lost their lease, until they are free.
	orphans map[lease]*workspace
	atWork  map[lease]string // the subjects of Mounts at work
	caches  map[cache]turn
}

// lease is one (volume, mount ID).
type lease struct{ volume, id string }

// workspace is one in memory. What is below id is guarded by Manager.mu.
type workspace struct {
	id string
	// rec is replaced as a whole, by change: what it refers to never changes.
	rec    meta.Workspace
	clone  *clone.Clone // nil when nothing is known of its layers
	reaped bool         // it has a reaper; only one that has ended has
	found  bool         // by NewManager, in another phase than its record says
	// metered is when Meter last looked at its upper.
	metered turn
}

// String names a workspace in the log.
func (w *workspace) String() string { return w.id }

func (m *Manager) dir(rec meta.Workspace) string {
	return filepath.Join(m.Root, "clones", rec.Clone, "workspaces", rec.ID)
}

func (m *Manager) upper(rec meta.Workspace) string { return filepath.Join(m.dir(rec), "upper") }

// Mountpoint returns where a workspace is mounted.
func (m *Manager) Mountpoint(rec meta.Workspace) string {
	return filepath.Join(overlay.PointsDir(m.Root), rec.ID)
}

// NoMountpoint returns a path that can't exist, because it leads through a file, and
// that ends with the words of why: the engine's error names the path. It would take one
// that merely does not exist for a file that is missing in the container.
func (m *Manager) NoMountpoint(rec meta.Workspace, why error) string {
	words := strings.ReplaceAll(why.Error(), "/", " ")
	return filepath.Join(m.dir(rec), manifestName, strings.ToValidUTF8(words[:min(len(words), unix.NAME_MAX)], ""))
}

// MountedAt returns where a workspace is mounted; empty if it is not there any more.
func (m *Manager) MountedAt(rec meta.Workspace) string {
	dir := m.Mountpoint(rec)
	if mounted, err := overlay.Mounted(dir); err != nil || !mounted {
		return ""
	}
	return dir
}

// NewManager returns a Manager for the workspaces of state. Those that are no
// longer mounted have lost their leases.
func NewManager(c Config, state meta.State) (*Manager, error) {
	if c.HeldWait == 0 {
		c.HeldWait = defaultHeldWait
	}
	m := &Manager{
		Config: c, reapMax: reapMax, started: time.Now(), all: make(map[string]*workspace), leases: make(map[lease]*workspace), atWork: make(map[lease]string),
		inherited: make(map[lease]inheritance), orphans: make(map[lease]*workspace), caches: make(map[cache]turn), holders: overlay.Holders,
	}
	m.Warm = warm.NewManager(warm.Config{Store: c.Clones.Store, Use: c.Clones.Use, Heavy: c.Clones.Heavy}, state)
	c.Clones.Evicting = append(c.Clones.Evicting, m.Warm.Evicting)
	mounted, err := m.mounted()
	if err != nil {
		return nil, err
	}
	kept := keptBy(state)
	for id, rec := range state.Workspaces {
		w := &workspace{id: id, clone: c.Clones.Lookup(rec.Clone)}
		if w.clone != nil {
			w.clone.Trees.Hold(rec.Chain, rec.GitLayer)
		}
		m.Warm.Hold(rec.Clone, rec.Warm)
		before := rec.Phase
		switch {
		case rec.Phase == meta.Mounted && !mounted[id]:
			lost(&rec, kept[rec.Volume] == id, m.Now())
		case rec.Phase == meta.Parked && mounted[id]:
			rec.Phase = meta.Mounted // a Join has not come to record it
		}
		if rec.Phase.Live() && len(rec.Leases) == 0 && kept[rec.Volume] != id {
			rec.Phase, rec.EndedAt = meta.Ended, m.Now()
		}
		w.found = rec.Phase != before
		m.all[id] = w
		m.showLocked(w, rec)
		m.inherit(rec)
	}
	return m, nil
}

// keptBy returns the ID of the workspace that a volume keeps, by volume. It is
// the newest one, and of the volume's own clone: a database that was rebuilt may
// have others, for manifests are not as exact as records.
func keptBy(state meta.State) map[string]string {
	kept := make(map[string]string)
	for id, rec := range state.Workspaces {
		v, ok := state.Volumes[rec.Volume]
		if !ok || !rec.Phase.Live() || rec.Mode != string(volume.ModeKeep) {
			continue
		}
		o, err := volume.Parse(v.Options, nil, volume.AllSchemes())
		if err != nil || o.Mode != volume.ModeKeep || clone.Key(o.Subject, o.Repo) != rec.Clone {
			continue
		}
		if other, ok := kept[rec.Volume]; !ok || state.Workspaces[other].MountedAt.Before(rec.MountedAt) {
			kept[rec.Volume] = id
		}
	}
	return kept
}

// showLocked gives a workspace another record, and its leases their places.
func (m *Manager) showLocked(w *workspace, rec meta.Workspace) {
	for id := range w.rec.Leases {
		l := lease{w.rec.Volume, id}
		delete(m.leases, l)
		if in, ok := m.inherited[l]; ok {
			in.mounts = min(in.mounts, rec.Leases[id])
			m.inherited[l] = in
		}
		if m.inherited[l].mounts == 0 {
			delete(m.inherited, l)
		}
	}
	m.dropLostLocked(w)
	w.rec = rec
	w.reaped = w.reaped && rec.Phase == meta.Ended
	for id := range rec.Leases {
		m.leases[lease{rec.Volume, id}] = w
	}
	for _, id := range rec.Lost {
		l := lease{rec.Volume, id}
		if o := m.orphans[l]; o == nil || o.rec.MountedAt.Before(rec.MountedAt) {
			m.orphans[l] = w
		}
	}
}

// dropLostLocked takes the places of the leases that a workspace has lost.
func (m *Manager) dropLostLocked(w *workspace) {
	for _, id := range w.rec.Lost {
		if l := (lease{w.rec.Volume, id}); m.orphans[l] == w {
			delete(m.orphans, l)
		}
	}
}

// gone reports whether a workspace was removed.
func (m *Manager) gone(w *workspace) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.all[w.id] != w
}

// record returns a workspace's record as it is now.
func (m *Manager) record(w *workspace) meta.Workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.rec
}

// change commits what f makes of a workspace's record, in one transaction with
// what with does, if it is not nil, and then shows it. Changes of one workspace
// follow one another. After an error, which may be f's, nothing has changed.
func (m *Manager) change(w *workspace, f func(rec *meta.Workspace) error, with func(*meta.Tx) error) (meta.Workspace, error) {
	unlock, err := m.records.Lock(context.Background(), w.id)
	if err != nil {
		return meta.Workspace{}, err
	}
	defer unlock()
	if m.gone(w) {
		return meta.Workspace{}, fmt.Errorf("workspace %s: %w", w, os.ErrNotExist)
	}
	before := m.record(w)
	rec := before
	rec.Leases = maps.Clone(rec.Leases)
	if err := f(&rec); err != nil {
		return before, err
	}
	if err := checkTransition(before, rec); err != nil {
		return before, err
	}
	m.updateManifest(before, rec)
	err = m.DB.Update(func(tx *meta.Tx) error {
		if err := tx.PutWorkspace(rec); err != nil || with == nil {
			return err
		}
		return with(tx)
	})
	if err != nil {
		m.updateManifest(rec, before)
		return before, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.showLocked(w, rec)
	return rec, nil
}

// Workspaces returns the records of all workspaces, also of those that are being
// made. They are not to be changed.
func (m *Manager) Workspaces() []meta.Workspace {
	return m.list(func(*workspace) bool { return true })
}

// Leases returns the records of a volume's leased workspaces, oldest first. They
// are not to be changed.
func (m *Manager) Leases(volume string) []meta.Workspace {
	return m.list(func(w *workspace) bool {
		return w.rec.Volume == volume && len(w.rec.Leases) > 0
	})
}

// list returns the records of some workspaces, oldest first. which is called with
// mu held.
func (m *Manager) list(which func(w *workspace) bool) []meta.Workspace {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []meta.Workspace
	for _, w := range m.all {
		if which(w) {
			list = append(list, w.rec)
		}
	}
	slices.SortFunc(list, func(a, b meta.Workspace) int {
		return a.MountedAt.Compare(b.MountedAt)
	})
	return list
}
