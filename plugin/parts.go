package main

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"sync/atomic"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/driver"
	"github.com/helmdeck/repos/internal/admin/metrics"
	"github.com/helmdeck/repos/internal/admin/quota"
	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/project"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/outbound"
	"github.com/helmdeck/repos/internal/outbound/look"
	"github.com/helmdeck/repos/internal/outbound/quarantine"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/repo/ready"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/warm"
	"github.com/helmdeck/repos/janitor"
)

// parts are the components of the plugin, for its start and for requests.
type parts struct {
	log         *logrus.Logger
	idle        bool
	work        *work.Group
	trash       *trash.Trash
	layers      *layer.Store
	clones      *clone.Manager
	projects    *project.Quotas
	limits      verbs.Limits // of workspaces
	workspaces  *workspace.Manager
	volumes     *verbs.Volumes
	docker      *driver.Driver
	csi         kubernetes // nil if it is off
	janitor     *janitor.Janitor
	events      *eventLog
	keeper      *ready.Keeper
	pusher      *outbound.Pusher
	credentials *credential.Store
	handout     *handout.Server
	quota       *quota.Quota
	inspector   *look.Inspector
	metrics     http.Handler
	audit       auditor
	swept       chan struct{} // closed when leftovers of an earlier run are known
	damaged     atomic.Bool   // the start's sweep could not repair everything
}

// build makes all parts, each from those that it uses. Nothing changes a part afterwards,
// and nothing runs before start.
func build(m machine, db *meta.DB, state meta.State, log *logrus.Logger) (*parts, error) {
	p := &parts{log: log, idle: m.at.idle, work: m.work, audit: m.audit, swept: make(chan struct{})}
	set, now := m.set, m.at.clock()
	var err error
	if p.trash, err = trash.Open(filepath.Join(m.at.data, "trash"), m.reserve, reportTrash(log)); err != nil {
		return nil, err
	}
	if p.credentials, err = openCredentials(m, log); err != nil {
		return nil, err
	}
	p.quota = quota.New(db, quota.Limits{MaxSize: set.limits.SubjectMaxSize, MaxLeases: set.limits.subjectMaxLeases}, state.Subjects)
	p.layers = layer.New(layer.Config{
		Root: m.at.data, Boot: m.boot, DB: db, Trash: p.trash, Log: log, Now: now, Background: p.work.Go,
	}, state)
	p.clones, err = clone.NewManager(clone.Config{
		Root: m.at.data, DB: db, Trash: p.trash, Log: log, Now: now, Layers: p.layers, Work: p.work, Git: m.git,
		Credentials: authFrom(p.credentials, credential.Fetch), CredentialChanges: p.credentials.Changes,
		Schemes: set.schemes, SubmodulesAsWritten: !set.rewriteSubmodules, AskTimeout: set.timeouts.ask,
		MakeRoom: func(ctx context.Context, subject string, need disk.Size) error {
			return p.janitor.MakeRoom(ctx, subject, need)
		},
		AwaitRoom: func(ctx context.Context) error { return p.janitor.AwaitRoom(ctx) },
		Measured:  func() { p.janitor.Nudge() }, // the janitor, which evicts clones, is made after them
	}, state)
	if err != nil {
		return nil, err
	}
	warmLayers := warm.NewManager(warm.Config{
		Root: m.at.data, DB: db, Trash: p.trash, Log: log, Now: now, Layers: p.layers, Clones: p.clones,
		Background: p.work.Go, Git: m.git, Metacopy: m.features.Metacopy,
	}, state)
	p.handout = handout.New(handout.Config{Credential: answersFrom(p.credentials), Log: log, Now: now, Observe: func(ctx context.Context, e handout.Event) {
		m.counters.Handout(e)
		m.audit.handedOut(ctx, e)
	}})
	if p.projects, err = project.Open(m.at.data, set.limits.projects); err != nil {
		return nil, err
	}
	p.limits = set.limits.workspace
	p.limits.Unsupported = p.projects.Supported()
	if text := p.limits.Ignored(); text != "" {
		log.Warn(text)
	}
	p.workspaces, err = workspace.NewManager(workspace.Config{
		Root: m.at.data, DB: db, Trash: p.trash, Clones: p.clones, Warm: warmLayers, Work: p.work, Features: m.features, Projects: p.projects, Context: set.context,
		Log: log, Now: now, CheckpointTTL: set.limits.CheckpointTTL, MaxLeases: p.quota.MaxLeases, MaxSize: p.quota.MaxSize, Total: set.limits.MaxSize, Doubt: m.at.managed, StartWait: m.at.startWait,
		LeasesLost: m.audit.leasesLost, Handout: p.handout, Boot: m.boot, Filled: func() { p.janitor.Nudge() }, Observe: p.checkpointed(m),
	}, state)
	if err != nil {
		return nil, err
	}
	p.events = newEventLog(db, state, log)
	p.janitor = janitor.New(janitor.Config{
		Stock: &stock{
			data: m.at.data, trash: p.trash, now: now, quota: p.quota, clones: p.clones, warm: warmLayers, workspaces: p.workspaces, swept: p.swept,
		},
		Limits: set.limits.Limits, Interval: set.limits.sweepInterval, WarnSize: set.limits.warnSize, Log: log,
		Evicted: m.audit.evicted, Earlier: p.events.earlier(), Recorded: p.events.record,
	})
	q, err := quarantine.Open(m.git, filepath.Join(m.at.data, "quarantine"), set.limits.pushMaxSize, func(ctx context.Context, subject string, f func() error) error {
		return p.clones.WithRoom(ctx, subject, disk.Size{}, f)
	})
	if err != nil {
		return nil, err
	}
	p.pusher, p.inspector = p.newPusher(m, q), p.newInspector(m, q)
	p.keeper = ready.New(ready.Config{
		Targets: ready.Targets(p.clones), Clone: ready.Clones(p.clones), States: p.workspaces.WarmStates, Defaults: set.defaults,
		Work: p.work, Schemes: set.schemes, Interval: set.keepReady, Now: now, Log: log,
	})
	p.volumes, err = verbs.New(verbs.Config{
		Root: m.at.data, DB: db, Clones: p.clones, Workspaces: p.workspaces, Work: p.work, Log: log, Now: now,
		Defaults: set.defaults, Schemes: set.schemes, Limits: p.limits, Warnings: p.warnings, Reached: m.mounts.check,
		Observe: m.audit.verb,
	}, state)
	if err != nil {
		return nil, err
	}
	p.docker = driver.New(driver.Config{
		Volumes: p.volumes, Log: log, Now: now, MountWait: set.mountWait, SharePrivate: set.sharePrivate, Remap: m.remap,
		Observe: func(e driver.Event) { m.counters.Operation(string(e.Operation), e.Kind, e.Took, e.Phases) },
	})
	if set.csi.endpoint != "" {
		p.csi = newKubernetes(p, m, db, state, log)
	}
	p.metrics = metrics.Handler(metrics.Config{
		Counters: m.counters, Figures: func() metrics.Figures { return p.figures(m) }, Subjects: set.metrics.subjects, Version: version, Log: log,
	})
	return p, nil
}

// start starts the work in the background. Close of p.work ends it.
func (p *parts) start() {
	for _, run := range []func(context.Context){
		p.layers.Run, p.clones.Measure, p.trash.Run, p.workspaces.Meter, p.workspaces.Verify, trim, p.sweep, p.keeper.Run, p.events.run,
	} {
		p.work.Go(run)
	}
	if p.csi != nil {
		p.work.Go(p.csi.Run)
	}
	if !p.idle {
		p.work.Go(p.janitor.Run)
	}
}

// sweep repairs what an earlier run left, while requests are served already. The janitor
// does not wait for the sweep of the volumes, because a volume that is being mounted may take long.
func (p *parts) sweep(ctx context.Context) {
	err := errors.Join(p.workspaces.Sweep(ctx), p.clones.SweepAll(ctx))
	close(p.swept)
	err = errors.Join(err, p.volumes.Sweep(ctx))
	if p.csi != nil {
		err = errors.Join(err, p.csi.Sweep(ctx))
	}
	if err != nil && ctx.Err() == nil {
		p.damaged.Store(true)
		p.log.WithError(err).Warn("sweep: not everything could be repaired; the next start tries again")
		return
	}
	p.log.Debug("sweep: done")
}

// warnings returns the janitor's findings for a volume's Status: only those about the
// volume and its clone, because others may be another subject's.
func (p *parts) warnings(volume, cloneKey string) []string {
	list := []string{}
	for _, f := range p.janitor.Findings() {
		if f.Clone == cloneKey && (f.Volume == volume || f.Volume == "") {
			list = append(list, f.Text)
		}
	}
	return list
}

func reportTrash(log *logrus.Logger) func(trash.Report) {
	return func(r trash.Report) {
		e := log.WithFields(logrus.Fields{"entry": filepath.Base(r.Entry), "removed": r.Removed})
		switch {
		case errors.Is(r.Err, trash.ErrLater):
			e.WithError(r.Err).Warn("trash: an entry can't be emptied yet; a container may still write to it")
			return
		case r.Err != nil:
			e.WithError(r.Err).WithField("left", r.Left).Warn("trash: not everything could be deleted; the next start tries again")
			return
		}
		e.Debug("trash: deleted")
	}
}
