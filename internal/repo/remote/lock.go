package remote

import (
	"context"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// storeLocks are the locks of the stores. Fetches, readers of one fetch's result and
// removals exclude each other. The cold store has a lock of its own: it serves Mounts while
// the first fetch of the full history holds the other one, maybe for hours. Nobody waits for
// one while it holds the other, except Lock, which takes cold last.
//
// They are locks of this process: no other one uses the data directory, and no child
// survives the process that started it.
type storeLocks struct{ stores, cold work.Lock }

func (l *storeLocks) of(h volume.History) *work.Lock {
	if h.Cold {
		return &l.cold
	}
	return &l.stores
}

// lock takes the lock of the store of a history.
func (m *Remote) lock(ctx context.Context, h volume.History) (unlock func(), err error) {
	return m.locks.of(h).Acquire(ctx)
}

// tryOther takes the lock that lock does not take for h, if it is free.
func (m *Remote) tryOther(h volume.History) (unlock func(), err error) {
	return m.try(m.locks.of(volume.History{Cold: !h.Cold}))
}

// Lock takes the locks of all stores.
func (m *Remote) Lock(ctx context.Context) (unlock func(), err error) {
	stores, err := m.locks.stores.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	cold, err := m.locks.cold.Acquire(ctx)
	if err != nil {
		stores()
		return nil, err
	}
	return func() { cold(); stores() }, nil
}

// TryLock is Lock without waiting. The error is a *work.BusyError if a lock is taken.
func (m *Remote) TryLock() (unlock func(), err error) {
	stores, err := m.try(&m.locks.stores)
	if err != nil {
		return nil, err
	}
	cold, err := m.try(&m.locks.cold)
	if err != nil {
		stores()
		return nil, err
	}
	return func() { cold(); stores() }, nil
}

// try takes a lock if it is free. The error is a *work.BusyError.
func (m *Remote) try(l *work.Lock) (unlock func(), err error) {
	unlock, ok := l.Try()
	if !ok {
		return nil, &work.BusyError{Name: m.config.Used.Name, Reason: "its lock is taken"}
	}
	return unlock, nil
}
