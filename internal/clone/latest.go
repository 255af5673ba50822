package clone

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/repo/remote"
)

// Latest is what the remote has.
type Latest struct {
	// At is when the remote said so, and Asked is set if that was for this question.
	At    time.Time
	Asked bool
	// Commit is the object that the Spec's ref is at; empty if that is not known.
	Commit string
	// Store is the directory of the bare repository that has all that the remote's branches reach.
	Store string

	clone *Clone
	snap  *remote.Snapshot
}

// Latest returns what the remote has, as it says until ctx ends or, if it does not say so, as it said last. The error is
// ErrEvicted if the clone has nothing.
func (c *Clone) Latest(ctx context.Context, s Spec) (l Latest, err error) {
	release, err := c.Use(ctx)
	if err != nil {
		return l, err
	}
	defer release()
	if err := c.Sweep(ctx); err != nil {
		return l, err
	}
	snap := c.remote.Latest(ctx, s.Source)
	if snap == nil {
		return l, ErrEvicted
	}
	r := snap.Resolution
	return Latest{At: r.At, Asked: !r.Stale, Commit: r.Pulled, Store: snap.Dir(), clone: c, snap: snap}, nil
}

// Link calls f while nothing changes the store. The error is remote.ErrAgain, or ErrEvicted, if that has gone.
func (l Latest) Link(ctx context.Context, f func() error) error {
	release, err := l.clone.Use(ctx)
	if err != nil {
		return err
	}
	defer release()
	return l.snap.Link(ctx, f)
}
