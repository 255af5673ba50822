package driver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/keylock"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
)

// Config is what a Driver works with.
type Config struct {
	Root       string // the data directory
	DB         *meta.DB
	Clones     *clone.Manager
	Workspaces *workspace.Manager
	Log        *logrus.Logger
	Now        func() time.Time
	MountWait  time.Duration     // how long a Mount may take
	Defaults   map[string]string // options that a volume has unless it says otherwise
	Schemes    volume.Schemes
	// SharePrivate gives a private workspace to a runtime too that does not tell its
	// containers apart, which then share it.
	SharePrivate bool
	Remap        *Remap // of the engine; nil: none that is known of
	// Warnings says what an operator should know of a volume and its clone's size,
	// from memory. Nil says nothing.
	Warnings func(volume, cloneKey string) []string
	// Reached says why a mount that was made now would reach no container. Nil: it
	// does.
	Reached func() error
}

// Driver holds the volumes. It is safe for concurrent use.
type Driver struct {
	Config
	patience patience
	names    keylock.Locks[string] // of a volume's Create and Remove
	mounts   keylock.Locks[lease]  // of a lease's Mount and Unmount

	mu      sync.Mutex // never held over I/O
	volumes map[string]*handle
}

// lease is one (volume, mount ID).
type lease struct{ volume, id string }

// handle is a volume in memory. What changes is guarded by Driver.mu.
type handle struct {
	rec       meta.Volume
	opts      volume.Options
	clone     *clone.Clone
	mounting  int  // Mounts at work
	removing  bool // a Remove is at work
	lastError string
	distance  distance // of what it keeps
}

func (h *handle) spec() clone.Spec {
	o := h.opts
	return clone.Spec{
		Source: remote.Source{
			URL: o.Repo, Ref: o.Ref, History: o.History, Refresh: o.Refresh, StaleIfError: o.StaleIfError, Credential: o.Credential,
		},
		Files: o.Files, UID: o.UID, GID: o.GID,
	}
}

// New returns a Driver for the volumes of state.
func New(c Config, state meta.State) (*Driver, error) {
	d := &Driver{Config: c, volumes: make(map[string]*handle)}
	d.patience.most = c.MountWait
	for name, rec := range state.Volumes {
		h, err := d.open(rec)
		if err != nil {
			return nil, fmt.Errorf("record of volume %q: %w", name, err)
		}
		d.volumes[name] = h
		h.clone.Remote.RetainRef(h.spec().Source)
	}
	return d, errors.Join(os.MkdirAll(d.manifestDir(), 0o700), d.removeTemps())
}

// open reads a record back. A scheme that the settings no longer allow is
// refused at Mount, not here: the volume must still be listed.
func (d *Driver) open(rec meta.Volume) (*handle, error) {
	opts, err := volume.Parse(rec.Options, nil, volume.AllSchemes())
	if err != nil {
		return nil, err
	}
	return &handle{rec: rec, opts: opts, clone: d.Clones.Get(opts.Subject, opts.Repo)}, nil
}

// find returns a volume.
func (d *Driver) find(name string) (*handle, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h, ok := d.volumes[name]
	if !ok {
		return nil, fmt.Errorf("no volume %q", name)
	}
	return h, nil
}

// createWait is how long Create waits for the remote's answer: a typing mistake
// is told at once, and a slow remote does not hold up `docker volume create`.
const createWait = 3 * time.Second

// Create makes a volume. It asks the remote whether the repository and the ref
// exist: a definite no is the error, anything else starts the fetch in the
// background. To create a volume again with the same options is no error.
func (d *Driver) Create(ctx context.Context, name string, options map[string]string) error {
	if err := volume.CheckName(name); err != nil {
		return err
	}
	opts, err := d.parse(options)
	if err != nil {
		return err
	}
	unlock, err := d.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	if h, err := d.find(name); err == nil {
		if diff := h.opts.Diff(opts); len(diff) > 0 {
			return fmt.Errorf("volume %q exists with other options (%s): remove it first, or choose another name", name, strings.Join(diff, "; "))
		}
		return nil
	}
	owner := work.Owner{Name: fmt.Sprintf("volume %q", name)}
	ctx = work.WithOwner(ctx, work.Owner{Name: owner.Name, Urgent: true})
	rec := meta.Volume{Name: name, Options: opts.Map(), CreatedAt: d.Now()}
	h := &handle{rec: rec, opts: opts, clone: d.Clones.Get(opts.Subject, opts.Repo)}
	release, err := h.clone.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	// What is restored has all that it needs: there is nothing to ask for.
	var answer *remote.Answer
	if opts.Restore == "" {
		if answer, err = d.ask(ctx, h); err != nil {
			return err
		}
	}
	if err := h.clone.WithRoom(ctx, disk.Size{}, func() error { return d.writeManifest(rec) }); err != nil {
		return err
	}
	failpoint.Hit("driver/create/manifest")
	put := func(tx *meta.Tx) error { return tx.PutVolume(rec) }
	if opts.Restore == "" {
		err = d.DB.Update(put)
	} else {
		err = d.Workspaces.Restore(opts.Restore, name, opts, put)
	}
	if err != nil {
		return errors.Join(err, d.removeManifest(name))
	}
	failpoint.Hit("driver/create/recorded")
	h.clone.Remote.RetainRef(h.spec().Source)
	d.mu.Lock()
	d.volumes[name] = h
	d.mu.Unlock()
	d.Log.WithFields(logrus.Fields{"volume": name, "clone": h.clone.Key, "ref": opts.Ref.String()}).Info("create: done")
	if opts.Restore == "" {
		d.Clones.Background(func(ctx context.Context) { d.prefetch(work.WithOwner(ctx, owner), h, answer) })
	}
	return nil
}

// parse reads the options of a Create. Those of a restored volume are, where they
// are not given, those that its discard was made with.
func (d *Driver) parse(given map[string]string) (volume.Options, error) {
	opts, err := volume.Parse(given, d.Defaults, d.Schemes)
	if err != nil || opts.Restore == "" {
		return opts, err
	}
	from, err := d.Workspaces.Discarded(opts.Restore)
	if err != nil {
		return volume.Options{}, err
	}
	return volume.ParseRestored(given, d.Defaults, from.Options, d.Schemes)
}

// ask asks the remote of a volume that is to be made whether it has the ref. The
// error is a definite no, or that the client has gone.
func (d *Driver) ask(ctx context.Context, h *handle) (*remote.Answer, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, createWait, errCreateWait)
	defer cancel()
	answer, err := h.clone.Remote.Ask(waiting, h.spec().Source)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("create volume %q: the client hung up", h.rec.Name)
	case git.KindOf(err).Definite():
		return nil, err
	default:
		h.lastError = err.Error()
		d.Log.WithError(err).WithField("volume", h.rec.Name).Warn("create: the remote gave no answer; the volume is made all the same")
	}
	return answer, nil
}

var errCreateWait = fmt.Errorf("no answer within %v", createWait)

// prefetch does a Mount's slow part before there is one.
func (d *Driver) prefetch(ctx context.Context, h *handle, answer *remote.Answer) {
	co, err := h.clone.Prepare(ctx, h.spec(), answer)
	if err == nil {
		co.Release()
	}
	if ctx.Err() == nil {
		d.note(h, err)
	}
}

// note keeps the outcome of the last attempt, for Status.
func (d *Driver) note(h *handle, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h.lastError = ""
	if err != nil {
		h.lastError = err.Error()
	}
}

// Remove forgets a volume. Its clone stays, and what it kept becomes a discard. A volume that is not known was
// removed already.
func (d *Driver) Remove(ctx context.Context, name string) error {
	unlock, err := d.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	d.mu.Lock()
	h, ok := d.volumes[name]
	if !ok {
		d.mu.Unlock()
		return nil
	}
	// Both at once: a Mount that ends gives up the one after it has the other.
	if n := len(d.Workspaces.Leases(name)) + h.mounting; n > 0 {
		d.mu.Unlock()
		return fmt.Errorf("volume %q is mounted (%d times): end its containers first", name, n)
	}
	h.removing = true // but still there: the engine forgets a volume whose Get fails once
	d.mu.Unlock()
	err = d.Workspaces.End(ctx, name, func(tx *meta.Tx) error { return tx.DeleteVolume(name) })
	d.mu.Lock()
	h.removing = false
	if err == nil {
		delete(d.volumes, name)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	failpoint.Hit("driver/remove/recorded")
	h.clone.Remote.ReleaseRef(h.spec().Source)
	d.Log.WithField("volume", name).Info("remove: done")
	return d.removeManifest(name)
}
