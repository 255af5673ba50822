package workspace

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/handout"
	"github.com/helmdeck/repos/internal/keylock"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/mounter"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/warm"
	"github.com/helmdeck/repos/internal/work"
)

// Config is what a Manager works with.
type Config struct {
	Root   string // the data directory
	DB     *meta.DB
	Trash  *trash.Trash
	Clones *clone.Manager
	Warm   *warm.Manager // the warm layers that workspaces stand on
	Work   *work.Group   // runs the background work
	// Handout serves the credential helpers of the workspaces that have leases. It may be nil.
	Handout  *handout.Server
	Features overlay.Features
	// Context is the SELinux context of the workspaces' overlays; empty for none.
	Context string
	Log     *logrus.Logger
	Now     func() time.Time
	// DiscardTTL is how long a discard can be restored. If it is zero, an ended workspace
	// leaves no discard.
	DiscardTTL time.Duration
	// MaxLeases returns how many leases the subject with a directory may have at a time, zero
	// for any number, and whether that limit is its own and no setting. Nil means any number.
	MaxLeases func(dir string) (n int, own bool)
	// HeldWait is how long Lookup and Join wait for a workspace that a container without a
	// lease still uses. After the start they wait longer: until six times HeldWait have
	// passed. Zero means 5 s.
	HeldWait time.Duration
	// StartWait is how long after a Mount its lease can't be released by force. Zero means
	// 30 s.
	StartWait time.Duration
	// Doubt is set if the leases of an earlier process, or engine, are valid only while a
	// container has the workspace. The engine must give containers mounts that receive
	// what is mounted here, as it does for a managed plugin.
	Doubt bool
	// LeasesLost is called when leases were lost, with the record that the workspace had
	// before, and the reason. It must not block. It may be nil.
	LeasesLost func(ctx context.Context, before meta.Workspace, lost meta.Leases, why string)
}

// Manager has all workspaces. It is safe for concurrent use, but calls for the same
// lease must follow one another.
type Manager struct {
	*Config
	// volumes has the locks of volumes with a shared or kept workspace. One is held while
	// that workspace is looked up, made, mounted, released or ended.
	volumes keylock.Locks[string]
	records *records
	mounter *mounter.Mounter
	meter   *meter
	reaper  *reaper
	started time.Time
	holders func(target, points string) (int, error) // overlay.Holders, except in tests

	mu     sync.Mutex       // guards atWork; taken before that of records
	atWork map[Lease]string // the subjects of the Acquires in progress
}

// Lease holds a workspace of a volume. The front end chooses the ID, which is unique in
// the volume.
type Lease struct{ Volume, ID string }

// Mountpoint returns where a workspace is mounted.
func (m *Manager) Mountpoint(rec meta.Workspace) string { return m.mounter.Mountpoint(rec) }

// ManifestPath returns the path of a workspace's manifest.
func (m *Manager) ManifestPath(rec meta.Workspace) string { return m.mounter.Manifest(rec) }

// MountedAt returns where a workspace is mounted; empty if it is not mounted any more.
func (m *Manager) MountedAt(rec meta.Workspace) string {
	dir := m.Mountpoint(rec)
	if mounted, err := overlay.Mounted(dir); err != nil || !mounted {
		return ""
	}
	return dir
}

// NewManager returns a Manager for the workspaces of state. Workspaces that are no
// longer mounted lose their leases.
func NewManager(c Config, state meta.State) (*Manager, error) {
	if c.HeldWait == 0 {
		c.HeldWait = defaultHeldWait
	}
	c.StartWait = cmp.Or(c.StartWait, startWait)
	mounts := &mounter.Mounter{Config: mounter.Config{
		Root: c.Root, Trash: c.Trash, Clones: c.Clones, Warm: c.Warm, Features: c.Features, Context: c.Context, Log: c.Log, Now: c.Now,
	}}
	r := &records{Config: &c, mounter: mounts, all: make(map[string]*workspace), leases: make(map[Lease]*workspace)}
	m := &Manager{
		Config: &c, records: r, mounter: mounts, meter: &meter{Config: &c, records: r, mounter: mounts, turns: make(map[target]turn)},
		started: time.Now(), holders: overlay.Holders, atWork: make(map[Lease]string),
	}
	m.reaper = &reaper{Config: &c, records: r, mounter: mounts, meter: m.meter, max: reapMax}
	mounted, err := mounter.Mounted(c.Root)
	if err != nil {
		return nil, err
	}
	kept := keptBy(state)
	for id, rec := range state.Workspaces {
		w := newWorkspace(id, c.Clones.Lookup(rec.Clone))
		if w.clone != nil {
			w.clone.Trees.Hold(rec.Chain, rec.GitLayer)
		}
		c.Warm.Hold(rec.Clone, rec.Warm)
		before := rec.Phase
		switch {
		case rec.Phase == meta.Mounted && !mounted[id]:
			if len(rec.Leases) > 0 && c.LeasesLost != nil {
				c.LeasesLost(context.Background(), rec, rec.Leases, "the workspace was no longer mounted when the plugin started")
			}
			unmounted(&rec)
		case rec.Phase == meta.Parked && mounted[id]:
			rec.Phase = meta.Mounted // Join mounted it, and could not record that
		}
		if rec.Phase.Live() && len(rec.Leases) == 0 && kept[rec.Volume] != id {
			m.ended(&rec)
		}
		w.unsaved = rec.Phase != before
		r.put(w, rec)
		if c.Doubt {
			for _, id := range rec.Leases {
				w.inherited[id] = false
			}
		}
	}
	return m, nil
}

// keptBy returns the ID of the workspace that each volume keeps, by volume. It is the
// newest one, of the volume's own clone. A rebuilt database may have others, because
// manifests are not as exact as records.
func keptBy(state meta.State) map[string]string {
	kept := make(map[string]string)
	for id, rec := range state.Workspaces {
		v, ok := state.Volumes[rec.Volume]
		if !ok || !rec.Phase.Live() || !rec.Kept() {
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

// Workspaces returns the records of all workspaces, also of those that are being
// made. The caller must not change them.
func (m *Manager) Workspaces() []meta.Workspace {
	return m.records.list(func(*workspace) bool { return true })
}

// Each calls f with the record of each workspace, in no order. f must neither change nor
// keep the record, must not call the Manager, and must be short.
func (m *Manager) Each(f func(rec *meta.Workspace)) {
	m.records.each(func(w *workspace) { f(&w.rec) })
}

// Workspace returns the record of one workspace, also of one that is being made. The
// caller must not change it. It is not ok for an unknown ID.
func (m *Manager) Workspace(id string) (rec meta.Workspace, ok bool) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return meta.Workspace{}, false
	}
	return m.records.get(w), true
}

// Leases returns the records of a volume's leased workspaces, oldest first. The
// caller must not change them.
func (m *Manager) Leases(volume string) []meta.Workspace {
	return m.records.list(func(w *workspace) bool { return w.rec.Volume == volume && len(w.rec.Leases) > 0 })
}

// Meter measures, until ctx ends, the uppers and the caches. See meter.run.
func (m *Manager) Meter(ctx context.Context) { m.meter.run(ctx) }

// sleep waits for d. The error is ctx's cause.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
