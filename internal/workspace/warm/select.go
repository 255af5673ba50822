package warm

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// Want describes a new workspace.
type Want struct {
	Clone    string   // key
	Paths    []string // the warm paths; none is below another
	UID, GID uint32
	Ref      string // full name; empty for a commit
	Default  string // full name of the remote's default branch; empty if unknown
	Text     string // the volume's warm_key
	// Files are files of the commit: each content of theirs has a state of its own. Unless Exact is set, a workspace may
	// begin with the newest state of another content.
	Files []string
	Exact bool
	// Tree has the directories of the layers that are not warm, topmost first, and Built is the record of the tree.
	Tree  []string
	Built meta.Layer

	sum string // of Files
}

// Select returns the layers that a workspace uses at each path, and holds them until Drop, with a layer of times if the
// files of the tree are not those that they were built from. It leaves out paths that exist in the tree or lead through
// a file or link of the tree. It first waits, for a limited time, for workspaces that are about to move one of the
// heads.
func (m *Manager) Select(ctx context.Context, w Want) ([]meta.WarmPath, error) {
	leftOut := make([]string, len(w.Paths))
	for i, path := range w.Paths {
		reason, err := leaveOut(w.Tree, path)
		if err != nil {
			return nil, err
		}
		if leftOut[i] = reason; reason != "" {
			m.config.Log.WithContext(ctx).WithField("clone", w.Clone).Infof("warm path %q is left out: %s", path, reason)
		}
	}
	var err error
	if w.sum, err = m.sumFiles(ctx, w); err != nil {
		return nil, err
	}
	m.awaitEndings(ctx, w)
	for try := 0; ; try++ {
		if err := m.sweep(ctx, w.Clone); err != nil {
			return nil, err
		}
		paths := m.choose(w, leftOut)
		if !m.config.Layers.Set(w.Clone).Missing(meta.WarmLayer, ids(paths)...) {
			return m.fit(ctx, w, paths)
		}
		// Another program removed a directory: a new sweep removes it from the heads.
		m.Drop(w.Clone, paths)
		m.clone(w.Clone).swept.Store(false)
		if err := ctx.Err(); err != nil || try > 0 {
			return nil, errors.Join(errLost, err)
		}
	}
}

// State is what a Mount finds at a warm path. LeftOut is that of meta.WarmPath.
type State struct {
	Path, Head, LeftOut string
	// Never is set if no workspace of this checkout can publish the path.
	Never bool
	Found
}

// States returns what a Mount finds at the warm paths. It chooses as that does, and makes the layer of times that it needs.
func (m *Manager) States(ctx context.Context, w Want) (list []State, err error) {
	paths, err := m.Select(ctx, w)
	if err != nil {
		return nil, err
	}
	defer m.Drop(w.Clone, paths)
	for _, p := range paths {
		list = append(list, State{p.Path, p.Head, p.LeftOut, isLeftOut(p), m.Found(w.Clone, p)})
	}
	return list, nil
}

// isLeftOut reports whether a path is not warm in its workspace, which can't replace what is warm there either.
func isLeftOut(p meta.WarmPath) bool { return p.LeftOut != "" && len(p.Replaces) == 0 }

var errLost = errors.New("layers of a head are gone")

// choose does the part of Select that needs no I/O.
func (m *Manager) choose(w Want, leftOut []string) []meta.WarmPath {
	now := m.config.Now()
	m.mu.Lock()
	c := m.cloneLocked(w.Clone)
	var paths []meta.WarmPath
	var used []string
	for i, path := range w.Paths {
		keys := w.keys(path)
		p := meta.WarmPath{Path: path, Head: keys[0], LeftOut: leftOut[i]}
		h, ok := c.find(w, keys)
		if ok && h.Key != p.Head {
			p.From = h.Key
		}
		if ok && p.LeftOut == "" {
			p.Chain, p.Built = h.Chain, h.Built
			if now.Sub(h.Used) >= usedGrain {
				h.Used = now
				c.heads[h.Key] = h
				used = append(used, h.Key)
			}
		}
		paths = append(paths, p)
	}
	c.layers.Hold(meta.WarmLayer, ids(paths)...)
	m.mu.Unlock()
	if len(used) > 0 {
		m.config.Background(func(ctx context.Context) { m.saveUsed(ctx, w.Clone, used) })
	}
	return paths
}

// usedGrain is how old the time of last use may be before it is saved again.
const usedGrain = time.Minute

// saveUsed writes the records of heads as they are in memory. It holds the lock, because
// while a head moves, its record is newer than memory for a moment.
func (m *Manager) saveUsed(ctx context.Context, clone string, keys []string) {
	unlock, err := m.lock(ctx, clone)
	if err == nil {
		defer unlock()
		err = m.config.DB.Update(func(tx *meta.Tx) error {
			var errs []error
			for _, key := range keys {
				if h, ok := m.current(clone, key); ok {
					errs = append(errs, tx.PutWarmHead(h))
				}
			}
			return errors.Join(errs...)
		})
	}
	if err != nil && ctx.Err() == nil {
		m.config.Log.WithContext(ctx).WithError(err).Warn("save when warm layers were last used")
	}
}

// ending is a workspace that is about to move heads.
type ending struct {
	clone string
	heads []string // keys, and groups
	done  chan struct{}
}

// Ending announces that a workspace is about to move its heads: Select waits until done is
// called, which may be more than once.
func (m *Manager) Ending(clone string, paths []meta.WarmPath) (done func()) {
	e := &ending{clone: clone, done: make(chan struct{})}
	for _, p := range paths {
		if !isLeftOut(p) {
			e.heads = append(e.heads, p.Head, group(p.Head))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endings[e] = struct{}{}
	return sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.endings, e)
		close(e.done)
	})
}

// awaitEndings waits for the workspaces that may move a head of w.
func (m *Manager) awaitEndings(ctx context.Context, w Want) {
	var keys []string
	var list []*ending
	m.mu.Lock()
	c := m.cloneLocked(w.Clone)
	for _, path := range w.Paths {
		of := w.keys(path)
		keys = append(keys, of...)
		if h, ok := c.find(w, of); w.sum != "" && !w.Exact && !(ok && slices.Contains(of, h.Key)) { // the newest state may be needed
			for _, key := range of {
				keys = append(keys, group(key))
			}
		}
	}
	for e := range m.endings {
		if e.clone == w.Clone && slices.ContainsFunc(e.heads, func(key string) bool { return slices.Contains(keys, key) }) {
			list = append(list, e)
		}
	}
	m.mu.Unlock()
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.config.Wait)
	defer cancel()
	for _, e := range list {
		select {
		case <-e.done:
		case <-ctx.Done():
			return
		}
	}
}
