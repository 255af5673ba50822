package workspace

import (
	"context"
	"errors"

	"github.com/helmdeck/repos/internal/credential/handout"
	"github.com/helmdeck/repos/internal/meta"
)

// handOut makes the socket of a workspace's credential helper, unless it is there or rec has no use
// for it. It comes before rec is committed, so that the first process in a container finds it.
func (r *records) handOut(rec meta.Workspace) error {
	if !handout.Due(rec) {
		return nil
	}
	return r.config.Handout.Serve(r.mounter.Helper(rec), rec)
}

// endHandout removes the socket of a workspace's credential helper, if rec has no use for it. It
// comes after rec is committed: a lease that could not be released is served on.
func (r *records) endHandout(rec meta.Workspace) {
	if !handout.Due(rec) {
		r.config.Handout.End(rec.ID)
	}
}

// handOutAgain makes the sockets of the workspaces that have leases of an earlier process, and
// removes those of the others.
func (r *records) handOutAgain(ctx context.Context) error {
	var all []*workspace
	r.each(func(w *workspace) {
		if handout.Wanted(w.rec.Options) {
			all = append(all, w)
		}
	})
	var errs []error
	for _, w := range all {
		unlock, err := r.locks.Lock(ctx, w.id)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		switch rec := r.get(w); {
		case r.gone(w) || rec.Phase == meta.Making:
		case handout.Due(rec):
			err = r.handOut(rec)
		default:
			err = handout.Clear(r.mounter.Helper(rec))
		}
		unlock()
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
