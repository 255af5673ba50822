package remote

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Ask asks the remote about s.Ref, unless the record serves it, and keeps the answer for s.Since.For. It is nil if
// the record may be used because the remote does not answer. A definite no is a *giterror.Error whose Kind is
// Definite.
func (m *Remote) Ask(ctx context.Context, s Source) error {
	key := s.key()
	s.History = m.Serving(s)
	req := m.request(ctx, s)
	if _, ok := m.recorded(s, &req); ok {
		return nil
	}
	_, err := m.ask(ctx, s, key, req)
	if err != nil {
		_, err = m.orStale(ctx, s, err)
	}
	return err
}

// Asked returns the number of questions that were begun until now, for Since.
func (m *Remote) Asked() int64 { return m.asked.Load() }

// Answered returns when the remote last answered a question, from memory; the zero time if
// it has not since the start.
func (m *Remote) Answered() time.Time {
	if at := m.answered.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// question is an ls-refs question with its result.
type question struct {
	said
	answer Answer
	err    error
}

// ask returns the answer to a question that may serve a request, and keeps it by the key. Concurrent requests share a
// question. One that joins a question from before it came waits for the end of that, and shares the next one with all
// that do: many requests at once cost two questions at most.
func (m *Remote) ask(ctx context.Context, s Source, key string, req request) (Answer, error) {
	before := m.Asked()
	for again := false; ; {
		q, ok := m.keptFor(s, key, req)
		if !ok {
			var err error
			if q, err = m.join(ctx, s, key, req); err != nil {
				return Answer{}, err
			}
			req.now = m.config.Now() // not before the answer, which may serve a new volume for its age
		}
		switch {
		case !req.servedBy(q.said):
		case q.number <= before && giterror.KindOf(q.err) == giterror.KindTimeout && !again:
			again = true // the server may answer now
		default:
			if q.err == nil && s.Since.For > 0 {
				m.kept.keep(key, q, s.Since.For)
			}
			return q.answer, q.err
		}
	}
}

// keptFor returns the last question of the key, if its answer is still there and may serve a request.
func (m *Remote) keptFor(s Source, key string, req request) (question, bool) {
	last, ok := m.kept.get(key)
	if !ok || last.cold != s.History.Cold {
		return question{}, false
	}
	last.overtaken = m.overtaken(s.History, last.answer)
	return last.question, req.servedBy(last.said)
}

// join begins a question with the key, or joins the one that is under way, and returns it when it has ended.
func (m *Remote) join(ctx context.Context, s Source, key string, req request) (question, error) {
	store, there := m.Store(s.History)
	list := asksFor(store)
	// Before the first fetch the listing is for that, which may be git's.
	if s.History.Cold || !there && (s.History != volume.History{} || m.unlisted.Load()) {
		list = nil
	}
	flight := strings.Join([]string{"ask", key, fmt.Sprint(list)}, "\x00")
	return work.ShareTask(ctx, m.config.Used, flight, func(ctx context.Context) (question, error) {
		// Another question may have ended just before this one could join it.
		if q, ok := m.keptFor(s, key, req); ok {
			return q, nil
		}
		q := question{said: said{
			number: m.asked.Add(1), changes: m.credentialChanges(), began: time.Now(), cold: s.History.Cold,
		}}
		_, end := m.Doing.Begin(ctx, "asking", s.URL.String())
		defer end()
		asking, cancel := context.WithTimeoutCause(ctx, m.config.AskTimeout, noAnswerError(m.config.AskTimeout))
		defer cancel()
		if q.answer, q.err = m.askNow(asking, s, list); q.err != nil && ctx.Err() == nil && !giterror.KindOf(q.err).Definite() && len(list) > 0 && !there {
			m.unlisted.Store(true)
		}
		q.answer.snapshot, q.answer.number, q.at = store.Snapshot, q.number, q.answer.res.At
		if q.err == nil {
			at := q.at
			m.answered.Store(&at)
			m.kept.keep(key, q, 0) // before the next question with the key can begin
		}
		return q, nil
	})
}

// noAnswerError says how long a remote did not answer. It is a context.DeadlineExceeded.
type noAnswerError time.Duration

func (e noAnswerError) Error() string {
	return fmt.Sprintf("no answer within ASK_TIMEOUT=%v", time.Duration(e))
}

func (e noAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// lateError is a noAnswerError for a question that ends before its caller does: see inTime.
type lateError time.Duration

func (e lateError) Error() string {
	return fmt.Sprintf("no answer within %v, as long as the mount could wait", time.Duration(e))
}

func (e lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// askNow asks about s.Ref and about all refs below the prefixes in list.
func (m *Remote) askNow(ctx context.Context, s Source, list []string) (Answer, error) {
	var names []string
	name := s.Ref.String()
	switch s.Ref.Kind() {
	case volume.RefFull:
		names = []string{name}
	case volume.RefName:
		names = []string{"refs/heads/" + name, "refs/tags/" + name}
	}
	refs, err := m.config.Git.LsRefs(ctx, m.at(s), slices.Concat(list, names)...)
	if _, ok := refs.IDs["HEAD"]; err == nil && !ok && !slices.Contains(list, branches) && s.Ref.Kind() == volume.RefDefault {
		list = []string{branches, tags} // is it empty?
		refs, err = m.config.Git.LsRefs(ctx, m.at(s), list...)
	}
	if err != nil {
		return Answer{}, err
	}
	a := Answer{
		head: refs.Head, format: refs.Format, res: meta.Resolution{At: m.config.Now()}, sums: refs.Sums,
		listed: listingOf(refs, list),
	}
	switch s.Ref.Kind() {
	case volume.RefSHA:
		a.later, a.res.Pulled = true, name
		a.format = gitref.Format(name) // a remote without a HEAD does not name a format
		return a, nil
	case volume.RefDefault:
		if id, ok := refs.IDs["HEAD"]; ok {
			a.res.Ref, a.res.Pulled, a.res.Commit = refs.Head, id, id
			return a.withTags(refs), nil
		}
		if a.res.Ref, a.empty = refs.Head, !hasBranch(refs); !a.empty {
			return Answer{}, giterror.NoDefault(s.URL.String(), refs.Head)
		}
		return a, nil
	}
	for _, n := range names { // a branch before a tag, as git clone does
		if id, ok := refs.IDs[n]; ok {
			a.res.Ref, a.res.Pulled, a.res.Commit = n, id, cmp.Or(refs.IDs[n+"^{}"], id)
			return a.withTags(refs), nil
		}
	}
	if s.Ref.MaybeAbbrev() {
		a.later, a.res.Pulled = true, strings.ToLower(name)
		return a, nil
	}
	if !slices.Contains(list, branches) { // is it empty?
		if refs, err = m.config.Git.LsRefs(ctx, m.at(s), branches, tags); err != nil {
			return Answer{}, err
		}
	}
	if !hasBranch(refs) {
		return Answer{}, giterror.Empty(s.URL.String(), name)
	}
	return Answer{}, giterror.RefNotFound(s.URL.String(), name)
}

// extra returns what a fetch for a resolution of s.Ref must name; empty if it is a branch or
// tag that every fetch brings.
func (s Source) extra(r meta.Resolution) string {
	switch {
	case r.Pulled == "", isBranchOrTag(r.Ref) && !s.History.Cold:
		return ""
	case r.Ref != "":
		return r.Ref
	case s.Ref.Kind() == volume.RefDefault:
		return "HEAD" // detached
	}
	return r.Pulled
}

// confirm returns what the record has of s, with the time of the answer. It is not ok, and
// changes nothing, if the answer differs from it.
func (m *Remote) confirm(s Source, a Answer) (snap *Snapshot, ok bool) {
	_, ok = m.change(s.History.Name(), func(store meta.Store, _ bool) (meta.Store, bool) {
		r, known := store.Refs[s.Ref.String()]
		if a.empty && a.head == "" {
			a.head, a.res.Ref = store.Head, store.Head // the remote does not say it
		}
		if !known || a.later || store.Head != a.head || r.Ref != a.res.Ref || r.Pulled != a.res.Pulled {
			return store, false
		}
		r.At = a.res.At
		store.Refs[s.Ref.String()] = r
		snap = m.snapshotLocked(s, store, r)
		return store, true
	})
	if ok {
		m.noteStored(s.History, a.number, a.sums)
	}
	return snap, ok
}

// resolveCommit looks for a full or abbreviated commit ID in the store, then after a fetch
// of all branches and tags, unless it is for the cold store, and then, if it is a full one,
// after a fetch of itself.
func (m *Remote) resolveCommit(ctx context.Context, s Source, a Answer) (*Snapshot, error) {
	rev := a.res.Pulled
	if s.History.Cold && s.Ref.Kind() != volume.RefSHA {
		// Only the full history tells whether an abbreviation means one commit.
		return nil, giterror.RefNotFound(s.URL.String(), s.Ref.String())
	}
	var fetches []string
	if !s.History.Cold {
		fetches = append(fetches, "")
	}
	if s.Ref.Kind() == volume.RefSHA {
		fetches = append(fetches, rev)
	}
	snap, ok, err := m.lookUpCommit(ctx, s, rev)
	for _, extra := range fetches {
		if err != nil || ok {
			break
		}
		if _, err = m.fetch(ctx, s, a, extra); err == nil {
			snap, ok, err = m.lookUpCommit(ctx, s, rev)
		}
	}
	if err == nil && !ok {
		err = giterror.RefNotFound(s.URL.String(), s.Ref.String())
	}
	if d := s.History.Depth; d > 0 && giterror.KindOf(err) == giterror.KindRefNotFound {
		err = fmt.Errorf("%w; or a depth greater than %d, if the commit is further from the branches and tags than that", err, d)
	}
	return snap, err
}

// lookUpCommit looks for a commit in the store, if that exists, and records it. It keeps
// the commit reachable in the store, whatever happens to its branches.
func (m *Remote) lookUpCommit(ctx context.Context, s Source, rev string) (snap *Snapshot, ok bool, err error) {
	if _, ok := m.Store(s.History); !ok {
		return nil, false, nil
	}
	dir := m.StoreDir(s.History.Name())
	id, ok, err := m.config.Git.Commit(ctx, dir, rev)
	if err != nil || !ok {
		return nil, false, err
	}
	// Not during a fetch, which removes lock files as leftovers.
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return nil, false, err
	}
	err = m.config.Git.Keep(ctx, dir, storedName(id), id)
	unlock()
	if err != nil {
		return nil, false, err
	}
	snap, err = m.recordRef(s, "", meta.Resolution{Pulled: id, Commit: id, At: m.config.Now()})
	return snap, err == nil, err
}

// recordRef adds a resolution to the store's record, and returns a Snapshot of the store with it. That of a ref belongs
// to a snapshot: if the store was fetched again since, the record keeps the resolution of that fetch.
func (m *Remote) recordRef(s Source, snapshot string, r meta.Resolution) (snap *Snapshot, err error) {
	saved := false
	_, changed := m.change(s.History.Name(), func(store meta.Store, ok bool) (meta.Store, bool) {
		if !ok {
			return store, false
		}
		snap = m.snapshotLocked(s, store, r)
		last, known := store.Refs[s.Ref.String()]
		if known && store.Snapshot != snapshot && r.Ref != "" {
			return store, false
		}
		last.At = r.At // as in confirm, the time alone is not worth a save
		saved = known && last == r
		store.Refs[s.Ref.String()] = r
		m.expireLocked(s.History.Name(), store.Refs)
		return store, true
	})
	switch {
	case snap == nil:
		return nil, fmt.Errorf("%s was removed meanwhile: run it again", m.config.Used.Name)
	case !changed || saved:
		return snap, nil
	}
	return snap, m.config.Save()
}

// staleMargin is how much time a Mount has left when it gives up its question and uses the
// last known commit: enough to build a small tree.
const staleMargin = time.Second

// inTime returns a context for a question that ends staleMargin before ctx does if s allows
// the known resolution instead.
func (m *Remote) inTime(ctx context.Context, s Source, req request) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	req.down = true
	if _, known := m.recorded(s, &req); !ok || !known {
		return ctx, func() {}
	}
	wait := time.Until(deadline) - staleMargin
	return context.WithTimeoutCause(ctx, wait, lateError(wait.Round(time.Second)))
}

// NoCommit returns an error that says why the store lacks a commit or its tree.
func (m *Remote) NoCommit(ctx context.Context, s Source, id string) error {
	dir := m.StoreDir(s.History.Name())
	_, isCommit, err := m.config.Git.Commit(ctx, dir, id)
	if err != nil {
		return err
	}
	if isCommit {
		return giterror.Damaged(dir, fmt.Errorf("the tree of %s is gone", id))
	}
	ok, err := m.config.Git.Has(ctx, dir, id)
	switch {
	case err != nil:
		return err
	case ok:
		return giterror.NoCommit(s.URL.String(), s.Ref.String())
	}
	return giterror.Damaged(dir, fmt.Errorf("object %s is gone", id))
}
