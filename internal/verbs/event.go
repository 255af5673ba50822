package verbs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work/phase"
)

// Verb is what an Event is about.
type Verb string

const (
	Creating   Verb = "create"
	Removing   Verb = "remove"
	Mounting   Verb = "mount"
	Unmounting Verb = "unmount"
	Forcing    Verb = "forced unmount" // ForceRelease
)

// Event is a call of a verb that changed something, or failed.
type Event struct {
	Verb   Verb
	Volume string
	// Options are those of the volume; the zero value if it is unknown.
	Options volume.Options
	Clone   string // its key
	Lease   string // of a Mount and an Unmount; of a forced Unmount the holder
	// Workspace is that of the lease; the zero value if there is none.
	Workspace meta.Workspace
	// Again is set for a Mount of a lease that had the workspace before: it changes nothing.
	Again bool
	Took  time.Duration
	// Phases are those that a Mount has begun, and Waits what it has waited for.
	Phases map[phase.Phase]time.Duration
	Waits  map[string]time.Duration
	Err    error
}

// ofVolume sets what an event says about a volume.
func (e *Event) ofVolume(h *handle) {
	e.Options, e.Clone = h.opts, h.clone.Key
}

// leastWait is the shortest wait that is worth a word.
const leastWait = time.Millisecond

// waited returns the waits as text, such as "a turn (cpu) 1.2s, an eviction 10ms".
func (e *Event) waited() string {
	var list []string
	for _, what := range slices.Sorted(maps.Keys(e.Waits)) {
		if d := e.Waits[what]; d >= leastWait {
			list = append(list, what+" "+d.Round(leastWait).String())
		}
	}
	return origin.Clip(strings.Join(list, ", "), maxLogged)
}

// maxLogged is how much of a name or of an error is logged, in bytes.
const maxLogged = 4 << 10

// report logs an event, and passes it to the observer.
func (v *Volumes) report(ctx context.Context, e Event) {
	fields := logrus.Fields{"volume": origin.Clip(e.Volume, maxLogged)}
	if e.Lease != "" {
		fields["lease"] = e.Lease
	}
	if rec := e.Workspace; rec.ID != "" {
		fields["workspace"] = rec.ID
	}
	for p, took := range e.Phases {
		fields[p.String()] = took.String()
	}
	if waited := e.waited(); waited != "" {
		fields["waited"] = waited
	}
	log := v.config.Log.WithContext(ctx)
	if e.Err != nil {
		fields[logrus.ErrorKey] = origin.Clip(e.Err.Error(), maxLogged) // a request may have a megabyte of options
		log.WithFields(fields).Warn(string(e.Verb) + ": failed")
	} else {
		switch e.Verb {
		case Creating:
			fields["clone"], fields["ref"] = e.Clone, e.Options.Ref.String()
			if e.Options.From != "" {
				fields["checkpoint"] = e.Options.From
			}
		case Mounting:
			fields["commit"], fields["reused"], fields["took"] = e.Workspace.Commit, e.Workspace.Reused, e.Took.String()
		case Unmounting, Forcing:
			fields["phase"] = e.Workspace.Phase.String()
		}
		log.WithFields(fields).Info(string(e.Verb) + ": done")
	}
	if v.config.Observe != nil {
		v.config.Observe(ctx, e)
	}
}

// about returns ctx for a call about a volume: its origin has the volume's ID. The event
// gets what is known about the volume.
func (v *Volumes) about(ctx context.Context, e *Event) context.Context {
	h, err := v.find(e.Volume)
	if err != nil {
		return ctx
	}
	e.ofVolume(h)
	return origin.ForVolume(ctx, h.rec.ID)
}
