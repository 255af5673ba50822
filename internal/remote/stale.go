package remote

import (
	"context"
	"time"

	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/meta"
)

// staleMargin is how much time a Mount has left when it gives up its question and uses the
// last known commit: enough to build a small tree.
const staleMargin = time.Second

// inTime returns a context for a question that ends staleMargin before ctx does if s allows
// the known resolution instead.
func (m *Remote) inTime(ctx context.Context, s Source) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if r, known := m.Resolution(s); !ok || !known || !m.mayBeStale(s, r) {
		return ctx, func() {}
	}
	wait := time.Until(deadline) - staleMargin
	return context.WithTimeoutCause(ctx, wait, noAnswerError(wait.Round(time.Second)))
}

// stale returns the known resolution, marked as stale, if err says that the remote does not
// answer and s allows the resolution's age. Otherwise it returns err: a remote that
// answers no is right.
func (m *Remote) stale(ctx context.Context, s Source, err error) (meta.Resolution, error) {
	switch giterror.KindOf(err) {
	case giterror.KindTimeout, giterror.KindServer, giterror.KindRefused, giterror.KindHost:
	default:
		return meta.Resolution{}, err
	}
	r, ok := m.Resolution(s)
	if !ok || !m.mayBeStale(s, r) {
		return meta.Resolution{}, err
	}
	m.Log.WithContext(ctx).WithError(err).WithField("commit", r.Commit).Warn("the remote does not answer: the last known commit is used")
	r.Stale = true
	return r, nil
}

// mayBeStale reports whether s allows a resolution of the age of r.
func (m *Remote) mayBeStale(s Source, r meta.Resolution) bool {
	return s.StaleIfError > 0 && m.Now().Sub(r.At) <= s.StaleIfError
}
