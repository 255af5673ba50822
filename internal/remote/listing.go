package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// listing has the IDs of branches and tags by full name. Peeled IDs of tags are not in it,
// because a tag's own ID determines them.
type listing map[string]string

// listingOf returns the branches and tags among the refs of a store.
func listingOf(refs []gitref.PackedRef) listing {
	l := make(listing)
	for _, r := range refs {
		if isBranchOrTag(r.Name) {
			l[r.Name] = r.ID
		}
	}
	return l
}

// listingIn returns the branches and tags in an answer. It is not ok if one has a name
// that git would not store.
func listingIn(refs gitref.Answer) (l listing, ok bool) {
	l = make(listing)
	for name, id := range refs.IDs {
		if !isBranchOrTag(name) || strings.HasSuffix(name, "^{}") {
			continue
		}
		if _, err := volume.ParseRef(name); err != nil {
			return nil, false
		}
		l[name] = id
	}
	return l, true
}

// sum identifies a listing.
func (l listing) sum() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(l)) {
		fmt.Fprintf(h, "%s %s\n", l[name], name)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// branchesAndTags are the prefixes that ask for all branches and tags.
var branchesAndTags = []string{"refs/heads/", "refs/tags/"}

// tooMany is the sum of a listing that is too long to compare.
const tooMany = "too many"

// aligned is the result of the last fetch for a listing with objects that the store lacked.
// The zero value means none.
type aligned struct {
	fetching bool
	sum      string
	snapshot string // of the store after the fetch
	at       time.Time
}

// alignAgain is how long Align ignores a listing that a fetch could not complete: a remote
// may list refs that it does not serve.
const alignAgain = time.Minute

// Align updates the branches and tags of the store to those of the answer, as far as the
// store has their objects, and reports whether the others must be fetched. The answer is
// the one that Resolve returned; nil changes nothing. The error is ErrFetched if the
// store was fetched since the question.
//
// During a FetchOthers of the store Align does nothing: that holds the lock, and a Mount
// must not wait for it.
func (m *Remote) Align(ctx context.Context, s Source, a *Answer) (fetch bool, err error) {
	if a == nil || a.sum == "" {
		return false, nil
	}
	name := s.History.Name()
	m.aligning.Lock()
	store, ok := m.Store(s.History)
	last := m.aligned[name]
	m.aligning.Unlock()
	age := m.Now().Sub(last.at)
	switch {
	case !ok || store.RefSum == a.sum || last.fetching:
		return false, nil
	case last.sum == a.sum && last.snapshot == store.Snapshot && age >= 0 && age < alignAgain:
		return false, nil
	case a.sum == tooMany:
		return true, nil
	}
	key := strings.Join([]string{"align", name, a.snapshot, a.sum}, "\x00")
	fetch, err = work.ShareTask(ctx, m.Used, key, func(ctx context.Context) (lacks bool, err error) {
		err = m.FromStore(ctx, s, func(store meta.Store, refs []gitref.PackedRef) error {
			lacks, err = m.alignNow(ctx, s, *a, store, refs)
			return err
		})
		return lacks, err
	})
	if err == nil || errors.Is(err, ErrFetched) || giterror.KindOf(err) == giterror.KindCorrupt || ctx.Err() != nil {
		return fetch, err
	}
	// The ref of the volume itself is current and can be checked out.
	m.Log.WithContext(ctx).WithError(err).Warn("the other branches and tags can't be updated: they are those of the last fetch")
	return false, nil
}

// alignNow is Align with the lock held.
func (m *Remote) alignNow(ctx context.Context, s Source, a Answer, store meta.Store, refs []gitref.PackedRef) (lacks bool, err error) {
	switch {
	case store.RefSum == a.sum:
		return false, nil // another call did it meanwhile
	case store.Snapshot != a.snapshot || m.outdated(s.History, a):
		return false, ErrFetched // the answer or the fetch may be newer
	}
	next, lacks, err := adopt(refs, a.listed, func(ids []string) (map[string]git.Object, error) { return m.known(ctx, s, ids) })
	if err != nil {
		return false, err
	}
	m.settle(s.History, a.number, a.sum)
	if !slices.Equal(next, refs) {
		if err := m.Git.WriteRefs(m.StoreDir(s.History.Name()), next); err != nil {
			return false, err
		}
		failpoint.Hit("clone/align/written")
	} else if store.RefSum != "" {
		return lacks, nil
	}
	return lacks, m.recordRefs(ctx, s, a, next)
}

// settled is a question with the sum of its answer, which is empty if it has none.
type settled struct {
	number int64
	sum    string
}

// settle notes that the store has the answer to a question.
func (m *Remote) settle(h volume.History, number int64, sum string) {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	if number >= m.settled[h.Name()].number {
		m.settled[h.Name()] = settled{number, sum}
	}
}

// outdated reports whether the store has the answer to a newer question, and that answer is
// another one.
func (m *Remote) outdated(h volume.History, a Answer) bool {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	newest := m.settled[h.Name()]
	return newest.number > a.number && (newest.sum == "" || newest.sum != a.sum)
}

// connectedWithin is how long a Mount checks whether refs can be adopted. After that it
// leaves them to a fetch.
const connectedWithin = 2 * time.Second

// adopt returns refs with the branches and tags of l in place of the current ones. known
// returns those of the objects that the store has. If it lacks that of a ref, adopt keeps
// the current ref, if any, and returns lacks.
func adopt(refs []gitref.PackedRef, l listing, known func(ids []string) (map[string]git.Object, error)) (next []gitref.PackedRef, lacks bool, err error) {
	there := make(map[string]gitref.PackedRef)
	for _, r := range refs {
		if isBranchOrTag(r.Name) {
			there[r.Name] = r
		} else {
			next = append(next, r)
		}
	}
	var ids []string // of new and moved refs
	for name, id := range l {
		if there[name].ID != id {
			ids = append(ids, id)
		}
	}
	var objects map[string]git.Object
	if len(ids) > 0 {
		slices.Sort(ids)
		if objects, err = known(slices.Compact(ids)); err != nil {
			return nil, false, err
		}
	}
	for name, id := range l {
		r, ok := there[name]
		if r.ID != id {
			object, has := objects[id]
			if has && (object.Type == "commit" || strings.HasPrefix(name, "refs/tags/")) {
				r, ok = gitref.PackedRef{Name: name, ID: id, Peeled: object.Peeled}, true
			} else {
				lacks = true
			}
		}
		if ok {
			next = append(next, r)
		}
	}
	slices.SortFunc(next, func(a, b gitref.PackedRef) int { return strings.Compare(a.Name, b.Name) })
	if collide(next) {
		return refs, true, nil // git decides when it fetches
	}
	return next, lacks, nil
}

// known returns those of the objects that the store has together with all objects that
// they reach.
func (m *Remote) known(ctx context.Context, s Source, ids []string) (map[string]git.Object, error) {
	dir := m.StoreDir(s.History.Name())
	known, err := m.Git.Known(ctx, dir, ids)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, connectedWithin)
	defer cancel()
	connected, err := m.Git.Connected(within, dir, slices.Collect(maps.Keys(known)), s.History.NoBlobs)
	if within.Err() != nil && ctx.Err() == nil {
		return nil, nil
	}
	if err != nil || !connected {
		return nil, err
	}
	return known, nil
}

// collide reports whether the name of a ref is a directory of another ref's name.
func collide(refs []gitref.PackedRef) bool {
	names := make(map[string]bool)
	for _, r := range refs {
		names[r.Name] = true
	}
	for name := range names {
		for i, b := range []byte(name) {
			if b == '/' && names[name[:i]] {
				return true
			}
		}
	}
	return false
}

// recordRefs records the new refs of the store, and where the refs that volumes name are
// now.
func (m *Remote) recordRefs(ctx context.Context, s Source, a Answer, refs []gitref.PackedRef) error {
	undo, ok := m.change(s.History.Name(), func(before meta.Store, ok bool) (meta.Store, bool) {
		l, store := listingOf(refs), before
		store.Snapshot = snapshot(refs, before.Head)
		store.RefCount, store.RefSum = len(l), l.sum()
		store.Refs = make(map[string]meta.Resolution)
		for name, r := range before.Refs {
			id, listed := a.listed[r.Ref]
			if now, ok := LookUp(refs, r.Ref, a.res.At); listed && ok && now.Pulled == id {
				r = now
			}
			if listed || r.Ref == "" || !isBranchOrTag(r.Ref) {
				store.Refs[name] = r
			}
		}
		return store, ok
	})
	if !ok {
		return ErrFetched
	}
	if err := m.Save(); err != nil {
		undo()
		return err
	}
	m.Log.WithContext(ctx).WithFields(map[string]any{"store": s.History.Name(), "refs": len(refs)}).Info("branches and tags are as the remote lists them")
	return nil
}

// FetchOthers fetches the branches and tags of an answer in the background, for the next
// mount.
func (m *Remote) FetchOthers(ctx context.Context, s Source, a Answer) {
	release, err := m.Used.Use(ctx)
	if err != nil {
		return
	}
	if !m.beginOthers(s, a) {
		release()
		return
	}
	m.Used.Group.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer release()
		m.fetchOthers(ctx, s, a)
	}))
}

// FetchOthersNow is FetchOthers for a caller that waits. It reports whether it has fetched
// them.
func (m *Remote) FetchOthersNow(ctx context.Context, s Source, a Answer) bool {
	return m.beginOthers(s, a) && m.fetchOthers(ctx, s, a)
}

// beginOthers reports whether the caller is to call fetchOthers, because no other call does
// or did it.
func (m *Remote) beginOthers(s Source, a Answer) bool {
	name := s.History.Name()
	m.aligning.Lock()
	defer m.aligning.Unlock()
	store, ok := m.Store(s.History)
	if !ok || m.aligned[name].fetching || store.RefSum == a.sum {
		return false
	}
	m.aligned[name] = aligned{fetching: true}
	return true
}

// fetchOthers fetches, logs an error, and notes the result for Align.
func (m *Remote) fetchOthers(ctx context.Context, s Source, a Answer) bool {
	_, err := m.fetch(ctx, s, a, "")
	store, _ := m.Store(s.History)
	m.aligning.Lock()
	m.aligned[s.History.Name()] = aligned{sum: a.sum, snapshot: store.Snapshot, at: m.Now()}
	m.aligning.Unlock()
	if err != nil && ctx.Err() == nil {
		m.Log.WithContext(ctx).WithError(err).Warn("fetch the other branches and tags")
	}
	return err == nil
}
