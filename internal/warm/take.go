package warm

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/helmdeck/repos/internal/meta"
)

// Want says what a workspace that is to be made wants to find.
type Want struct {
	Clone    string   // key
	Paths    []string // none in another
	UID, GID uint32
	Ref      string // full name; empty for a commit
	Default  string // full name of the remote's default branch; empty if not known
	Text     string // the volume's warm_key
	ReadOnly bool   // publish nothing
	// Tree are the layers of the workspace that are not warm, topmost first.
	Tree []string
}

// Take returns on which layers a workspace stands, for each path, and holds them
// until Drop. A path that the tree has, or that leads through a link of the
// tree's, is left out. Take waits a moment for workspaces that are about to move
// one of the heads.
func (m *Manager) Take(ctx context.Context, w Want) ([]meta.WarmPath, error) {
	leftOut := make(map[string]string)
	for _, p := range w.Paths {
		reason, err := leaveOut(w.Tree, p)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			leftOut[p] = reason
			m.Log.WithField("clone", w.Clone).Infof("warm path %q is left out: %s", p, reason)
		}
	}
	m.awaitEnds(ctx, w)
	for try := 0; ; try++ {
		if err := m.Sweep(ctx, w.Clone); err != nil {
			return nil, err
		}
		paths := m.choose(w, leftOut)
		missing := slices.ContainsFunc(m.Lower(w.Clone, paths), func(dir string) bool {
			_, err := os.Lstat(dir)
			return err != nil
		})
		if !missing {
			return paths, nil
		}
		// Somebody has removed them behind our back: the sweep forgets them.
		m.Drop(w.Clone, paths)
		m.mu.Lock()
		m.cloneLocked(w.Clone).swept = false
		m.mu.Unlock()
		if err := ctx.Err(); err != nil || try > 0 {
			return nil, errors.Join(errLost, err)
		}
	}
}

var errLost = errors.New("layers are gone that a head stands on")

// choose is Take for a clone that is swept, from memory.
func (m *Manager) choose(w Want, leftOut map[string]string) []meta.WarmPath {
	now := m.Now()
	m.mu.Lock()
	c := m.cloneLocked(w.Clone)
	var paths []meta.WarmPath
	var used []string
	for _, path := range w.Paths {
		p := meta.WarmPath{Path: path, Head: w.headOf(path, w.Ref).Key, LeftOut: leftOut[path], ReadOnly: w.ReadOnly}
		h, ok := c.heads[p.Head]
		if !ok && w.Default != "" && w.Default != w.Ref {
			if h, ok = c.heads[w.headOf(path, w.Default).Key]; ok {
				p.From = h.Key
			}
		}
		if ok && p.LeftOut == "" {
			p.Chain = h.Chain
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
		m.Background(func(ctx context.Context) { m.saveUsed(ctx, w.Clone, used) })
	}
	return paths
}

// usedGrain is how exact the time of the last use is kept on disk.
const usedGrain = time.Minute

// saveUsed commits heads as they are in memory. None moves meanwhile: what is in
// memory would be older than its record for a moment.
func (m *Manager) saveUsed(ctx context.Context, clone string, keys []string) {
	unlock, err := m.lock(ctx, clone)
	if err == nil {
		defer unlock()
		err = m.DB.Update(func(tx *meta.Tx) error {
			var errs []error
			for _, key := range keys {
				m.mu.Lock()
				h, ok := m.cloneLocked(clone).heads[key]
				m.mu.Unlock()
				if ok {
					errs = append(errs, tx.PutWarmHead(h))
				}
			}
			return errors.Join(errs...)
		})
	}
	if err != nil && ctx.Err() == nil {
		m.Log.WithError(err).Warn("save when warm layers were used")
	}
}

// end is the ends of workspaces that may move one head.
type end struct {
	n    int
	done chan struct{} // closed when n is 0
}

// Ending announces that a workspace is about to move its heads, until done is
// called: a Take waits for it.
func (m *Manager) Ending(clone string, paths []meta.WarmPath) (done func()) {
	var keys []string
	for _, p := range paths {
		if !p.ReadOnly && p.LeftOut == "" {
			keys = append(keys, clone+"/"+p.Head)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		e, ok := m.ending[key]
		if !ok {
			e = &end{done: make(chan struct{})}
			m.ending[key] = e
		}
		e.n++
	}
	called := false
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if called {
			return
		}
		called = true
		for _, key := range keys {
			e := m.ending[key]
			if e.n--; e.n == 0 {
				close(e.done)
				delete(m.ending, key)
			}
		}
	}
}

// awaitEnds waits for the ends that may move a head of w.
func (m *Manager) awaitEnds(ctx context.Context, w Want) {
	var ends []*end
	m.mu.Lock()
	for _, path := range w.Paths {
		for _, ref := range []string{w.Ref, w.Default} {
			if e, ok := m.ending[w.Clone+"/"+w.headOf(path, ref).Key]; ok {
				ends = append(ends, e)
			}
		}
	}
	m.mu.Unlock()
	if len(ends) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.Wait)
	defer cancel()
	for _, e := range ends {
		select {
		case <-e.done:
		case <-ctx.Done():
			return
		}
	}
}
