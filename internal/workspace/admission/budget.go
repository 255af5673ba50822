package admission

import (
	"fmt"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
)

// reservation is the limit of a workspace that an Acquire or a Rewind may make.
type reservation struct {
	subject string
	of      place // see placeOf
	bytes   int64
	// replaces is set if the workspace comes in place of the one that exists.
	replaces bool
}

// place is a lease of a volume, or all leases of one, without an ID.
type place struct{ volume, id string }

// placeOf returns what one workspace of a volume is for: a lease, or all leases of the volume, without an ID.
func placeOf(private bool, l place) place {
	if !private {
		return place{volume: l.volume}
	}
	l.id, _ = meta.HolderOf(l.id)
	return l
}

// placeOfRecord returns the place of a live workspace. One that is private has leases, of one holder.
func placeOfRecord(rec meta.Workspace) place {
	l := place{volume: rec.Volume}
	if len(rec.Leases) > 0 {
		l.id = rec.Leases[0]
	}
	return placeOf(rec.Private(), l)
}

// Reserve is Admit without a lease, for the workspace that all leases of a volume have, and that replaces the present one.
func (d *Desk) Reserve(subject, volume string, bytes int64) (done func(), err error) {
	return d.reserve(&reservation{subject, place{volume: volume}, bytes, true})
}

// reserve adds a limit, in bytes, to those of the subject's live workspaces until done is called. If the sum would
// exceed the subject's MaxSize, the error is a *BudgetError. A limit of zero, which is none, is not counted, and neither
// is that of a workspace that exists, unless one with a higher limit replaces it. Workspaces that have ended do not
// count, because the next Mount may not depend on how fast they are removed, nor do the layers of clones, which the
// janitor evicts.
func (d *Desk) reserve(r *reservation) (done func(), err error) {
	most, own := d.config.MaxSize(r.subject)
	d.mu.Lock()
	defer d.mu.Unlock()
	if most > 0 && r.bytes > 0 {
		limits := d.limits(r.subject)
		if old, exists := limits[r.of]; !exists || r.replaces && r.bytes > old {
			delete(limits, r.of)
			if err := checkBudget(limits, r.bytes, most, own); err != nil {
				return nil, err
			}
		}
	}
	d.reserved[r] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.reserved, r)
	}, nil
}

// limits returns the limits of a subject's workspaces, of those that exist and of those that are reserved. The caller holds mu.
func (d *Desk) limits(subject string) map[place]int64 {
	limits := make(map[place]int64)
	reserved := func(replaces bool) {
		for r := range d.reserved {
			if r.subject == subject && r.replaces == replaces {
				limits[r.of] = max(limits[r.of], r.bytes)
			}
		}
	}
	reserved(false)
	d.config.Each(func(rec meta.Workspace) { // such a workspace is what those leases get
		if rec.Phase.Live() && SubjectOf(rec.Clone) == subject {
			limits[placeOfRecord(rec)] = rec.Limit.Bytes
		}
	})
	reserved(true)
	return limits
}

// limitOf names a limit of what a subject may hold.
func limitOf(own bool) string {
	if own {
		return "its own limit"
	}
	return "the setting SUBJECT_MAX_SIZE"
}

// BudgetError says that the limit of a new workspace does not fit into what its subject may hold.
type BudgetError struct{ error }

// unbounded is more than any budget. The sum of it and a limit is no overflow.
const unbounded = 1 << 62

// checkBudget returns an error if one more limit would exceed a budget.
func checkBudget(limits map[place]int64, bytes, most int64, own bool) error {
	sum, volumes := int64(0), make(map[string]int64)
	for at, n := range limits {
		if sum = min(sum+n, unbounded); n > 0 {
			volumes[at.volume] += n
		}
	}
	if sum+bytes <= most {
		return nil
	}
	texts := make(map[string]string)
	for name, n := range volumes {
		texts[name] = volume.FormatSize(n)
	}
	others := "other workspaces of the subject may hold nothing yet"
	if len(texts) > 0 {
		others = fmt.Sprintf("workspaces of the subject may hold %s, those of %s", volume.FormatSize(sum), named(texts))
	}
	return &BudgetError{fmt.Errorf("a workspace that may hold %s does not fit into what the subject may hold, which is %s by %s; %s: "+
		"end a container of these, give the volume a smaller size, or raise the limit (docker repos subjects set --max-size)",
		volume.FormatSize(bytes), volume.FormatSize(most), limitOf(own), others)}
}
