package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/workspace/cache"
	"github.com/helmdeck/repos/internal/workspace/upper"
	"github.com/helmdeck/repos/internal/workspace/warm"
)

// publisher publishes what is new in the caches of workspaces that go on living. Those that end publish at their end:
// see reaper.promote.
type publisher struct {
	m     *Manager
	quiet time.Duration // the constant, except in tests

	mu  sync.Mutex
	now map[*workspace]*release // publishing; not nil if it is to be done again, for that release
}

// release is one after which a kept workspace publishes. Its times are by the clock of the kernel, as those of files.
type release struct {
	// until, if it is not zero, leaves out what a later container writes, which may have no mark.
	until time.Time
	// settled is when nobody wrote any more: see cache.Job.
	settled time.Time
}

// quiet is how long nothing may have changed in the directory of a tool that the cache's table does not have, for it to be
// published while containers run. Downloads and unpacking write more often.
const quiet = 5 * time.Second

// soon publishes in the background what a kept workspace has in its cache. The caller holds the volume's
// lock, so that the mark is that of the containers that have ended.
func (p *publisher) soon(ctx context.Context, w *workspace) {
	rec := p.m.records.get(w)
	if !publishes(rec) {
		return
	}
	if marked, err := p.m.takeMark(rec); !marked || err != nil {
		if err != nil {
			p.m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", w.id).Warn("look for the mark of a kept workspace: it publishes nothing")
		}
		return
	}
	of := &release{settled: time.Now()}
	remedy := "its next release tries again"
	if volume.PublishOf(rec.Options) == volume.PublishMarked {
		of.until = of.settled
		remedy = "a container has to make the mark again"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, running := p.now[w]; running {
		p.now[w] = of
		return
	}
	p.now[w] = nil
	p.m.config.Work.Go(origin.Bind(ctx, func(ctx context.Context) {
		for ; of != nil; of = p.again(w) {
			_, err := p.publish(ctx, w, *of)
			gone, busy := (*NoWorkspaceError)(nil), (*InUseError)(nil)
			if err != nil && ctx.Err() == nil && !errors.As(err, &gone) && !errors.As(err, &busy) {
				p.m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", w.id).Warn("publish the cache of a kept workspace: " + remedy)
			}
		}
	}))
}

// again returns the latest release of a workspace while its cache was published; nil if there was none.
func (p *publisher) again(w *workspace) (of *release) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if of = p.now[w]; of != nil {
		p.now[w] = nil
	} else {
		delete(p.now, w)
	}
	return of
}

// publish publishes what a workspace has in its cache, which containers may be using, after that release.
func (p *publisher) publish(ctx context.Context, w *workspace, of release) (r cache.Result, err error) {
	held, err := p.m.Hold(ctx, w.id)
	if err != nil {
		return r, err
	}
	defer held.end() // this is background work already
	if w.clone == nil {
		return r, fmt.Errorf("the clone of workspace %s is gone", w.id)
	}
	shown := held.Root
	if shown == nil {
		if shown, err = held.View(); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, shown.Close()) }()
	}
	ended := p.m.mounter.Ended(w.clone, held.Record)
	ended.Until, ended.Settled = of.until, of.settled
	r, err = p.m.config.Warm.Publish(held.Context(), ended, shown)
	if err == nil {
		p.m.records.noteLeft(w, r.Left)
	}
	if err != nil && errors.Is(context.Cause(held.Context()), errHoldLost) {
		return r, &InUseError{errHoldLost.Error()} // it publishes again when that Mount is released
	}
	return r, err
}

// publishes reports whether a workspace has a cache whose new files may be published.
func publishes(rec meta.Workspace) bool {
	return volume.PublishOf(rec.Options) != volume.PublishNever && slices.ContainsFunc(rec.Warm, warm.IsUsedCache)
}

// takeMark reports whether a mounted workspace may publish what it has. With publish=marked, a kept one needs another
// mark for the next time; those that end have theirs until then. What is mounted nowhere has no mark, because an upper
// that a container may still use must not be changed.
func (m *Manager) takeMark(rec meta.Workspace) (marked bool, err error) {
	if volume.PublishOf(rec.Options) != volume.PublishMarked {
		return true, nil
	}
	root := m.MountedAt(rec)
	if root == "" {
		return false, nil
	}
	if !rec.Kept() {
		return upper.HasMark(root)
	}
	return upper.TakeMark(root)
}

// NoCacheError says why the cache of a workspace can't be published.
type NoCacheError struct{ Reason string }

func (e *NoCacheError) Error() string { return e.Reason }

// PublishCache publishes what a workspace has in its cache, and says how much that is. The workspace may be in use. The
// error is a *NoWorkspaceError, an *InUseError as that of Hold, or a *NoCacheError.
func (m *Manager) PublishCache(ctx context.Context, id string) (r cache.Result, err error) {
	w, err := m.records.lookUp(id)
	if err != nil {
		return r, &NoWorkspaceError{id}
	}
	switch rec := m.records.get(w); {
	case rec.Options["cache"] == string(volume.CacheOff):
		return r, &NoCacheError{fmt.Sprintf("volume %q has cache=off: its workspaces publish nothing", rec.Volume)}
	case volume.PublishOf(rec.Options) == volume.PublishNever:
		return r, &NoCacheError{fmt.Sprintf("volume %q has publish=never: its workspaces publish nothing", rec.Volume)}
	case rec.Phase == meta.Checkpoint:
		return r, &NoCacheError{fmt.Sprintf("workspace %q is a checkpoint: what was new in its cache was published when it ended", id)}
	case !publishes(rec):
		return r, &NoCacheError{fmt.Sprintf("workspace %q has no cache: docker volume inspect says why under not_used", id)}
	default:
		if marked, err := m.takeMark(rec); !marked || err != nil {
			return r, cmp.Or(err, error(&NoCacheError{fmt.Sprintf("volume %q has publish=marked, and workspace %q has no file %s", rec.Volume, id, upper.Mark)}))
		}
	}
	return m.publisher.publish(ctx, w, release{settled: time.Now().Add(-m.publisher.quiet)})
}

const (
	// forecastEvery is how often the caches of live workspaces are looked at, because a container that runs for long may
	// never get published what somebody counts on. Those of jobs have mostly ended before.
	forecastEvery = 5 * time.Minute
	// forecastRest is between two of these looks, as a multiple of how long the last one took with its rests.
	forecastRest = 4
)

// look finds out, until ctx ends, what of the caches of live workspaces can't be published as it is.
func (p *publisher) look(ctx context.Context) {
	for sleep(ctx, forecastEvery) == nil {
		var live []*workspace
		p.m.records.each(func(w *workspace) {
			if w.rec.Phase.Live() && publishes(w.rec) {
				live = append(live, w)
			}
		})
		for _, w := range live {
			begun := time.Now()
			p.forecast(ctx, w)
			if sleep(ctx, forecastRest*time.Since(begun)) != nil {
				return
			}
		}
	}
}

// forecast notes what of a workspace's cache can't be published as it is.
func (p *publisher) forecast(ctx context.Context, w *workspace) {
	rec := p.m.records.get(w)
	if !rec.Phase.Live() || w.clone == nil {
		return
	}
	found, err := p.m.config.Warm.Forecast(ctx, p.m.mounter.Ended(w.clone, rec))
	if err != nil {
		// It has ended meanwhile, or the next look tells.
		p.m.config.Log.WithContext(ctx).WithError(err).WithField("workspace", w.id).Debug("look at the cache of a live workspace")
		return
	}
	p.m.records.noteForecast(w, found)
}

// LeftOut says what the last publication of a live workspace's cache has left out, which should have been published, and what
// the next one would leave out, with the reasons: the first few. The caller must not change the lists.
func (m *Manager) LeftOut(id string) (left, forecast []string) {
	m.records.mu.Lock()
	defer m.records.mu.Unlock()
	if w := m.records.all[id]; w != nil && w.rec.Phase.Live() {
		left, forecast = w.left, w.forecast
	}
	return left, forecast
}

// Unpublished returns how many workspaces of a clone have ended, or been released, and may still publish what is new in
// their caches.
func (m *Manager) Unpublished(cloneKey string) (n int) {
	m.publisher.mu.Lock()
	for w := range m.publisher.now {
		if m.records.get(w).Clone == cloneKey {
			n++
		}
	}
	m.publisher.mu.Unlock()
	m.records.each(func(w *workspace) {
		if w.rec.Clone == cloneKey && w.rec.Phase == meta.Ended && m.reaper.promotes(w.rec) && publishes(w.rec) {
			n++
		}
	})
	return n
}
