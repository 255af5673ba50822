package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/trash"
)

const (
	// reapFirst and reapMax bound the wait between two questions to the kernel
	// about an upper that is in use. A question costs two system calls; what
	// holds an ended workspace is a container that outlived a disabled plugin or
	// a killed engine, and it may run for days.
	reapFirst = 100 * time.Millisecond
	reapMax   = 15 * time.Second
	// failedMax bounds the wait after a failure, which costs more to try again, and
	// a line in the log.
	failedMax = 5 * time.Minute
)

// reapSoon gives a workspace that has ended its reaper, unless it has one: there
// is one at a time, and it is done with the workspace before anybody can restore
// it. release is called first.
func (m *Manager) reapSoon(w *workspace, release func()) {
	m.mu.Lock()
	has := w.reaped
	w.reaped = true
	m.mu.Unlock()
	settled := func() {}
	if rec := m.record(w); publishes(m, rec) {
		settled = m.Warm.Ending(rec.Clone, rec.Warm)
	}
	m.Clones.Background(func(ctx context.Context) {
		defer settled()
		release()
		if has {
			return
		}
		m.reap(ctx, w, settled)
	})
}

// reap waits until the kernel says that no container uses a workspace that has
// ended, then makes it a discard or removes it. held is called when that takes
// long. What fails, on a full disk say, is tried again, for until it is gone an
// ended workspace holds its layers and its clone. When ctx ends first, the next
// start goes on with it.
func (m *Manager) reap(ctx context.Context, w *workspace, held func()) {
	most := m.reapMax
	for wait := reapFirst; ; wait = min(2*wait, most) {
		busy := false
		release, err := m.detach(m.record(w)) // if it failed before
		if err == nil {
			release()
			busy, err = m.busy(m.record(w))
		}
		if err == nil && !busy {
			if err = m.bury(ctx, w); err == nil {
				return
			}
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			held()
			most = failedMax
			m.Log.WithError(err).Warnf("workspace %s has ended and can't be removed: it is kept, and tried again", w)
		case wait == 2*reapFirst:
			held()
			m.Log.Infof("workspace %s is still used by a container that kept it: it is removed when that ends", w)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// busy asks the kernel whether any mount of the workspace's upper is left.
func (m *Manager) busy(rec meta.Workspace) (bool, error) {
	upper := m.upper(rec)
	if _, err := os.Lstat(upper); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	var busy bool
	err := m.Trash.Retry(func() (err error) {
		busy, err = overlay.Busy(upper, filepath.Join(m.dir(rec), "probe"))
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		if _, gone := os.Lstat(upper); errors.Is(gone, os.ErrNotExist) {
			return false, nil // it was free, and another has removed it meanwhile
		}
	}
	return busy, err
}

// bury makes a free workspace a discard if it has changes, and else removes it.
func (m *Manager) bury(ctx context.Context, w *workspace) error {
	if m.gone(w) {
		return nil
	}
	m.meterCacheOf(m.record(w))
	if err := m.promote(ctx, w); err != nil {
		return err
	}
	worth, err := m.worthKeeping(ctx, w)
	if err != nil {
		return err
	}
	if !worth {
		return m.remove(w, false)
	}
	return m.discard(ctx, w)
}

// remove forgets a workspace that nobody uses. A discard alone is to be removed if
// asked for: the error of another one is isDiscard's.
func (m *Manager) remove(w *workspace, discard bool) error {
	unlock, err := m.records.Lock(context.Background(), w.id)
	if err != nil {
		return err
	}
	defer unlock()
	rec := m.record(w)
	switch {
	case m.gone(w) && discard:
		return &NoDiscardError{w.id}
	case m.gone(w):
		return nil
	case discard:
		if err := isDiscard(rec); err != nil {
			return err
		}
	}
	if err := m.DB.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(w.id) }); err != nil {
		return err
	}
	failpoint.Hit("workspace/remove/recorded")
	toTrash := func() error {
		_, err := m.Trash.PutSized(m.dir(rec), "workspace", rec.Size.Size)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	if err = toTrash(); err != nil { // nobody else gets its ID
		m.Clones.Background(func(ctx context.Context) { trash.Again(ctx, toTrash) })
	}
	failpoint.Hit("workspace/remove/renamed")
	m.mu.Lock()
	delete(m.all, w.id)
	m.dropLostLocked(w)
	m.mu.Unlock()
	if w.clone != nil {
		w.clone.Trees.Drop(rec.Chain, rec.GitLayer)
	}
	m.Warm.Drop(rec.Clone, rec.Warm)
	return err
}
