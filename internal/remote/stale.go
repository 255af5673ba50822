package remote

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
)

// staleMargin is how much time is left to a Mount that gives up its question for
// the last known commit: enough to build what it may lack of a small tree.
const staleMargin = time.Second

// askInTime is ask, but that ends before ctx does if there is an older answer that
// s is content with.
func (m *Remote) askInTime(ctx context.Context, s Source) (Answer, error) {
	deadline, ok := ctx.Deadline()
	if r, known := m.Resolution(s); !ok || !known || !m.mayBeStale(s, r) {
		return m.ask(ctx, s)
	}
	wait := time.Until(deadline) - staleMargin
	asking, cancel := context.WithTimeoutCause(ctx, wait, noAnswerError(wait.Round(time.Second)))
	defer cancel()
	a, err := m.ask(asking, s)
	var late noAnswerError
	if errors.As(err, &late) && git.KindOf(err) == "" {
		err = git.NoAnswer(s.URL.String(), err)
	}
	return a, err
}

// stale returns what the ref stood for when the remote last answered, marked as
// such, if err says that it does not answer now and s allows one as old as that.
// A remote that answers no is believed.
func (m *Remote) stale(s Source, err error) (meta.Resolution, error) {
	switch git.KindOf(err) {
	case git.KindTimeout, git.KindServer, git.KindRefused, git.KindHost:
	default:
		return meta.Resolution{}, err
	}
	r, ok := m.Resolution(s)
	if !ok || !m.mayBeStale(s, r) {
		return meta.Resolution{}, err
	}
	m.Log.WithError(err).WithField("commit", r.Commit).Warn("the remote does not answer: the last known commit is used")
	r.Stale = true
	return r, nil
}

// mayBeStale reports whether s is content with an answer as old as r; with 0 it
// never is.
func (m *Remote) mayBeStale(s Source, r meta.Resolution) bool {
	return s.StaleIfError > 0 && m.Now().Sub(r.At) <= s.StaleIfError
}
