package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"
	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// storeLocks are the locks of the stores. Fetches, readers of one fetch's result and
// removals exclude each other, also between processes. The cold store has a lock of its
// own: it serves Mounts while the first fetch of the full history holds the other one,
// maybe for hours. Nobody waits for one while it holds the other, except Lock, which takes
// cold last.
//
// Lock does not make the file of cold, because an eviction must work on a disk that has no
// room for it. Without the file no process has used a cold store, and the lock in this
// process is enough: the open database keeps others from making one meanwhile.
type storeLocks struct{ stores, cold fileLock }

func newStoreLocks(c Config) storeLocks {
	lock := func(file string) fileLock { return fileLock{name: c.Used.Name, file: file, log: c.Log} }
	return storeLocks{stores: lock(c.LockFile), cold: lock(c.LockFile + ".cold")}
}

// lock takes the lock of the store of a history.
func (m *Remote) lock(ctx context.Context, h volume.History) (unlock func(), err error) {
	if h.Cold {
		return m.locks.cold.acquire(ctx, os.O_CREATE)
	}
	return m.locks.stores.acquire(ctx, os.O_CREATE)
}

// tryOther takes the lock that lock does not take for h, if it is free.
func (m *Remote) tryOther(h volume.History) (unlock func(), err error) {
	if h.Cold {
		return m.locks.stores.try(os.O_CREATE)
	}
	return m.locks.cold.try(0)
}

// Lock takes the locks of all stores.
func (m *Remote) Lock(ctx context.Context) (unlock func(), err error) {
	stores, err := m.locks.stores.acquire(ctx, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	cold, err := m.locks.cold.acquire(ctx, 0)
	if err != nil {
		stores()
		return nil, err
	}
	return func() { cold(); stores() }, nil
}

// TryLock is Lock without waiting. The error is a *work.BusyError if a lock is taken.
func (m *Remote) TryLock() (unlock func(), err error) {
	stores, err := m.locks.stores.try(os.O_CREATE)
	if err != nil {
		return nil, err
	}
	cold, err := m.locks.cold.try(0)
	if err != nil {
		stores()
		return nil, err
	}
	return func() { cold(); stores() }, nil
}

// fileLock is a lock in this process and, by a file, between processes. The file is never
// renamed or unlinked, because another process may wait for the lock on it.
type fileLock struct {
	name string // of what it locks, for errors
	file string
	log  *logrus.Entry
	gate work.Lock // held with the file, so that only other processes are polled for
}

// lockRetry is how often acquire polls a lock that another process holds.
const lockRetry = 50 * time.Millisecond

// acquire waits for the lock. create is os.O_CREATE or 0: then the lock is held only in
// this process if the file is missing.
func (l *fileLock) acquire(ctx context.Context, create int) (unlock func(), err error) {
	release, err := l.gate.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	f := flock.New(l.file, flock.SetFlag(os.O_RDONLY|create))
	if _, err := f.TryLockContext(ctx, lockRetry); err != nil && (create != 0 || !errors.Is(err, os.ErrNotExist)) {
		release()
		return nil, fmt.Errorf("lock %s: %w", l.name, err)
	}
	return func() { l.unlock(f, release) }, nil
}

// try is acquire without waiting. The error is a *work.BusyError if the lock is taken.
func (l *fileLock) try(create int) (unlock func(), err error) {
	busy := &work.BusyError{Name: l.name, Reason: "its lock is taken"}
	release, ok := l.gate.Try()
	if !ok {
		return nil, busy
	}
	f := flock.New(l.file, flock.SetFlag(os.O_RDONLY|create))
	ok, err = f.TryLock()
	if err == nil && !ok {
		err = busy
	}
	if err != nil && (create != 0 || !errors.Is(err, os.ErrNotExist)) {
		release()
		return nil, err
	}
	return func() { l.unlock(f, release) }, nil
}

func (l *fileLock) unlock(f *flock.Flock, release func()) {
	if err := f.Close(); err != nil {
		l.log.WithError(err).Warn("unlock " + l.name)
	}
	release()
}
