// Package verbs holds the volumes, and implements the operations of front ends: create,
// acquire, release, remove, list and get.
//
// A front end translates a protocol into verbs. Package driver is Docker's, and has all that
// only Docker needs. Leases are a set: the front end chooses their IDs, a lease that is
// acquired twice is held once, and one release ends it.
//
// Callers may rely on this: List and Get answer from memory and never block; a verb that
// fails, or whose context ends, leaves nothing behind; repeating a verb has the same result.
//
// Each call is a request. A front end gives its context an origin (origin.Begin), which says
// who asks; the verbs add the volume's ID. All log lines of the request, also those of work
// that it started in the background, carry both.
package verbs

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/internal/workspace/admission"
)

// Verbs are the operations of front ends. *Volumes implements them. All methods are safe for
// concurrent use. KindOf returns the kind of an error.
type Verbs interface {
	// Create makes a volume. It asks the remote whether the repository and the ref exist:
	// a definite no is returned as an error, any other result starts the fetch in the
	// background. If an engine has made the name (volume.IsGenerated), the answer also serves the
	// volume's first two Acquires, in the next two seconds: they may miss a change at the remote
	// since Create began. Creating a volume again with the same options is not an error, and ends
	// that.
	Create(ctx context.Context, name string, options map[string]string) error

	// Acquire gives a lease a workspace of its volume, the same one as before if it has
	// one. In a new one is each push that ended before the request came, unless Create or the
	// volume's options say otherwise. If ctx ends earlier, the new workspace is removed, and
	// clone and fetch continue in the background; after a deadline, the error says what they do.
	// Without a deadline, Acquire waits until they end. With an error of the kinds Held and
	// Unreachable, Mount may describe the workspace that the lease had.
	Acquire(ctx context.Context, l Lease) (Mount, error)

	// Add adds another lease of the same volume to the workspace of a lease. It is for front
	// ends that count. ok is false if the first lease is unknown.
	Add(ctx context.Context, l Lease, another string) (ok bool, err error)

	// Release ends a lease. The workspace ends with its last lease, unless its volume
	// keeps it. An unknown lease was released before. The end of ctx does not end a Release,
	// because the work is short and the caller may not try again.
	Release(ctx context.Context, l Lease) error

	// Remove removes a volume without leases. Its clone stays, and its kept workspace becomes
	// a checkpoint. An unknown volume was removed before.
	Remove(ctx context.Context, name string) error

	// List returns all volumes, sorted by name, without their state.
	List() []Volume

	// Leases returns the IDs of a volume's leases. An unknown volume has none.
	Leases(volume string) []string

	// Options returns what a volume was created with, from memory.
	Options(name string) (volume.Options, error)

	// Get returns a volume with its state.
	Get(name string) (Volume, error)
}

// Lease holds a workspace of a volume. The front end chooses the ID. It must not contain #,
// which marks the leases that Add makes for the same holder (meta.NthLease).
type Lease = workspace.Lease

// Mount is the workspace of a lease.
type Mount struct {
	Path string // where the workspace is mounted
	// Again is set if the lease had the workspace before.
	Again bool
	// File is a regular file of a workspace that the lease had before, and that is out of
	// reach. No path below it can exist.
	File string
}

// Volume is a named handle: repository, ref, options.
type Volume struct {
	Name      string
	CreatedAt time.Time
	Options   volume.Options
	State     *State // nil in a list
}

// State is the current state of a volume.
type State struct {
	// Mountpoint is where the newest workspace is mounted, empty without one.
	Mountpoint string
	// Workspaces are the leased workspaces, oldest first. Callers must not change them.
	Workspaces []meta.Workspace
	// Status has JSON values that users may see. It contains no secret.
	Status map[string]any
}

// Kind classifies the errors of verbs, for protocols that have error codes.
type Kind string

const (
	Invalid     Kind = "invalid"     // the name or the options are wrong
	NotFound    Kind = "not found"   // no such volume, repository or ref
	Exists      Kind = "exists"      // the volume has other options
	InUse       Kind = "in use"      // the volume has leases, or is being removed
	Exhausted   Kind = "exhausted"   // the subject has as many leases as it is allowed, or its workspaces may hold as much
	Denied      Kind = "denied"      // a setting or the remote refuses it, or no connection to the remote is possible
	Unavailable Kind = "unavailable" // the remote fails or does not answer, or the disk is full: try again
	Unfinished  Kind = "unfinished"  // the time is over: try again, because the work continues in the background
	Held        Kind = "held"        // a container without a lease still uses the workspace: try again after its end
	Unreachable Kind = "unreachable" // the plugin's mounts reach no container now: try again
	Canceled    Kind = "canceled"    // the caller hung up
	Internal    Kind = "internal"    // anything else
)

// Kinds lists all kinds of errors.
func Kinds() []Kind {
	return []Kind{Invalid, NotFound, Exists, InUse, Exhausted, Denied, Unavailable, Unfinished, Held, Unreachable, Canceled, Internal}
}

// verbError adds a kind to an error. Its text does not mention the kind.
type verbError struct {
	kind Kind
	error
}

func (e verbError) Unwrap() error { return e.error }

// fail adds a kind to an error.
func fail(k Kind, err error) error { return verbError{k, err} }

// KindOf returns the kind of an error of a verb.
func KindOf(err error) Kind {
	var e verbError
	var budget *admission.BudgetError
	kind := giterror.KindOf(err)
	switch {
	case errors.As(err, &e):
		return e.kind
	case errors.Is(err, workspace.ErrHeld):
		return Held
	case errors.As(err, &budget):
		return Exhausted
	case kind == giterror.KindNotFound || kind == giterror.KindRefNotFound:
		return NotFound
	case kind.Definite():
		return Denied
	case kind == giterror.KindTimeout || kind == giterror.KindServer || giterror.NoSpace(err):
		return Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return Unfinished
	case errors.Is(err, context.Canceled):
		return Canceled
	}
	return Internal
}
