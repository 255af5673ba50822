package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/giterror"
	"github.com/helmdeck/repos/internal/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Answer is the answer of the remote about a ref.
type Answer struct {
	head   string // the remote's default branch, full name
	format string // sha1 or sha256
	res    meta.Resolution
	// later is set for a commit, about which ls-refs says nothing: the store or a fetch
	// must have it.
	later  bool
	number int64 // of the question: see Remote.settled
	// listed has all branches and tags, and sum identifies them; empty if the question was
	// not about them. snapshot is that of the store at the time of the question.
	listed        listing
	sum, snapshot string
}

// Ask asks the remote about s.Ref. If the known resolution is fresh enough, or may be used
// because the remote does not answer, the Answer is nil. A definite no is a *giterror.Error
// whose Kind is Definite.
func (m *Remote) Ask(ctx context.Context, s Source) (*Answer, error) {
	s.History = m.Serving(s)
	if _, ok := m.fresh(s); ok {
		return nil, nil
	}
	a, err := m.ask(ctx, s)
	if err == nil {
		return &a, nil
	}
	_, err = m.stale(ctx, s, err)
	return nil, err
}

// fresh returns the known resolution if s allows its use without a question.
func (m *Remote) fresh(s Source) (meta.Resolution, bool) {
	r, ok := m.Resolution(s)
	switch {
	case !ok:
		return r, false
	case r.Ref == "" && (s.Ref.Kind() == volume.RefSHA || s.Ref.MaybeAbbrev()):
		return r, true // a commit does not move
	case s.Refresh.Never:
		return r, true
	}
	age := m.Now().Sub(r.At) // negative if the clock was set back: unknown
	return r, age >= 0 && age < s.Refresh.Interval
}

// Asked returns the number of questions that were begun until now, for Source.Since.
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
	number int64 // counts from 1
	answer Answer
	err    error
}

// ask shares one ls-refs question between concurrent callers. A caller that comes after the
// answer takes part if ctx is that of a request which began before the answer came. A caller
// that joins a question from before s.Since waits for its end, and shares the next one with
// others that do.
func (m *Remote) ask(ctx context.Context, s Source) (Answer, error) {
	before := m.Asked()
	for again := false; ; {
		store, there := m.Store(s.History)
		list := store.RefCount <= gitref.MaxListed && !s.History.Cold
		if !there {
			// The listing is for the first fetch, which may be git's.
			list = s.History == (volume.History{}) && !m.unlisted.Load()
		}
		key := strings.Join([]string{
			"ask", s.URL.String(), s.Ref.String(), s.Credential, fmt.Sprint(s.Pin), fmt.Sprint(list),
		}, "\x00")
		recentKey := key + "\x00" + s.History.Name()
		if q, ok := m.recent.during(ctx, recentKey); ok && q.number > s.Since && q.answer.fits(store) && !m.outdated(s.History, q.answer) {
			return q.answer, nil
		}
		q, err := work.ShareTask(ctx, m.Used, key+"\x00"+store.Snapshot, func(ctx context.Context) (question, error) {
			q := question{number: m.asked.Add(1)}
			_, end := m.Doing.Begin(ctx, "asking", s.URL.String())
			defer end()
			asking, cancel := context.WithTimeoutCause(ctx, m.AskTimeout, noAnswerError(m.AskTimeout))
			defer cancel()
			if q.answer, q.err = m.askNow(asking, s, list); q.err != nil && ctx.Err() == nil && !giterror.KindOf(q.err).Definite() && list && !there {
				m.unlisted.Store(true)
			}
			q.answer.snapshot, q.answer.number = store.Snapshot, q.number
			if at := q.answer.res.At; q.err == nil {
				m.answered.Store(&at)
				if now, _ := m.Store(s.History); now.Snapshot == store.Snapshot {
					m.recent.keep(recentKey, q)
				}
			}
			return q, nil
		})
		switch joined := q.number <= before; {
		case err != nil:
			return Answer{}, err
		case joined && q.number <= s.Since:
		case joined && giterror.KindOf(q.err) == giterror.KindTimeout && !again:
			again = true // the server may answer now
		default:
			return q.answer, q.err
		}
	}
}

// noAnswerError says how long a remote did not answer. It is a context.DeadlineExceeded.
type noAnswerError time.Duration

func (e noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

func (e noAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// askNow asks about s.Ref and, if list is set, about all branches and tags.
func (m *Remote) askNow(ctx context.Context, s Source, list bool) (Answer, error) {
	var names []string
	name := s.Ref.String()
	switch s.Ref.Kind() {
	case volume.RefFull:
		names = []string{name}
	case volume.RefName:
		names = []string{"refs/heads/" + name, "refs/tags/" + name}
	}
	asked := names
	if list {
		asked = append(slices.Clone(branchesAndTags), names...)
	}
	refs, err := m.Git.LsRefs(ctx, m.at(s), asked...)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{head: refs.Head, format: refs.Format, res: meta.Resolution{At: m.Now()}}
	if l, ok := listingIn(refs); list && refs.More {
		a.sum = tooMany
	} else if list && ok {
		a.listed, a.sum = l, l.sum()
	}
	switch s.Ref.Kind() {
	case volume.RefSHA:
		a.later, a.res.Pulled = true, name
		a.format = gitref.Format(name) // a remote without a HEAD does not name a format
		return a, nil
	case volume.RefDefault:
		id, ok := refs.IDs["HEAD"]
		if !ok {
			return Answer{}, giterror.EmptyRemote(s.URL.String())
		}
		a.res.Ref, a.res.Pulled, a.res.Commit = refs.Head, id, id
		return a, nil
	}
	for _, n := range names { // a branch before a tag, as git clone does
		if id, ok := refs.IDs[n]; ok {
			a.res.Ref, a.res.Pulled, a.res.Commit = n, id, cmp.Or(refs.IDs[n+"^{}"], id)
			return a, nil
		}
	}
	if s.Ref.MaybeAbbrev() {
		a.later, a.res.Pulled = true, strings.ToLower(name)
		return a, nil
	}
	return Answer{}, giterror.RefNotFound(s.URL.String(), name)
}

// Resolve returns the resolution of s.Ref, whose commit is then in the store, and the
// answer of the remote if it confirms the record. Without a known Answer it asks the
// remote, unless the known resolution is fresh enough or the ref is a commit in the store.
func (m *Remote) Resolve(ctx context.Context, s Source, known *Answer) (meta.Resolution, *Answer, error) {
	if r, ok := m.fresh(s); ok {
		return r, nil, nil
	}
	if s.Ref.Kind() == volume.RefSHA {
		if r, ok, err := m.lookUpCommit(ctx, s, s.Ref.String()); ok || err != nil {
			return r, nil, err
		}
	}
	for again := false; ; again = true {
		if known == nil {
			asking, cancel := m.inTime(ctx, s)
			a, err := m.ask(asking, s)
			cancel()
			if late := noAnswerError(0); asking != ctx && errors.As(err, &late) && giterror.KindOf(err) == "" {
				err = giterror.NoAnswer(s.URL.String(), err)
			}
			if err != nil {
				r, err := m.stale(ctx, s, err)
				return r, nil, err
			}
			known = &a
		}
		if r, ok := m.confirm(s, *known); ok {
			return r, known, nil
		}
		if again || !m.outdated(s.History, *known) {
			break
		}
		known = nil // the store has a newer one
	}
	r, err := m.fetchRef(ctx, s, *known)
	return r, nil, err
}

// fetchRef is Resolve for an answer that the record does not confirm.
func (m *Remote) fetchRef(ctx context.Context, s Source, a Answer) (meta.Resolution, error) {
	if a.later {
		return m.resolveCommit(ctx, s, a)
	}
	extra := s.extra(a.res)
	for try := 0; ; try++ {
		f, err := m.fetch(ctx, s, a, extra)
		if err != nil {
			return m.stale(ctx, s, err)
		}
		r, ok := LookUp(f.refs, a.res.Ref, f.at)
		if !ok {
			return meta.Resolution{}, giterror.RefNotFound(s.URL.String(), s.Ref.String())
		}
		// The first fetch may have been a joined one, from before our question. The second
		// is as new as the question: use its result even if the remote has moved again.
		if r.Pulled == a.res.Pulled || try > 0 {
			return m.recordRef(s, f.store.Snapshot, r)
		}
	}
}

// extra returns what a fetch for a resolution of s.Ref must name; empty if it is a branch or
// tag that every fetch brings.
func (s Source) extra(r meta.Resolution) string {
	switch {
	case isBranchOrTag(r.Ref) && !s.History.Cold:
		return ""
	case r.Ref != "":
		return r.Ref
	case s.Ref.Kind() == volume.RefDefault:
		return "HEAD" // detached
	}
	return r.Pulled
}

// confirm returns the recorded resolution of s.Ref, with the time of the answer. It is not
// ok, and changes nothing, if the answer differs from it.
func (m *Remote) confirm(s Source, a Answer) (r meta.Resolution, ok bool) {
	_, ok = m.change(s.History.Name(), func(store meta.Store, _ bool) (meta.Store, bool) {
		r = store.Refs[s.Ref.String()]
		if a.later || store.Head != a.head || r.Ref != a.res.Ref || r.Pulled != a.res.Pulled {
			return store, false
		}
		r.At = a.res.At
		store.Refs[s.Ref.String()] = r
		return store, true
	})
	if ok {
		m.settle(s.History, a.number, a.sum)
	}
	return r, ok
}

// resolveCommit looks for a full or abbreviated commit ID in the store, then after a fetch
// of all branches and tags, unless it is for the cold store, and then, if it is a full one,
// after a fetch of itself.
func (m *Remote) resolveCommit(ctx context.Context, s Source, a Answer) (meta.Resolution, error) {
	rev := a.res.Pulled
	if s.History.Cold && s.Ref.Kind() != volume.RefSHA {
		// Only the full history tells whether an abbreviation means one commit.
		return meta.Resolution{}, giterror.RefNotFound(s.URL.String(), s.Ref.String())
	}
	var fetches []string
	if !s.History.Cold {
		fetches = append(fetches, "")
	}
	if s.Ref.Kind() == volume.RefSHA {
		fetches = append(fetches, rev)
	}
	r, ok, err := m.lookUpCommit(ctx, s, rev)
	for _, extra := range fetches {
		if err != nil || ok {
			break
		}
		if _, err = m.fetch(ctx, s, a, extra); err == nil {
			r, ok, err = m.lookUpCommit(ctx, s, rev)
		}
	}
	if err == nil && !ok {
		err = giterror.RefNotFound(s.URL.String(), s.Ref.String())
	}
	if d := s.History.Depth; d > 0 && giterror.KindOf(err) == giterror.KindRefNotFound {
		err = fmt.Errorf("%w; or a depth greater than %d, if the commit is further from the branches and tags than that", err, d)
	}
	return r, err
}

// lookUpCommit looks for a commit in the store, if that exists, and records it. It keeps
// the commit reachable in the store, whatever happens to its branches.
func (m *Remote) lookUpCommit(ctx context.Context, s Source, rev string) (r meta.Resolution, ok bool, err error) {
	if _, ok := m.Store(s.History); !ok {
		return r, false, nil
	}
	dir := m.StoreDir(s.History.Name())
	id, ok, err := m.Git.Commit(ctx, dir, rev)
	if err != nil || !ok {
		return r, false, err
	}
	// Not during a fetch, which removes lock files as leftovers.
	unlock, err := m.lock(ctx, s.History)
	if err != nil {
		return r, false, err
	}
	err = m.Git.Keep(ctx, dir, storedName(id), id)
	unlock()
	if err != nil {
		return r, false, err
	}
	r, err = m.recordRef(s, "", meta.Resolution{Pulled: id, Commit: id, At: m.Now()})
	return r, err == nil, err
}

// recordRef adds a resolution to the store's record. That of a ref belongs to a snapshot:
// if the store was fetched again since, it returns the resolution of that fetch.
func (m *Remote) recordRef(s Source, snapshot string, r meta.Resolution) (meta.Resolution, error) {
	there, saved := false, false
	_, changed := m.change(s.History.Name(), func(store meta.Store, ok bool) (meta.Store, bool) {
		there = ok
		if !ok {
			return store, false
		}
		last, known := store.Refs[s.Ref.String()]
		if known && store.Snapshot != snapshot && r.Ref != "" {
			r = last
			return store, false
		}
		last.At = r.At // as in confirm, the time alone is not worth a save
		saved = known && last == r
		store.Refs[s.Ref.String()] = r
		m.expireLocked(s.History.Name(), store.Refs)
		return store, true
	})
	switch {
	case !there:
		return r, fmt.Errorf("%s was removed meanwhile: run it again", m.Used.Name)
	case !changed || saved:
		return r, nil
	}
	return r, m.Save()
}

// NoCommit returns an error that says why the store lacks a commit or its tree.
func (m *Remote) NoCommit(ctx context.Context, s Source, id string) error {
	dir := m.StoreDir(s.History.Name())
	_, isCommit, err := m.Git.Commit(ctx, dir, id)
	if err != nil {
		return err
	}
	if isCommit {
		return giterror.Damaged(dir, fmt.Errorf("the tree of %s is gone", id))
	}
	ok, err := m.Git.Has(ctx, dir, id)
	switch {
	case err != nil:
		return err
	case ok:
		return giterror.NoCommit(s.URL.String(), s.Ref.String())
	}
	return giterror.Damaged(dir, fmt.Errorf("object %s is gone", id))
}

// LookUp returns the resolution of a full ref name among the refs of a store.
func LookUp(refs []gitref.PackedRef, name string, now time.Time) (meta.Resolution, bool) {
	stored := storedName(name)
	i := slices.IndexFunc(refs, func(r gitref.PackedRef) bool { return r.Name == stored })
	if i < 0 {
		return meta.Resolution{}, false
	}
	return meta.Resolution{Ref: name, Pulled: refs[i].ID, Commit: cmp.Or(refs[i].Peeled, refs[i].ID), At: now}, true
}
