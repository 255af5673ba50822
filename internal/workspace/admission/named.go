package admission

import (
	"context"
	"fmt"
	"slices"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/janitor"
)

// maxCheckpoints bounds the checkpoints that users made or named, of one subject.
const maxCheckpoints = 1000

// OneMore returns an error if a subject can't have one more checkpoint that a user made or named.
func (d *Desk) OneMore(subject string) error {
	n := 0
	d.config.Each(func(rec meta.Workspace) {
		if Counts(rec) && SubjectOf(rec.Clone) == subject {
			n++
		}
	})
	if n >= d.MaxCheckpoints {
		return fmt.Errorf("the subject has %d checkpoints that were made or named by users, and no more are possible: remove some (docker repos checkpoints rm)", n)
	}
	return nil
}

// Counts reports whether a checkpoint counts for MaxCheckpoints: one that was made at the end of a workspace does if it has a
// name, because then it does not expire.
func Counts(rec meta.Workspace) bool { return rec.Made == meta.MadeByUser || rec.Name != "" }

// maxNamed returns how many bytes the checkpoints with names of a subject may keep, zero for any number, and by which limit. If
// the subject has none, that is half of what all subjects have: as much as one may take before the operator hears of it. Each such
// subject may keep that much.
func (d *Desk) maxNamed(subject string) (bytes int64, limit string) {
	switch most, own := d.config.MaxSize(subject); {
	case most > 0:
		return most, limitOf(own)
	case d.config.Total > 0:
		return max(d.config.Total/janitor.NamedShare, 1), "half of the setting MAX_SIZE"
	}
	return 0, ""
}

// Left returns how many bytes a checkpoint may have that is going to have a name, and the error if it has more. Those of its
// subject that have a name keep themselves and the checkpoints that they stand on, because nothing of that is ever evicted.
func (d *Desk) Left(rec meta.Workspace) (bytes int64, full error) {
	subject := SubjectOf(rec.Clone)
	most, limit := d.maxNamed(subject)
	if most == 0 {
		return unbounded, nil
	}
	recs, kept := make(map[string]meta.Workspace), make(map[string]bool)
	d.config.Each(func(other meta.Workspace) {
		if SubjectOf(other.Clone) == subject {
			recs[other.ID] = other
		}
	})
	// A merged one has links to the files of those that it was merged with: while they are there, they are no part of its size.
	var keep func(ids ...string)
	keep = func(ids ...string) {
		for _, id := range ids {
			if !kept[id] {
				kept[id] = true
				keep(slices.Concat(recs[id].From, recs[id].Merged)...)
			}
		}
	}
	for id, other := range recs {
		if other.Name != "" && id != rec.ID {
			keep(id)
		}
	}
	if kept[rec.ID] {
		return unbounded, nil // another one keeps it already
	}
	sum := func() (n int64) {
		for id := range kept {
			n = min(n+recs[id].Size.Bytes, unbounded)
		}
		return n
	}
	before := sum()
	keep(slices.Concat(rec.From, rec.Merged)...)
	return most - sum(), fmt.Errorf("the checkpoints with names of the subject keep %s, of %s that they may keep by %s, and this one does not fit; "+
		"docker repos checkpoints ls lists them: remove some (docker repos checkpoints rm), leave the name out, or raise the limit (docker repos subjects set --max-size)",
		janitor.Bytes(before), janitor.Bytes(most), limit)
}

// Name calls f, which gives a checkpoint a name, or returns why it does not fit into what the subject may keep. Calls follow
// one another, for each subject, until f has committed the name, so that the next one counts it. The caller holds no lock of
// a record.
func (d *Desk) Name(ctx context.Context, rec meta.Workspace, f func() error) error {
	unlock, err := d.naming.Lock(ctx, SubjectOf(rec.Clone))
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.Fits(rec); err != nil {
		return err
	}
	return f()
}

// Fits returns a *NamedError if a checkpoint that is going to have a name has more than Left.
func (d *Desk) Fits(rec meta.Workspace) error {
	if left, full := d.Left(rec); rec.Size.Bytes > left {
		return &NamedError{full}
	}
	return nil
}

// NamedError says that a checkpoint can't have a name because it does not fit into what its subject may keep.
type NamedError struct{ error }
