package warm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/upfile"
	"github.com/helmdeck/repos/internal/escape"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/cache"
)

// movedAttr marks what the next try of an interrupted promotion must not believe, because a part of it may have been moved
// out already: an upper whose warm paths are being moved, and the cache in an upper from which files are being moved, in
// which a directory that is left half of a unit would look like a whole one.
const movedAttr = "trusted.helmdeck.moved"

const (
	// publishTime is how long what one workspace left in its cache, or at a warm path, is looked through at most.
	publishTime = 10 * time.Minute
	// stopTime is how long the publication of what was moved already may take when the plugin stops, beside the time to
	// measure it.
	stopTime = 2 * time.Second
	// maxReasons is how many reasons the log gives for what was not published.
	maxReasons = 5
)

// turns limits how many caches are published at a time, because that keeps the disk busy: a subject whose workspaces end
// by the hundred takes half of the turns. None is overdue: each ends after publishTime.
var turns = work.Limits{Slots: 4, PerSubject: 2}

// Publish publishes what a workspace, which may be in use, has in its cache: it copies that. shown is the root of the
// workspace's files as its containers see them. The result says what was published.
func (m *Manager) Publish(ctx context.Context, e Ended, shown *os.File) (cache.Result, error) {
	for _, p := range e.Paths {
		if !IsUsedCache(p) {
			continue
		}
		s, err := locate(e.Upper, p.Path)
		if errors.Is(err, fs.ErrNotExist) {
			return cache.Result{}, nil
		}
		if err != nil {
			return cache.Result{}, err
		}
		defer s.close()
		if s.state != written || s.dir == nil || s.strange != nil {
			return cache.Result{}, nil
		}
		open := func(rel string) (*os.File, error) {
			return disk.Open(shown, path.Join(cache.Mount, rel), unix.O_RDONLY)
		}
		return m.publishCache(ctx, e, s, cache.Job{Shown: open, Until: e.Until, Settled: e.Settled})
	}
	return cache.Result{}, nil
}

// forecastTime is how long Forecast looks at a cache at most.
const forecastTime = 10 * time.Second

// Forecast says what a workspace, which may be in use, has in its cache that would not be published as it is now, and why: the
// first few reasons of what it finds in ten seconds. It changes nothing.
func (m *Manager) Forecast(ctx context.Context, e Ended) ([]string, error) {
	at := slices.IndexFunc(e.Paths, IsUsedCache)
	if at < 0 {
		return nil, nil
	}
	s, err := locate(e.Upper, e.Paths[at].Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.close()
	switch {
	case s.state == written && s.strange != nil:
		return []string{escape.Text(s.strange.Error())}, nil
	case s.state != written || s.dir == nil:
		return nil, nil
	}
	from, err := disk.Open(s.dir, s.name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	h, held := m.holdHead(cacheHead(e.Clone, e.UID, e.GID))
	defer func() { m.Drop(h.Clone, held) }()
	ctx, cancel := context.WithTimeout(ctx, forecastTime)
	defer cancel()
	found, err := cache.Collect(ctx, cache.Job{
		From: from, Published: m.cacheDirs(h.Clone, h.Chain), UID: int(h.UID), GID: int(h.GID), Now: m.config.Now(), Dry: true,
	})
	return found.Left, err
}

// promoteCache publishes what an ended workspace has in its cache, and moves the rest to the trash.
func (m *Manager) promoteCache(ctx context.Context, e Ended, p meta.WarmPath) error {
	s, err := locate(e.Upper, p.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.close()
	switch {
	case s.state == written && s.strange != nil:
		m.config.Log.WithContext(ctx).WithField("clone", e.Clone).Infof("the cache of a workspace is not published: %v", s.strange)
		return nil
	case s.state != written || s.dir == nil:
		return nil // what a workspace removes is removed for nobody else
	}
	switch _, begun, err := upfile.Attribute(s.path(), movedAttr); {
	case err != nil:
		return err
	case begun:
		m.config.Log.WithContext(ctx).WithField("clone", e.Clone).Info("the publication of a cache was interrupted: what is left is not published")
	case e.Publish && IsUsedCache(p):
		all := &shown{layers: append([]string{e.Upper}, e.Lower...)}
		open := func(rel string) (*os.File, error) { return all.open(path.Join(cache.Mount, rel)) }
		_, err := m.publishCache(ctx, e, s, cache.Job{Shown: open, Move: true, Moved: func(file string) error { return e.leave(ctx, file) }})
		if err = errors.Join(err, all.close()); err != nil {
			if ctx.Err() != nil {
				return err // the next start tries again
			}
			m.config.Log.WithContext(ctx).WithError(err).WithField("clone", e.Clone).Warn("publish the cache of a workspace")
		}
	}
	return m.config.Trash.Clear(s.path(), "cache", disk.Size{})
}

// publishCache publishes what is new at s, as j says, in a layer on top of the head as it is then.
func (m *Manager) publishCache(ctx context.Context, e Ended, s spot, j cache.Job) (found cache.Result, err error) {
	h := cacheHead(e.Clone, e.UID, e.GID)
	turn, err := m.publishing.Lock(ctx, h.Clone+"/"+h.Key) // one after the other, so that nothing is published twice
	if err != nil {
		return found, err
	}
	defer turn()
	// The directory of a clone is in that of its subject.
	slot, err := m.turns.Acquire(work.WithOwner(ctx, work.Owner{Name: "the publication of a cache", Subject: path.Dir(e.Clone)}), work.CPU, false)
	if err != nil {
		return found, err
	}
	defer slot.Release()
	limited, cancel := context.WithTimeoutCause(ctx, publishTime, fmt.Errorf("it takes longer than %v", publishTime))
	defer cancel()
	from, err := disk.Open(s.dir, s.name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return found, err
	}
	defer from.Close()
	if err := m.makeBase(limited, h); err != nil { // in case the cache was dropped meanwhile
		return found, err
	}
	h, held := m.holdHead(h)
	defer func() { m.Drop(h.Clone, held) }()
	temp, err := m.cacheTemp(h)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, m.config.Layers.Set(h.Clone).Discard(temp)) }() // nothing, once it is a layer
	room, err := m.freeRoom()
	if err != nil {
		return found, err
	}
	j.From, j.Published, j.To, j.UID, j.GID = from, m.cacheDirs(h.Clone, h.Chain), cacheDir(temp), int(h.UID), int(h.GID)
	j.Now, j.Room = m.config.Now(), room
	if j.Move {
		if err := context.Cause(ctx); err != nil {
			return found, err // nothing was moved: the next start publishes all
		}
		if err := unix.Lsetxattr(s.path(), movedAttr, nil, 0); err != nil {
			return found, err
		}
	}
	found, err = cache.Collect(limited, j)
	m.logLeft(ctx, h, found)
	if err != nil {
		return found, err
	}
	stopped := context.Cause(ctx)
	if j.Move { // what was moved is nowhere else
		var end func()
		ctx, end = work.Linger(ctx, stopTime)
		defer end()
	}
	if found.Files > 0 {
		failpoint.Hit("warm/publish/collected")
		err = m.putOnTop(ctx, h, meta.Layer{
			Kind: meta.WarmLayer, ID: newID(), Cache: meta.CacheFiles, Size: meta.Measured{Size: found.Size, At: j.Now}, BuiltAt: j.Now,
		}, temp)
	}
	if !found.Stopped {
		return found, err
	}
	if err == nil && !found.Torn { // the next start publishes the rest
		err = unix.Lremovexattr(s.path(), movedAttr)
	}
	return found, errors.Join(stopped, err)
}

// logLeft says what a workspace did not publish, and why.
func (m *Manager) logLeft(ctx context.Context, h meta.WarmHead, found cache.Result) {
	if len(found.Left) == 0 && !found.Over {
		return
	}
	more := ""
	if found.Over {
		more = "; it has too much, and the rest was not looked at"
	}
	var reasons []string
	for _, text := range found.Left[:min(len(found.Left), maxReasons)] {
		reasons = append(reasons, escape.Text(text))
	}
	m.config.Log.WithContext(ctx).WithFields(map[string]any{"clone": h.Clone, "uid": h.UID}).
		Infof("not all of the cache of a workspace is published: %s%s", strings.Join(reasons, "; "), more)
}

// holdHead returns a head of a cache as it is now, and holds its layers.
func (m *Manager) holdHead(h meta.WarmHead) (meta.WarmHead, []meta.WarmPath) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.cloneLocked(h.Clone)
	if now, ok := c.heads[h.Key]; ok {
		h = now
	}
	held := []meta.WarmPath{{Path: h.Path, Chain: h.Chain}}
	c.layers.Hold(meta.WarmLayer, ids(held)...)
	return h, held
}

// putOnTop commits a layer on top of a cache as it is then. It first merges layers, if there are too many.
func (m *Manager) putOnTop(ctx context.Context, h meta.WarmHead, l meta.Layer, temp string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishTime, fmt.Errorf("it takes longer than %v", publishTime))
	defer cancel()
	for {
		unlock, err := m.lock(ctx, h.Clone)
		if err != nil {
			return err
		}
		now, ok := m.current(h.Clone, h.Key)
		if ok && len(now.Chain) < maxChain {
			now.Chain = append([]string{l.ID}, now.Chain...)
			now.Used = m.config.Now()
			err := m.commit(h.Clone, change{made: []layer.Built{{Layer: l, Temp: temp}}, heads: []meta.WarmHead{now}})
			unlock()
			if err == nil && len(now.Chain) >= flattenAt {
				m.flattenSoon(h.Clone, h.Key)
			}
			return err
		}
		unlock()
		if !ok {
			return errors.New("the cache was dropped meanwhile")
		}
		if err := m.flatten(ctx, m.mergeable(now)); err != nil {
			return fmt.Errorf("merge its layers: %w", err)
		}
	}
}
