package removal

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/keylock"
	"github.com/helmdeck/repos/internal/workspace/obstacle"
	"github.com/helmdeck/repos/janitor"
)

// Config configures a Remover.
type Config struct {
	Clones     Clones
	Workspaces Workspaces
	// Forget removes what the warm layers know of a clone.
	Forget  clone.Forget
	Janitor Janitor
	Log     *logrus.Logger
}

// Janitor is the part of *janitor.Janitor that evicts, and that keeps account of evictions.
type Janitor interface {
	EvictClone(ctx context.Context, key string) error
	Removed(ctx context.Context, e janitor.Eviction)
}

// Clones is the part of *clone.Manager that looks clones up and removes them.
type Clones interface {
	Lookup(key string) *clone.Clone
	Inventory() []clone.Info
	ClearClone(ctx context.Context, key string, stop work.Stop, clear clone.Clear, forget ...clone.Forget) error
}

// Workspaces is the part of *workspace.Manager that knows what stands on clones, and removes it.
type Workspaces interface {
	Obstacles(clone string) []obstacle.Obstacle
	Workspaces() []meta.Workspace
	AwaitReaped(ctx context.Context, clones ...string) error
	ParkUnused(ctx context.Context, clones ...string) error
	Clear(ctx context.Context, clone string, force bool, ready func() error) (removed []string, err error)
}

// Remover removes clones. It is safe for concurrent use.
type Remover struct {
	config   Config
	removing keylock.Locks[string] // by clone
}

// New returns a Remover.
func New(c Config) *Remover { return &Remover{config: c} }

// Freed is what a removal has freed.
type Freed struct {
	// Size is that of the files when the removal began. They are deleted in the background.
	Size   disk.Size
	Clones []string // keys
	// Removed are the IDs of the kept workspaces and the checkpoints that went with them.
	Removed []string
}

// ErrNone is returned for a clone that does not exist, and for a subject without clones.
var ErrNone = errors.New("there is no clone")

// Evict evicts a clone. Work on it is cancelled, and Mounts that wait for that fail. A clone
// with workspaces or checkpoints stays: the error is janitor.ErrHeld. For an unknown clone it is
// janitor.ErrNoClone.
func (r *Remover) Evict(ctx context.Context, key string) (Freed, error) {
	unlock, err := r.removing.Lock(ctx, key)
	if err != nil {
		return Freed{}, err
	}
	defer unlock()
	size := r.measure(ctx, key)
	if err := r.config.Janitor.EvictClone(ctx, key); err != nil {
		return Freed{}, err
	}
	return Freed{Size: size, Clones: []string{key}}, nil
}

// Fresh removes a clone with all that stands on it: stores, layers, warm layers, caches and,
// by force, kept workspaces and checkpoints. If something is in the way, the error is a
// *obstacle.Error, and all stays. Force also cancels work for which Mounts wait; they
// fail, and can be repeated. For an unknown clone the error is ErrNone.
func (r *Remover) Fresh(ctx context.Context, key string, force bool) (Freed, error) {
	unlock, err := r.removing.Lock(ctx, key)
	if err != nil {
		return Freed{}, err
	}
	defer unlock()
	if !r.exists(key) {
		return Freed{}, fmt.Errorf("%w %q", ErrNone, key)
	}
	if err := r.config.Workspaces.AwaitReaped(ctx, key); err != nil {
		return Freed{}, err
	}
	if err := obstacle.Blocked(r.config.Workspaces.Obstacles(key), force); err != nil {
		return Freed{}, err
	}
	if err := r.config.Workspaces.ParkUnused(ctx, key); err != nil { // before any work is cancelled
		return Freed{}, err
	}
	return r.remove(ctx, key, force)
}

// FreshSubject is Fresh for all clones of a subject. If something is in the way of one of
// them, all stay, unless it comes while others are being removed: Freed has those that were.
func (r *Remover) FreshSubject(ctx context.Context, name string, force bool) (freed Freed, err error) {
	subject, err := volume.ParseSubject(name)
	if err != nil {
		return freed, err
	}
	keys := r.clonesOf(subject)
	if len(keys) == 0 {
		return freed, fmt.Errorf("%w of subject %q", ErrNone, name)
	}
	if err := r.config.Workspaces.AwaitReaped(ctx, keys...); err != nil {
		return freed, err
	}
	var obstacles []obstacle.Obstacle
	for _, key := range keys {
		obstacles = append(obstacles, r.config.Workspaces.Obstacles(key)...)
	}
	if err := obstacle.Blocked(obstacles, force); err != nil {
		return freed, err
	}
	if err := r.config.Workspaces.ParkUnused(ctx, keys...); err != nil { // before any clone is removed
		return freed, err
	}
	for _, key := range keys {
		one, err := r.Fresh(ctx, key, force)
		if errors.Is(err, ErrNone) {
			continue // removed meanwhile
		}
		freed.Size = freed.Size.Add(one.Size)
		freed.Clones = append(freed.Clones, one.Clones...)
		freed.Removed = append(freed.Removed, one.Removed...)
		if err != nil {
			return freed, fmt.Errorf("%d of %d clones of subject %q were removed: %w", len(freed.Clones), len(keys), name, err)
		}
	}
	return freed, nil
}

// remove removes a clone. The caller holds its lock.
func (r *Remover) remove(ctx context.Context, key string, force bool) (freed Freed, err error) {
	size := r.measure(ctx, key)
	stop := work.StopUnattended
	if force {
		stop = work.StopAll
	}
	clear := func(ctx context.Context, ready func() error) (err error) {
		freed.Removed, err = r.config.Workspaces.Clear(ctx, key, force, ready)
		return err
	}
	subject := ""
	if c := r.config.Clones.Lookup(key); c != nil {
		subject = string(c.Subject)
		err = r.config.Clones.ClearClone(ctx, key, stop, clear, r.config.Forget)
	} else {
		err = clear(ctx, func() error { return nil }) // the clone's record is lost
	}
	slices.Sort(freed.Removed)
	if err != nil && len(freed.Removed) > 0 { // all did not stay
		return freed, fmt.Errorf("clone %s stays, but the workspaces and checkpoints %q were removed: %v", key, freed.Removed, err)
	}
	if busy, ok := errors.AsType[*work.BusyError](err); ok {
		o := obstacle.Obstacle{Kind: "work", Clone: key, Text: busy.Error(), Forced: !force}
		err = &obstacle.Error{List: []obstacle.Obstacle{o}}
	}
	if err != nil {
		return freed, err
	}
	freed.Size, freed.Clones = size, []string{key}
	r.config.Janitor.Removed(ctx, janitor.Eviction{
		Kind: janitor.WholeClone, Reason: janitor.OnDemand, Subject: subject, Clone: key, Size: size, Text: "an operator started it fresh",
	})
	return freed, nil
}

// exists reports whether a clone has anything.
func (r *Remover) exists(key string) bool {
	if c := r.config.Clones.Lookup(key); c != nil {
		if _, ok := c.Info(); ok {
			return true
		}
	}
	return len(r.config.Workspaces.Obstacles(key)) > 0
}

// clonesOf returns the keys of the clones of a subject, sorted.
func (r *Remover) clonesOf(subject volume.Subject) (keys []string) {
	for _, info := range r.config.Clones.Inventory() {
		keys = append(keys, info.Key)
	}
	for _, rec := range r.config.Workspaces.Workspaces() {
		keys = append(keys, rec.Clone) // whose record may be lost
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { return path.Dir(key) != subject.Dir() })
	slices.Sort(keys)
	return slices.Compact(keys)
}

// measure returns the size of a clone with all that is in its directory: the recorded sizes
// may be old, or missing for what was just made.
func (r *Remover) measure(ctx context.Context, key string) disk.Size {
	c := r.config.Clones.Lookup(key)
	if c == nil {
		return disk.Size{}
	}
	found, err := disk.Query{Budget: disk.Budget}.Take(ctx, c.Dir)
	if err != nil && ctx.Err() == nil {
		r.config.Log.WithContext(ctx).WithError(err).WithField("clone", key).Debug("measure a clone that is to be removed")
	}
	return found.Size
}
