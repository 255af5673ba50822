package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/work/phase"
)

// aligned is the result of alignNow.
type aligned struct {
	store meta.Store
	list  *refList
	lacks bool // refs whose objects are to be fetched
}

// align updates the branches and tags of the store to those of the answer, as far as the
// store has their objects, and reports whether FetchOthers is to be called for the rest. It
// fetches annotated tags of the answer's commit at once, because they are small. snap is of
// the record that confirms the answer; next has the updated refs. The error is errOvertaken
// if the store was fetched since the question.
//
// During a FetchOthers of the store align does nothing, unless a tag of the answer's
// commit is missing: that holds the lock, and a Mount must not wait for it.
func (m *Remote) align(ctx context.Context, snap *Snapshot, a Answer) (next *Snapshot, more bool, err error) {
	s, store := snap.Source, snap.Store
	if s.History.Cold {
		return snap, false, nil
	}
	o := m.othersOf(s.History)
	if a.sums.in(store.Sums) || o.tried.again(a, store, m.config.Now()) {
		return snap, !a.sums.all(), nil
	}
	wanted := m.missingTags(ctx, s, a)
	if o.refused.again(a, store, m.config.Now()) {
		wanted = nil
	}
	if o.fetching && len(wanted) == 0 {
		return snap, false, nil
	}
	if len(wanted) > 0 {
		within, cancel := context.WithTimeout(ctx, tagsWithin)
		defer cancel()
		m.bringTags(within, s, a, wanted)
		if within.Err() != nil && o.fetching {
			m.refuse(s.History, a) // the lock may be held for long
			return snap, !a.sums.all(), nil
		}
	}
	key := strings.Join([]string{"align", s.History.Name(), a.snapshot, fmt.Sprint(a.sums), a.res.Commit}, "\x00")
	now, err := work.ShareTask(ctx, m.config.Used, key, func(ctx context.Context) (aligned, error) {
		unlock, err := m.lock(ctx, s.History)
		if err != nil {
			return aligned{}, err
		}
		defer unlock()
		return m.alignNow(ctx, s, a)
	})
	if errors.Is(err, errOvertaken) || errors.Is(err, errRefsLost) ||
		giterror.KindOf(err) == giterror.KindCorrupt || ctx.Err() != nil {
		return snap, false, err
	}
	if err != nil {
		// The ref of the volume itself is current and can be checked out.
		m.config.Log.WithContext(ctx).WithError(err).
			Warn("the other branches and tags can't be updated: they are those of the last fetch")
		now = aligned{store, snap.list, false}
	}
	if len(wanted) > 0 && len(m.missingTags(ctx, s, a)) > 0 {
		m.refuse(s.History, a)
	}
	updated := *snap
	updated.Store, updated.list = now.store, now.list
	return &updated, now.lacks || !a.sums.all(), nil
}

// alignNow is align with the lock held.
func (m *Remote) alignNow(ctx context.Context, s Source, a Answer) (now aligned, err error) {
	now.store, now.list = m.listed(s.History)
	refs, err := m.config.Git.Refs(m.StoreDir(s.History.Name()))
	switch {
	case err != nil:
		return now, err
	case snapshot(refs, now.store.Head) != now.store.Snapshot:
		return now, errRefsLost
	case a.sums.in(now.store.Sums):
		return now, nil // another call did it meanwhile
	case m.overtaken(s.History, a) || now.store.Snapshot != a.snapshot && !m.isNewestStored(s.History, a):
		return now, errOvertaken // the fetch may be newer
	}
	next, lacks, err := adopt(refs, a.listed, func(ids []string) (map[string]git.Object, error) { return m.known(ctx, s, a, ids) })
	if err != nil {
		return now, err
	}
	now.lacks = lacks || !a.sums.in(sumsOf(next))
	m.noteStored(s.History, a.number, a.sums)
	if !slices.Equal(next, refs) {
		if err := m.config.Git.WriteRefs(m.StoreDir(s.History.Name()), next, true); err != nil {
			return now, err
		}
		failpoint.Hit("remote/align/written")
	} else if len(now.store.Sums) > 0 {
		return now, nil
	}
	if err := m.recordRefs(ctx, s, a, refs, next); err != nil {
		return now, err
	}
	now.store, now.list = m.listed(s.History)
	return now, nil
}

// connectedWithin is how long a Mount checks whether refs can be adopted. After that it
// leaves them to a fetch.
const connectedWithin = 2 * time.Second

// known returns those of the objects that the store has together with all objects that
// they reach. A tag of the answer's commit reaches that commit, which the store has.
func (m *Remote) known(ctx context.Context, s Source, a Answer, ids []string) (map[string]git.Object, error) {
	dir := m.StoreDir(s.History.Name())
	known, err := m.config.Git.Known(ctx, dir, ids)
	if err != nil {
		return nil, err
	}
	connected := make(map[string]git.Object)
	for _, id := range a.tags {
		if o, ok := known[id]; ok && (id == a.res.Commit || o.Peeled == a.res.Commit) {
			connected[id] = o
			delete(known, id)
		}
	}
	if len(known) == 0 {
		return connected, nil
	}
	within, cancel := context.WithTimeout(ctx, connectedWithin)
	defer cancel()
	ok, err := m.config.Git.Connected(within, dir, slices.Collect(maps.Keys(known)), s.History.NoBlobs)
	if within.Err() != nil && ctx.Err() == nil {
		return connected, nil
	}
	if ok {
		maps.Copy(connected, known)
	}
	return connected, err
}

// recordRefs records the new refs of the store, in place of old, and where the refs that volumes
// name are now.
func (m *Remote) recordRefs(ctx context.Context, s Source, a Answer, old, refs []gitref.PackedRef) error {
	undo, ok := m.change(s.History.Name(), func(before meta.Store, ok bool) (meta.Store, bool) {
		store := before
		store.Snapshot, store.Sums = snapshot(refs, before.Head), sumsOf(refs)
		store.Refs = make(map[string]meta.Resolution)
		for name, r := range before.Refs {
			id, listed := a.listed.ids[r.Ref]
			if now, ok := LookUp(refs, r.Ref, a.res.At); listed && ok && now.Pulled == id {
				r = now
			}
			if listed || !a.listed.has(r.Ref) {
				store.Refs[name] = r
			}
		}
		m.moveOnLocked(s.History.Name(), old)
		return store, ok
	})
	if !ok {
		return errOvertaken
	}
	if err := m.config.Save(); err != nil {
		undo()
		return err
	}
	m.config.Log.WithContext(ctx).WithFields(map[string]any{"store": s.History.Name(), "refs": len(refs)}).
		Info("branches and tags are as the remote lists them")
	return nil
}

// tagsWithin is how long a Mount waits for annotated tags of its commit, or for a fetch of
// other refs that is under way. After that it leaves them to FetchOthers.
const tagsWithin = 10 * time.Second

// missingTags returns the tags of the answer's commit that the store lacks, by name.
func (m *Remote) missingTags(ctx context.Context, s Source, a Answer) map[string]string {
	missing := maps.Clone(a.tags)
	if len(missing) == 0 {
		return nil
	}
	refs, err := m.config.Git.Refs(m.StoreDir(s.History.Name()))
	if err != nil {
		m.config.Log.WithContext(ctx).WithError(err).Debug("read the refs of a store") // alignNow says more
	}
	for _, r := range refs {
		if missing[r.Name] == r.ID {
			delete(missing, r.Name)
		}
	}
	return missing
}

// bringTags waits for the lock, and fetches those annotated tags of the answer's commit that
// the store lacks. It changes no refs, and logs errors.
func (m *Remote) bringTags(ctx context.Context, s Source, a Answer, wanted map[string]string) {
	ids := slices.Sorted(maps.Values(wanted))
	defer phase.Begin(ctx, phase.Fetch)()
	key := strings.Join([]string{"tags", s.History.Name(), s.URL.String(), s.Credential, fmt.Sprint(s.Pin), a.snapshot, strings.Join(ids, " ")}, "\x00")
	_, err := work.ShareTask(ctx, m.config.Used, key, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.config.WithRoom(ctx, disk.Size{}, func() error { return m.fetchTags(ctx, s, a, ids) })
	})
	if err != nil && ctx.Err() == nil {
		m.config.Log.WithContext(ctx).WithError(err).
			Warn("fetch the tags of the commit: they are fetched in the background")
	}
}

// fetchTags is bringTags for one caller at a time.
func (m *Remote) fetchTags(ctx context.Context, s Source, a Answer, ids []string) error {
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return err
	}
	defer unlock()
	if store, _ := m.Store(s.History); store.Snapshot != a.snapshot {
		return nil // align says so
	}
	dir := m.StoreDir(s.History.Name())
	known, err := m.config.Git.Known(ctx, dir, ids)
	ids = slices.DeleteFunc(slices.Compact(ids), func(id string) bool { _, ok := known[id]; return ok })
	if err != nil || len(ids) == 0 {
		return err
	}
	// Others wait for the lock.
	ctx, cancel := context.WithTimeout(ctx, tagsWithin)
	defer cancel()
	progress, end := m.Doing.Begin(ctx, "fetching", s.URL.String())
	defer end()
	defer m.config.Measure(s.History.Name())
	// The commit is there, whatever its depth, and a tag has no files.
	how := git.Fetch{Store: dir, Remote: m.at(s), Progress: progress, NoBlobs: s.History.NoBlobs}
	_, err = m.config.Git.FetchPack(ctx, git.PackFetch{Fetch: how, Wants: ids, Haves: []string{a.res.Commit}})
	if errors.Is(err, git.ErrThroughGit) {
		how.Refspecs = ids
		err = m.config.Git.Fetch(ctx, how)
	}
	if err == nil {
		err = durable.SyncDir(filepath.Join(dir, "objects/pack"))
	}
	return err
}
