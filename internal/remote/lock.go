package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/flock"

	"github.com/helmdeck/repos/internal/work"
)

// lockRetry is how often a lock that another process holds is asked for again.
const lockRetry = 50 * time.Millisecond

// Lock takes the lock of the stores: fetches, what reads what one fetch left, and
// removals exclude each other, also between processes. The file lies outside of what is
// renamed and deleted, and is never unlinked, so that nobody waits for a lock on a file
// that is gone.
func (m *Remote) Lock(ctx context.Context) (unlock func(), err error) {
	release, err := m.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	l := flock.New(m.LockFile)
	if _, err := l.TryLockContext(ctx, lockRetry); err != nil {
		release()
		return nil, fmt.Errorf("lock %s: %w", m.Used.Name, err)
	}
	return func() { m.unlock(l, release) }, nil
}

// TryLock is Lock without waiting: if the lock is taken, the error is a *work.BusyError.
func (m *Remote) TryLock() (unlock func(), err error) {
	busy := &work.BusyError{Name: m.Used.Name, Reason: "its lock is taken"}
	release, ok := m.gate.Try()
	if !ok {
		return nil, busy
	}
	l := flock.New(m.LockFile)
	if ok, err := l.TryLock(); err != nil || !ok {
		release()
		if err == nil {
			err = busy
		}
		return nil, err
	}
	return func() { m.unlock(l, release) }, nil
}

func (m *Remote) unlock(l *flock.Flock, release func()) {
	if err := l.Close(); err != nil {
		m.Log.WithError(err).Warn("unlock " + m.Used.Name)
	}
	release()
}
