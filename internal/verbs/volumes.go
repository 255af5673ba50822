package verbs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace"
)

// Config configures Volumes.
type Config struct {
	Root       string // the data directory
	DB         *meta.DB
	Clones     *clone.Manager
	Workspaces *workspace.Manager
	Work       *work.Group // runs the work in the background
	Log        *logrus.Logger
	Now        func() time.Time
	Defaults   map[string]string // defaults of the options that a volume does not set
	Schemes    volume.Schemes
	Limits     Limits
	// Warnings returns, from memory, warnings for an operator about a volume and the size of
	// its clone. It may be nil.
	Warnings func(volume, cloneKey string) []string
	// Observe is called with each event before its request is answered, by concurrent calls.
	// It must not block. It may be nil.
	Observe func(ctx context.Context, e Event)
	// Reached returns an error if a new mount would not reach containers. It may be nil.
	Reached func() error
}

// Volumes holds all volumes. It is safe for concurrent use.
type Volumes struct {
	config Config
	names  keylock.Locks[string] // held by Create and Remove
	leases keylock.Locks[Lease]  // held by Acquire and Release

	mu      sync.Mutex // never held during I/O
	volumes map[string]*handle
}

var _ Verbs = (*Volumes)(nil)

// handle is a volume in memory. Volumes.mu guards the fields that change.
type handle struct {
	rec       meta.Volume // without its options, which opts has
	opts      volume.Options
	clone     *clone.Clone
	since     atomic.Pointer[clone.Since] // of the last Create; nil after a start
	checkouts atomic.Int64                // how many Acquires have asked for one
	lent      atomic.Pointer[string]      // the name of WithCredential; nil for the credential of the options
	acquiring int                         // number of running Acquires
	removing  bool                        // a Remove is running
	lastError string
	errorOf   string   // the ID of the request that failed with lastError
	distance  distance // of the kept workspace from its ref
}

// record returns the volume's record.
func (h *handle) record() meta.Volume {
	rec := h.rec
	rec.Options = h.opts.Map()
	return rec
}

func (h *handle) spec() clone.Spec {
	s := clone.SpecOf(h.opts)
	if since := h.since.Load(); since != nil {
		s.Since = *since
	}
	if name := h.lent.Load(); name != nil {
		s.Credential = *name
	}
	return s
}

// mountSpec is spec for an Acquire. It counts it: those after the first two are not of the run that created the volume.
func (h *handle) mountSpec() clone.Spec {
	s := h.spec()
	if h.checkouts.Add(1) > runMounts {
		s.Since.For = 0
	}
	return s
}

type credentialKey struct{}

// WithCredential returns a context for the Create of a volume that uses the credential with
// a name, which was lent to the front end, until the volume's next Create, for as long as
// this process has the volume. It is in no option and no record.
func WithCredential(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, credentialKey{}, name)
}

// lend sets the credential of WithCredential. Without one in ctx it ends that of an earlier
// Create, which the front end may have returned.
func (h *handle) lend(ctx context.Context) {
	if name, ok := ctx.Value(credentialKey{}).(string); ok {
		h.lent.Store(&name)
	} else {
		h.lent.Store(nil)
	}
}

// New returns the volumes of state.
func New(c Config, state meta.State) (*Volumes, error) {
	v := &Volumes{config: c, volumes: make(map[string]*handle)}
	for _, rec := range state.Volumes {
		name := rec.Name // and not the key, because that is another copy of it
		h, err := v.handleOf(rec)
		if err != nil {
			return nil, fmt.Errorf("record of volume %q: %w", name, err)
		}
		v.volumes[name] = h
		h.clone.RetainRef(h.spec())
	}
	return v, errors.Join(os.MkdirAll(v.manifestDir(), 0o700), v.removeTemps())
}

// handleOf returns the handle for a record. It accepts all schemes, because a volume whose
// scheme the settings no longer allow must still be listed; Acquire refuses it.
func (v *Volumes) handleOf(rec meta.Volume) (*handle, error) {
	opts, err := volume.Parse(rec.Options, nil, volume.AllSchemes())
	if err != nil {
		return nil, err
	}
	rec.Options = nil
	return &handle{rec: rec, opts: opts, clone: v.config.Clones.Get(opts.Subject, opts.Repo)}, nil
}

// find returns a volume.
func (v *Volumes) find(name string) (*handle, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h, ok := v.volumes[name]
	if !ok {
		return nil, noVolume(name)
	}
	return h, nil
}

// Count returns the number of volumes.
func (v *Volumes) Count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.volumes)
}

func noVolume(name string) error { return fail(NotFound, fmt.Errorf("no volume %q", name)) }

// createWait is how long Create waits for the remote's answer: long enough to report a
// typing mistake, and short enough not to delay `docker volume create`.
const createWait = 3 * time.Second

// Create implements Verbs.
func (v *Volumes) Create(ctx context.Context, name string, options map[string]string) error {
	unlock, err := v.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	began, e := v.config.Now(), Event{Verb: Creating, Volume: name}
	h, made, err := v.create(ctx, name, options)
	if h != nil {
		e.ofVolume(h)
		ctx = origin.ForVolume(ctx, h.rec.ID)
	}
	e.Took, e.Err = v.config.Now().Sub(began), err
	if made || err != nil {
		v.report(ctx, e)
	}
	return err
}

// create is Create with the lock of the name held. It returns the volume, which may be nil after an error, and whether
// it was made.
func (v *Volumes) create(ctx context.Context, name string, options map[string]string) (_ *handle, made bool, err error) {
	if err := volume.CheckName(name); err != nil {
		return nil, false, fail(Invalid, err)
	}
	opts, err := v.parse(name, options)
	if err != nil {
		return nil, false, err
	}
	_, refused := v.config.Limits.of(opts)
	if h, err := v.find(name); err == nil {
		if diff := h.opts.Diff(opts); len(diff) > 0 {
			return h, false, fail(Exists, fmt.Errorf("volume %q exists with other options (%s): remove it first, or choose another name",
				name, strings.Join(diff, "; ")))
		}
		h.lend(ctx)
		h.since.Store(&clone.Since{Asked: h.clone.Asked()}) // its caller may have waited for a push
		return h, false, nil
	}
	if refused != nil {
		return nil, false, fail(Invalid, refused)
	}
	owner := work.Owner{Name: fmt.Sprintf("volume %q", name), Ends: true}
	ctx = work.WithOwner(ctx, work.Owner{Name: owner.Name, Urgent: true})
	rec := meta.Volume{Name: name, Options: opts.Map(), CreatedAt: v.config.Now()}
	rec.ID = cmp.Or(origin.Of(ctx).Request, origin.NewID())
	ctx = origin.ForVolume(ctx, rec.ID)
	h := &handle{rec: rec, opts: opts, clone: v.config.Clones.Get(opts.Subject, opts.Repo)}
	h.rec.Options = nil
	h.lend(ctx)
	since := clone.Since{Asked: h.clone.Asked(), At: rec.CreatedAt, For: answerFor(name, opts.Refresh)}
	h.since.Store(&since)
	release, err := h.clone.Use(ctx)
	if err != nil {
		return h, false, err
	}
	defer release()
	// What begins with a checkpoint has its layers already, so the remote is not asked.
	first := h.spec()
	first.Since.For = prefetchFor
	if opts.From == "" {
		if err := v.ask(ctx, h, first); err != nil {
			return h, false, err
		}
		// Beside the sync of the records. If these fail, it ends, unless others wait for it too. What is there of the
		// clone stays, as that of a removed volume does.
		failed, fail := context.WithCancel(context.Background())
		defer func() {
			if !made {
				fail()
			}
		}()
		v.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
			ctx, cancel := context.WithCancel(work.WithOwner(ctx, owner))
			defer cancel()
			defer context.AfterFunc(failed, cancel)()
			v.prefetch(ctx, h, first)
		}))
	}
	if err := h.clone.WithRoom(ctx, clone.FewFiles, func() error { return v.writeManifest(rec) }); err != nil {
		return h, false, err
	}
	failpoint.Hit("verbs/create/manifest")
	if err := v.config.DB.Update(func(tx *meta.Tx) error { return tx.PutVolume(rec) }); err != nil {
		return h, false, errors.Join(err, v.removeManifest(name))
	}
	failpoint.Hit("verbs/create/recorded")
	h.clone.RetainRef(h.spec())
	v.mu.Lock()
	v.volumes[name] = h
	v.mu.Unlock()
	return h, true, nil
}

// parse reads the options of a Create. A volume that begins with a checkpoint takes options that are not given from there.
func (v *Volumes) parse(name string, given map[string]string) (volume.Options, error) {
	opts, err := volume.Parse(given, v.config.Defaults, v.config.Schemes)
	if err == nil && opts.From != "" {
		var left map[string]string
		if left, err = v.leftBy(name, opts); err == nil {
			opts, err = volume.ParseFrom(given, v.config.Defaults, left, v.config.Schemes)
		}
	}
	if err != nil {
		return volume.Options{}, fail(Invalid, err)
	}
	return opts, nil
}

// leftBy returns the options that a checkpoint has for a volume that begins with it. A volume that exists took them already: it
// may have gone back to another checkpoint since, and this one be gone.
func (v *Volumes) leftBy(name string, opts volume.Options) (map[string]string, error) {
	if h, err := v.find(name); err == nil && h.opts.From == opts.From && h.opts.Subject == opts.Subject {
		return h.opts.Map(), nil
	}
	rec, err := v.config.Workspaces.Checkpoint(opts.From, opts.Subject)
	return rec.Options, err
}

const (
	// prefetchFor is how long after its beginning Create's own fetch may use the answer.
	prefetchFor = time.Minute
	// runFor is how long the first runMounts Acquires of a volume may, if an engine has made its name: they are of the
	// `docker run` that created it, which mounts it up to twice. So it asks once, and has each push that ended before it
	// began.
	runFor    = 2 * time.Second
	runMounts = 2
)

// answerFor returns how long after the beginning of Create its answer serves the first Acquires of a volume.
func answerFor(name string, r volume.Refresh) time.Duration {
	switch {
	case r.Always || !volume.IsGenerated(name):
		return 0
	case r.Interval > 0:
		return min(runFor, r.Interval)
	}
	return runFor
}

// ask asks the remote of a new volume whether it has the ref. The error is a definite no,
// or says that the client hung up.
func (v *Volumes) ask(ctx context.Context, h *handle, s clone.Spec) error {
	waiting, cancel := context.WithTimeoutCause(ctx, createWait, errCreateWait)
	defer cancel()
	err := h.clone.Ask(waiting, s)
	switch {
	case err == nil:
	case ctx.Err() == context.Canceled:
		return fail(Canceled, fmt.Errorf("create volume %q: the client hung up", h.rec.Name))
	case ctx.Err() != nil:
		return fail(Unfinished, fmt.Errorf("create volume %q: the remote did not answer in time", h.rec.Name))
	case giterror.KindOf(err).Definite():
		return err
	default:
		h.lastError, h.errorOf = err.Error(), origin.Of(ctx).Request
		v.config.Log.WithContext(ctx).WithError(err).WithField("volume", h.rec.Name).
			Warn("create: the remote gave no answer; the volume is made all the same")
	}
	return nil
}

var errCreateWait = fmt.Errorf("no answer within %v", createWait)

// prefetch does the slow part of an Acquire in advance.
func (v *Volumes) prefetch(ctx context.Context, h *handle, s clone.Spec) {
	co, err := h.clone.Prepare(ctx, s)
	if err == nil {
		co.Release()
	}
	if ctx.Err() == nil {
		v.note(ctx, h, err)
	}
}

// note records the result of the last attempt, for Status.
func (v *Volumes) note(ctx context.Context, h *handle, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.lastError, h.errorOf = "", ""
	if err != nil {
		h.lastError, h.errorOf = err.Error(), origin.Of(ctx).Request
	}
}

// Remove implements Verbs.
func (v *Volumes) Remove(ctx context.Context, name string) error {
	unlock, err := v.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	began, e := v.config.Now(), Event{Verb: Removing, Volume: name}
	ctx = v.about(ctx, &e)
	known, err := v.remove(ctx, name)
	e.Took, e.Err = v.config.Now().Sub(began), err
	if known || err != nil {
		v.report(ctx, e)
	}
	return err
}

// remove is Remove with the lock of the name held. It reports whether there was such a volume.
func (v *Volumes) remove(ctx context.Context, name string) (known bool, err error) {
	v.mu.Lock()
	h, ok := v.volumes[name]
	if !ok {
		v.mu.Unlock()
		return false, nil
	}
	// Both numbers are read under one lock, because an Acquire gets its lease before it is no
	// longer counted.
	if n := len(v.config.Workspaces.Leases(name)) + h.acquiring; n > 0 {
		v.mu.Unlock()
		return true, fail(InUse, fmt.Errorf("volume %q is mounted (%d times): end its containers first", name, n))
	}
	h.removing = true // the volume stays in the map, because the engine forgets a volume whose Get fails once
	v.mu.Unlock()
	err = v.config.Workspaces.End(ctx, name, func(tx *meta.Tx) error { return tx.DeleteVolume(name) })
	v.mu.Lock()
	h.removing = false
	if err == nil {
		delete(v.volumes, name)
	}
	v.mu.Unlock()
	if err != nil {
		return true, err
	}
	failpoint.Hit("verbs/remove/recorded")
	h.clone.ReleaseRef(h.spec())
	return true, v.removeManifest(name)
}
