package verbs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/keylock"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
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
	// Warnings returns, from memory, warnings for an operator about a volume and the size of
	// its clone. It may be nil.
	Warnings func(volume, cloneKey string) []string
	// CredentialChanges counts the changes of stored credentials. It may be nil.
	CredentialChanges func() int64
	// Observe is called with each event before its request is answered, by concurrent calls.
	// It must not block. It may be nil.
	Observe func(ctx context.Context, e Event)
	// Reached returns an error if a new mount would not reach containers. It may be nil.
	Reached func() error
}

// Volumes holds all volumes. It is safe for concurrent use.
type Volumes struct {
	Config
	names  keylock.Locks[string] // held by Create and Remove
	leases keylock.Locks[Lease]  // held by Acquire and Release

	mu      sync.Mutex // never held during I/O
	volumes map[string]*handle
}

var _ Verbs = (*Volumes)(nil)

// handle is a volume in memory. Volumes.mu guards the fields that change.
type handle struct {
	rec       meta.Volume
	opts      volume.Options
	clone     *clone.Clone
	since     atomic.Int64           // Remote.Asked at the last Create
	lent      atomic.Pointer[string] // the name of WithCredential; nil for the credential of the options
	acquiring int                    // number of running Acquires
	removing  bool                   // a Remove is running
	lastError string
	errorOf   string         // the ID of the request that failed with lastError
	answer    *remote.Answer // for the first Acquires (answerTo); nil if they ask
	changes   int64          // CredentialChanges before the question of answer
	distance  distance       // of the kept workspace from its ref
}

func (h *handle) spec() clone.Spec {
	s := clone.SpecOf(h.opts)
	s.Since = h.since.Load()
	if name := h.lent.Load(); name != nil {
		s.Credential = *name
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
	v := &Volumes{Config: c, volumes: make(map[string]*handle)}
	for name, rec := range state.Volumes {
		h, err := v.handleOf(rec)
		if err != nil {
			return nil, fmt.Errorf("record of volume %q: %w", name, err)
		}
		v.volumes[name] = h
		h.clone.Remote.RetainRef(h.spec().Source)
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
	rec.ID = cmp.Or(rec.ID, oldID(rec))
	return &handle{rec: rec, opts: opts, clone: v.Clones.Get(opts.Subject, opts.Repo)}, nil
}

// oldID returns an ID for a volume of an older version, whose record has none.
func oldID(rec meta.Volume) string {
	sum := sha256.Sum256([]byte(rec.Name + "\x00" + rec.CreatedAt.UTC().Format(time.RFC3339Nano)))
	return hex.EncodeToString(sum[:8])
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
	began, e := v.Now(), Event{Verb: Creating, Volume: name}
	h, made, err := v.create(ctx, name, options)
	if h != nil {
		e.ofVolume(h)
		ctx = origin.ForVolume(ctx, h.rec.ID)
	}
	e.Took, e.Err = v.Now().Sub(began), err
	if made || err != nil {
		v.report(ctx, e)
	}
	return err
}

// create is Create with the lock of the name held. It returns the volume, which may be nil after an error, and whether it
// was made.
func (v *Volumes) create(ctx context.Context, name string, options map[string]string) (_ *handle, made bool, err error) {
	if err := volume.CheckName(name); err != nil {
		return nil, false, fail(Invalid, err)
	}
	opts, err := v.parse(options)
	if err != nil {
		return nil, false, err
	}
	if h, err := v.find(name); err == nil {
		if diff := h.opts.Diff(opts); len(diff) > 0 {
			return h, false, fail(Exists, fmt.Errorf("volume %q exists with other options (%s): remove it first, or choose another name",
				name, strings.Join(diff, "; ")))
		}
		h.lend(ctx)
		h.since.Store(h.clone.Remote.Asked())
		v.dropAnswer(h)
		return h, false, nil
	}
	owner := work.Owner{Name: fmt.Sprintf("volume %q", name)}
	ctx = work.WithOwner(ctx, work.Owner{Name: owner.Name, Urgent: true})
	rec := meta.Volume{Name: name, Options: opts.Map(), CreatedAt: v.Now(), ID: cmp.Or(origin.Of(ctx).Request, origin.NewID())}
	ctx = origin.ForVolume(ctx, rec.ID)
	h := &handle{rec: rec, opts: opts, clone: v.Clones.Get(opts.Subject, opts.Repo), changes: v.credentialChanges()}
	h.lend(ctx)
	h.since.Store(h.clone.Remote.Asked())
	release, err := h.clone.Use(ctx)
	if err != nil {
		return h, false, err
	}
	defer release()
	// A restored volume has its workspace already, so the remote is not asked.
	var answer *remote.Answer
	if opts.Restore == "" {
		if answer, err = v.ask(ctx, h); err != nil {
			return h, false, err
		}
	}
	if err := h.clone.WithRoom(ctx, clone.FewFiles, func() error { return v.writeManifest(rec) }); err != nil {
		return h, false, err
	}
	failpoint.Hit("driver/create/manifest")
	put := func(tx *meta.Tx) error { return tx.PutVolume(rec) }
	if opts.Restore == "" {
		err = v.DB.Update(put)
	} else {
		err = v.Workspaces.Restore(ctx, opts.Restore, name, opts, put)
	}
	if err != nil {
		return h, false, errors.Join(err, v.removeManifest(name))
	}
	failpoint.Hit("driver/create/recorded")
	h.clone.Remote.RetainRef(h.spec().Source)
	v.mu.Lock()
	v.volumes[name] = h
	v.mu.Unlock()
	v.keepAnswer(h, answer)
	if opts.Restore == "" {
		v.Work.Go(origin.Bind(ctx, func(ctx context.Context) { v.prefetch(work.WithOwner(ctx, owner), h, answer) }))
	}
	return h, true, nil
}

// parse reads the options of a Create. A restored volume takes options that are not given from
// its discard.
func (v *Volumes) parse(given map[string]string) (volume.Options, error) {
	opts, err := volume.Parse(given, v.Defaults, v.Schemes)
	if err == nil && opts.Restore != "" {
		var from meta.Workspace
		if from, err = v.Workspaces.Discarded(opts.Restore); err == nil {
			opts, err = volume.ParseRestored(given, v.Defaults, from.Options, v.Schemes)
		}
	}
	if err != nil {
		return volume.Options{}, fail(Invalid, err)
	}
	return opts, nil
}

// ask asks the remote of a new volume whether it has the ref. The error is a definite no,
// or says that the client hung up.
func (v *Volumes) ask(ctx context.Context, h *handle) (*remote.Answer, error) {
	waiting, cancel := context.WithTimeoutCause(ctx, createWait, errCreateWait)
	defer cancel()
	answer, err := h.clone.Remote.Ask(waiting, h.spec().Source)
	switch {
	case err == nil:
	case ctx.Err() == context.Canceled:
		return nil, fail(Canceled, fmt.Errorf("create volume %q: the client hung up", h.rec.Name))
	case ctx.Err() != nil:
		return nil, fail(Unfinished, fmt.Errorf("create volume %q: the remote did not answer in time", h.rec.Name))
	case giterror.KindOf(err).Definite():
		return nil, err
	default:
		h.lastError, h.errorOf = err.Error(), origin.Of(ctx).Request
		v.Log.WithContext(ctx).WithError(err).WithField("volume", h.rec.Name).Warn("create: the remote gave no answer; the volume is made all the same")
	}
	return answer, nil
}

var errCreateWait = fmt.Errorf("no answer within %v", createWait)

// prefetch does the slow part of an Acquire in advance.
func (v *Volumes) prefetch(ctx context.Context, h *handle, answer *remote.Answer) {
	co, err := h.clone.Prepare(ctx, h.spec(), answer)
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
	began, e := v.Now(), Event{Verb: Removing, Volume: name}
	ctx = v.about(ctx, &e)
	known, err := v.remove(ctx, name)
	e.Took, e.Err = v.Now().Sub(began), err
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
	if n := len(v.Workspaces.Leases(name)) + h.acquiring; n > 0 {
		v.mu.Unlock()
		return true, fail(InUse, fmt.Errorf("volume %q is mounted (%d times): end its containers first", name, n))
	}
	h.removing = true // the volume stays in the map, because the engine forgets a volume whose Get fails once
	v.mu.Unlock()
	err = v.Workspaces.End(ctx, name, func(tx *meta.Tx) error { return tx.DeleteVolume(name) })
	v.mu.Lock()
	h.removing = false
	if err == nil {
		h.answer = nil
		delete(v.volumes, name)
	}
	v.mu.Unlock()
	if err != nil {
		return true, err
	}
	failpoint.Hit("driver/remove/recorded")
	h.clone.Remote.ReleaseRef(h.spec().Source)
	return true, v.removeManifest(name)
}
