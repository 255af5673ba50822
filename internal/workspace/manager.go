package workspace

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace/admission"
	"github.com/helmdeck/repos/internal/workspace/mounter"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// Config is what a Manager works with.
type Config struct {
	Root   string // the data directory
	DB     *meta.DB
	Trash  *trash.Trash
	Boot   string // the kernel's boot ID
	Clones Clones
	Warm   *warm.Manager // the warm layers that workspaces stand on
	Work   *work.Group   // runs the background work
	// Handout serves the credential helpers of the workspaces that have leases. It may be nil.
	Handout  *handout.Server
	Features overlay.Features
	// Projects has the projects of workspaces with a limit. Where it has none, as if it is nil, Open with a limit is
	// an error.
	Projects *project.Quotas
	// Context is the SELinux context of the workspaces' overlays; empty for none.
	Context string
	Log     *logrus.Logger
	Now     func() time.Time
	// CheckpointTTL is how long a checkpoint is kept. If it is zero, an ended workspace
	// leaves no checkpoint.
	CheckpointTTL time.Duration
	// MaxLeases returns how many leases the subject with a directory may have at a time, zero
	// for any number, and whether that limit is its own and no setting. Nil means any number.
	MaxLeases func(dir string) (n int, own bool)
	// MaxSize is likewise what the limits of the subject's workspaces may add up to, in bytes.
	MaxSize func(dir string) (n int64, own bool)
	// Total is what everything in the data directory may take, in bytes; zero for no limit.
	Total int64
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
	// Filled is called when a workspace reaches 90 or 100 % of its limit for the first time in this process. It must
	// not block. It may be nil.
	Filled func()
	// LeasesLost is called when leases were lost, with the record that the workspace had
	// before, and the reason. It must not block. It may be nil.
	LeasesLost func(ctx context.Context, before meta.Workspace, lost meta.Leases, why string)
	// Observe is called after each step of the life of a checkpoint. It must not block. It may be nil.
	Observe func(context.Context, Event)
}

// holdLayers holds the layers that a workspace stands on until dropLayers. Those of the trees of an unknown clone are
// unknown too.
func (c *Config) holdLayers(w *workspace, rec meta.Workspace) {
	if w.clone != nil {
		w.clone.Trees.Hold(rec.Chain, rec.GitLayer)
	}
	c.Warm.Hold(rec.Clone, rec.Warm)
}

// dropLayers ends holdLayers.
func (c *Config) dropLayers(w *workspace, rec meta.Workspace) {
	if w.clone != nil {
		w.clone.Trees.Drop(rec.Chain, rec.GitLayer)
	}
	c.Warm.Drop(rec.Clone, rec.Warm)
}

// Clones is the part of *clone.Manager that workspaces need.
type Clones interface {
	Lookup(key string) *clone.Clone
	Sync(ctx context.Context) error
}

// Manager has all workspaces. It is safe for concurrent use, but calls for the same
// lease must follow one another.
type Manager struct {
	config *Config
	// volumes has the locks of volumes with a shared or kept workspace. One is held while
	// that workspace is looked up, made, mounted, released or ended.
	volumes   keylock.Locks[string]
	records   *records
	mounter   *mounter.Mounter
	meter     *meter
	reaper    *reaper
	publisher *publisher
	started   time.Time
	copies    func(target, points string) (int, error) // overlay.Copies, except in tests
	holdLife  time.Duration                            // holdLife, except in tests

	projects sync.Mutex // held while a project is chosen

	admission *admission.Desk
	copying   *admission.Copies // a turn is for a draft

	mu     sync.Mutex        // guards drafts; taken before that of records
	drafts map[string]*draft // by the ID of the checkpoint
}

// Warm returns the warm layers that the workspaces stand on.
func (m *Manager) Warm() *warm.Manager { return m.config.Warm }

// Lease holds a workspace of a volume. The front end chooses the ID, which is unique in
// the volume.
type Lease struct{ Volume, ID string }

// Admit counts an Acquire of a lease for the subject of a clone, until done is called: see admission.Desk.Admit. The error
// may be an *admission.BudgetError.
func (m *Manager) Admit(cloneKey string, l Lease, private bool, bytes int64) (done func(), err error) {
	return m.admission.Admit(admission.SubjectOf(cloneKey), l.Volume, l.ID, private, bytes)
}

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
	if c.MaxLeases == nil {
		c.MaxLeases = func(string) (int, bool) { return 0, false }
	}
	if c.MaxSize == nil {
		c.MaxSize = func(string) (int64, bool) { return 0, false }
	}
	mounts := mounter.New(mounter.Config{
		Root: c.Root, Trash: c.Trash, Layers: c.Clones, Warm: c.Warm, Features: c.Features, Projects: c.Projects, Context: c.Context, Log: c.Log, Now: c.Now,
	})
	r := &records{config: &c, mounter: mounts, all: make(map[string]*workspace), leases: make(map[Lease]*workspace), stands: make(meta.Standing)}
	m := &Manager{
		config: &c, records: r, mounter: mounts, meter: newMeter(&c, r, mounts),
		started: time.Now(), copies: overlay.Copies, holdLife: holdLife,
		copying: admission.NewCopies(), drafts: make(map[string]*draft),
	}
	m.admission = admission.New(admission.Config{
		Each:      func(f func(meta.Workspace)) { r.each(func(w *workspace) { f(w.rec) }) },
		MaxLeases: func(subject string) (int, bool) { return c.MaxLeases(subject) },
		MaxSize:   func(subject string) (int64, bool) { return c.MaxSize(subject) },
		Total:     c.Total,
	})
	if c.Projects.Supported() == nil {
		m.meter.use = m.Use
	}
	m.publisher = &publisher{m: m, quiet: quiet, now: make(map[*workspace]*release)}
	m.reaper = &reaper{config: &c, records: r, mounter: mounts, max: reapMax}
	m.reaper.toFlatten = m.reaper.newBacklog()
	mounted, err := mounter.Mounted(c.Root)
	if err != nil {
		return nil, err
	}
	kept := mounter.KeptBy(state)
	for id, rec := range state.Workspaces {
		w := newWorkspace(id, c.Clones.Lookup(rec.Clone))
		c.holdLayers(w, rec)
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

// Workspaces returns the records of all workspaces, also of those that are being
// made. The caller must not change them.
func (m *Manager) Workspaces() []meta.Workspace {
	return m.records.list(func(*workspace) bool { return true })
}

// WorkspacesOf is Workspaces for the clones that of accepts. It must be short, and not call the
// Manager.
func (m *Manager) WorkspacesOf(of func(clone string) bool) []meta.Workspace {
	return m.records.list(func(w *workspace) bool { return of(w.rec.Clone) })
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

// Meter measures, until ctx ends, the uppers, asks what workspaces with a limit hold, and looks what of their caches can't be
// published. See meter.run, meter.runUses and publisher.look.
func (m *Manager) Meter(ctx context.Context) {
	var others sync.WaitGroup
	if m.meter.use != nil {
		others.Go(func() { m.meter.runUses(ctx) })
	}
	others.Go(func() { m.publisher.look(ctx) })
	m.meter.run(ctx)
	others.Wait()
}

// sleep waits for d. The error is ctx's cause.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
