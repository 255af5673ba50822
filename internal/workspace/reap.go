package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
)

const manifestName = "manifest.json"

const (
	// reapFirst and reapMax bound the wait between two questions to the kernel
	// about an upper that is in use. A question costs two system calls; what
	// holds an ended workspace is a container that outlived a disabled plugin or
	// a killed engine, and it may run for days.
	reapFirst = 100 * time.Millisecond
	reapMax   = 15 * time.Second
)

// reap waits until the kernel says that no container uses an ended workspace,
// then forgets it and gives its directory to the trash. When ctx ends first, the
// next start goes on with it.
func (m *Manager) reap(ctx context.Context, w *workspace) {
	for wait := reapFirst; ; wait = min(2*wait, reapMax) {
		busy, err := m.busy(w.rec)
		if err == nil && !busy {
			break
		}
		if err != nil {
			m.Log.WithError(err).Warnf("ask the kernel about workspace %s: it is kept", w)
		} else if wait == 2*reapFirst {
			m.Log.Infof("workspace %s is still used by a container that kept it: it is removed when that ends", w)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
	if err := m.remove(w); err != nil {
		m.Log.WithError(err).Warnf("remove workspace %s: the next start tries again", w)
	}
}

// busy asks the kernel whether any mount of the workspace's upper is left.
func (m *Manager) busy(rec meta.Workspace) (bool, error) {
	upper := filepath.Join(m.dir(rec), "upper")
	if _, err := os.Lstat(upper); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return overlay.Busy(upper, filepath.Join(m.dir(rec), "probe"))
}

// remove forgets a workspace that nobody uses.
func (m *Manager) remove(w *workspace) error {
	if err := m.DB.Update(func(tx *meta.Tx) error { return tx.DeleteWorkspace(w.rec.ID) }); err != nil {
		return err
	}
	failpoint.Hit("workspace/remove/recorded")
	_, err := m.Trash.Put(m.dir(w.rec), "workspace")
	failpoint.Hit("workspace/remove/renamed")
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	m.mu.Lock()
	delete(m.all, w.rec.ID)
	m.mu.Unlock()
	if w.clone != nil {
		w.clone.Drop(w.rec.Chain, w.rec.GitLayer)
	}
	return err
}

// Sweep ends the workspaces that lost their leases before the start, and removes
// directories that no record names: their Open never answered. It returns when
// all is begun; what a container still uses is waited for in the background.
func (m *Manager) Sweep(ctx context.Context) error {
	dirs, err := filepath.Glob(filepath.Join(m.Root, "clones", "*", "*", "workspaces", "*"))
	if err != nil {
		return err
	}
	m.mu.Lock()
	var ended []*workspace
	for _, dir := range dirs {
		if id := filepath.Base(dir); m.all[id] == nil {
			key, err := filepath.Rel(filepath.Join(m.Root, "clones"), filepath.Dir(filepath.Dir(dir)))
			if err != nil {
				m.mu.Unlock()
				return err
			}
			m.all[id] = &workspace{rec: meta.Workspace{ID: id, Clone: key}} // holds no layers
		}
	}
	for _, w := range m.all {
		if len(w.rec.Leases) == 0 {
			ended = append(ended, w)
		}
	}
	m.mu.Unlock()
	var errs []error
	for _, w := range ended {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		free, err := overlay.Detach(m.Mountpoint(w.rec))
		if err != nil && !errors.Is(err, overlay.ErrNotMounted) && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
			continue
		}
		m.Clones.Background(func(ctx context.Context) {
			if free != nil {
				_ = free()
			}
			m.reap(ctx, w)
		})
	}
	return errors.Join(errs...)
}

// Rebuild returns the records of the workspaces that the directories below root
// hold, for a database that was lost, and of the layers that they stand on: those
// of this boot, for nothing says whether others are on disk. A manifest is not
// synced: one that can't be read is of an earlier boot.
func Rebuild(root, boot string) (workspaces map[string]meta.Workspace, trees, gitLayers []meta.Layer, err error) {
	paths, err := filepath.Glob(filepath.Join(root, "clones", "*", "*", "workspaces", "*", manifestName))
	if err != nil {
		return nil, nil, nil, err
	}
	workspaces = make(map[string]meta.Workspace)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, nil, err
		}
		var w meta.Workspace
		if err := json.Unmarshal(data, &w); err != nil {
			continue // the sweep removes the directory
		}
		workspaces[w.ID] = w
		if w.Boot != boot {
			continue
		}
		for i := range w.Chain { // of those that it stands on the commits are not known
			l := meta.Layer{Clone: w.Clone, ID: w.Chain[i], Chain: w.Chain[i:], Boot: boot}
			if i == 0 {
				l.Commit, l.TracksCache = w.Commit, tracksCache(filepath.Join(root, "clones", w.Clone, "trees"), w.Chain)
			}
			trees = append(trees, l)
		}
		gitLayers = append(gitLayers, meta.Layer{Clone: w.Clone, ID: w.GitLayer, Commit: w.Commit, Snapshot: "unknown", Boot: boot})
	}
	return workspaces, trees, gitLayers, nil
}

// tracksCache reports whether a tree has a .hdcache of the repository's: what its
// topmost layer that says anything says, which may be a whiteout.
func tracksCache(trees string, chain []string) bool {
	for _, id := range chain {
		if info, err := os.Lstat(filepath.Join(trees, id, clone.CacheLink)); err == nil {
			return info.Mode()&os.ModeCharDevice == 0
		}
	}
	return false
}
