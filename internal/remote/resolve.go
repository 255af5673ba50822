package remote

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Answer is what the remote says of a ref now.
type Answer struct {
	head   string // the remote's default branch, full name
	format string // sha1 or sha256
	res    meta.Resolution
	// later is set when ls-refs can't tell: a commit, which the store or a
	// fetch has to know.
	later bool
	// listed are all branches and tags, and sum identifies them; empty if they were
	// not asked for. snapshot is that of the store at the question.
	listed        listing
	sum, snapshot string
}

// Ask asks the remote about s.Ref. When what is known is fresh enough there is no
// question, and the Answer is nil. A definite no is a *git.Error whose Kind is
// Definite.
func (m *Remote) Ask(ctx context.Context, s Source) (*Answer, error) {
	if _, ok := m.fresh(s); ok {
		return nil, nil
	}
	a, err := m.ask(ctx, s)
	if err != nil {
		if _, staleErr := m.stale(s, err); staleErr == nil {
			return nil, nil
		}
		return nil, err
	}
	return &a, nil
}

// fresh returns the known resolution when s allows to use it without a question.
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
	age := m.Now().Sub(r.At) // of a clock that went back nothing is known
	return r, age >= 0 && age < s.Refresh.Interval
}

// ask shares one ls-refs question between all who ask it at the same time.
func (m *Remote) ask(ctx context.Context, s Source) (Answer, error) {
	var ours bool
	a, err := m.askShared(ctx, s, &ours)
	if git.KindOf(err) == git.KindTimeout && !ours {
		// We joined a question that was stuck at a server which may be back by
		// now: it deserves one of our own.
		return m.askShared(ctx, s, &ours)
	}
	return a, err
}

// askShared sets ours when it did not join a question that was asked already; it
// may be read when the error is the question's.
func (m *Remote) askShared(ctx context.Context, s Source, ours *bool) (Answer, error) {
	listFor, list := m.lists(s)
	key := strings.Join([]string{"ask", s.URL.String(), s.Ref.String(), s.Credential, fmt.Sprint(s.Pin), fmt.Sprint(list), listFor}, "\x00")
	return work.ShareTask(ctx, m.Used, key, func(ctx context.Context) (Answer, error) {
		*ours = true
		_, end := m.Doing.Begin(ctx, "asking", s.URL.String())
		defer end()
		ctx, cancel := context.WithTimeoutCause(ctx, m.AskTimeout, noAnswerError(m.AskTimeout))
		defer cancel()
		a, err := m.askNow(ctx, s, list)
		a.snapshot = listFor
		return a, err
	})
}

// noAnswerError says for how long a remote was asked. It is a deadline's.
type noAnswerError time.Duration

func (e noAnswerError) Error() string { return fmt.Sprintf("no answer within %v", time.Duration(e)) }

func (e noAnswerError) Is(target error) bool { return target == context.DeadlineExceeded }

// askNow asks for all branches and tags too if list is set.
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
		asked = append(slices.Clone(everything), names...)
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
		a.format = git.Format(name) // a remote without a HEAD says nothing of it
		return a, nil
	case volume.RefDefault:
		id, ok := refs.IDs["HEAD"]
		if !ok {
			return Answer{}, git.EmptyRemote(s.URL.String())
		}
		a.res.Ref, a.res.Pulled, a.res.Commit = refs.Head, id, id
		return a, nil
	}
	for _, n := range names { // a branch before a tag, as git clone does
		if id, ok := refs.IDs[n]; ok {
			a.res.Ref, a.res.Pulled, a.res.Commit = n, id, id
			if peeled, ok := refs.IDs[n+"^{}"]; ok {
				a.res.Commit = peeled
			}
			return a, nil
		}
	}
	if s.Ref.MaybeAbbrev() {
		a.later, a.res.Pulled = true, strings.ToLower(name)
		return a, nil
	}
	return Answer{}, git.RefNotFound(s.URL.String(), name)
}

// Resolve returns what s.Ref stands for now, with its commit in the store, and the
// answer of the remote if the record agreed with it. Without a known Answer the remote is
// asked, unless what is known is fresh enough, or the ref is a commit that the store has.
func (m *Remote) Resolve(ctx context.Context, s Source, known *Answer) (meta.Resolution, *Answer, error) {
	if r, ok := m.fresh(s); ok {
		return r, nil, nil
	}
	if s.Ref.Kind() != volume.RefSHA {
		if known == nil {
			a, err := m.askInTime(ctx, s)
			if err != nil {
				r, err := m.stale(s, err)
				return r, nil, err
			}
			known = &a
		}
		if m.agrees(s, *known) {
			r, _ := m.Resolution(s)
			return r, known, nil
		}
	}
	r, err := m.bring(ctx, s, known)
	return r, nil, err
}

// bring is Resolve of what the store does not have, or may not have.
func (m *Remote) bring(ctx context.Context, s Source, known *Answer) (meta.Resolution, error) {
	if s.Ref.Kind() == volume.RefSHA {
		r, ok, err := m.commit(ctx, s, s.Ref.String())
		if err != nil {
			return r, err
		}
		if ok {
			store, _ := m.Store(s.History)
			return m.record(s, store, r)
		}
	}
	if known == nil {
		a, err := m.askInTime(ctx, s)
		if err != nil {
			return m.stale(s, err)
		}
		known = &a
	}
	a := *known
	if a.later {
		return m.resolveCommit(ctx, s, a)
	}
	extra := ""
	if !everyFetch(a.res.Ref) {
		extra = a.res.Ref
		if extra == "" {
			extra = "HEAD" // detached
		}
	}
	for try := 0; ; try++ {
		store, refs, err := m.fetch(ctx, s, a, extra)
		if err != nil {
			return m.stale(s, err)
		}
		r, ok := LookUp(refs, a.res.Ref, m.Now())
		if !ok {
			return meta.Resolution{}, git.RefNotFound(s.URL.String(), s.Ref.String())
		}
		// A fetch that we joined may have begun before our question. The next
		// one has not: what it brought is the newest there is, even where the
		// remote has moved on since.
		if r.Pulled == a.res.Pulled || try > 0 {
			return m.record(s, store, r)
		}
	}
}

// agrees reports whether the store has what the remote says, and notes that it
// was asked.
func (m *Remote) agrees(s Source, a Answer) bool {
	_, agrees := m.change(s.History.Name(), func(store meta.Store, ok bool) (meta.Store, bool) {
		r, known := store.Refs[s.Ref.String()]
		if !ok || !known || a.later || store.Head != a.head || r.Ref != a.res.Ref || r.Pulled != a.res.Pulled {
			return store, false
		}
		r.At = a.res.At
		store.Refs[s.Ref.String()] = r
		return store, true
	})
	return agrees
}

// resolveCommit finds a full or abbreviated commit ID: in the store, after a
// fetch of all branches and tags, or, a full one, after asking for it by name.
func (m *Remote) resolveCommit(ctx context.Context, s Source, a Answer) (meta.Resolution, error) {
	rev := a.res.Pulled
	fetches := []string{""}
	if s.Ref.Kind() == volume.RefSHA {
		fetches = append(fetches, rev)
	}
	r, ok, err := m.commit(ctx, s, rev)
	for _, extra := range fetches {
		if err != nil || ok {
			break
		}
		if _, _, err = m.fetch(ctx, s, a, extra); err == nil {
			r, ok, err = m.commit(ctx, s, rev)
		}
	}
	if err == nil && !ok {
		err = git.RefNotFound(s.URL.String(), s.Ref.String())
	}
	if d := s.History.Depth; d > 0 && git.KindOf(err) == git.KindRefNotFound {
		err = fmt.Errorf("%w; or a depth greater than %d, if the commit is further from the branches and tags than that", err, d)
	}
	if err != nil {
		return meta.Resolution{}, err
	}
	store, _ := m.Store(s.History)
	return m.record(s, store, r)
}

// commit looks rev up in the store, if there is one, and keeps it reachable
// there whatever becomes of the branches that hold it now.
func (m *Remote) commit(ctx context.Context, s Source, rev string) (r meta.Resolution, ok bool, err error) {
	if _, ok := m.Store(s.History); !ok {
		return r, false, nil
	}
	dir := m.StoreDir(s.History.Name())
	id, ok, err := m.Git.Commit(ctx, dir, rev)
	if ok {
		// Not beside a fetch, which sweeps what looks like a lock that was left.
		unlock, err := m.Lock(ctx)
		if err != nil {
			return r, false, err
		}
		defer unlock()
		if err := m.Git.Keep(ctx, dir, storedAs(id), id); err != nil {
			return r, false, err
		}
	}
	return meta.Resolution{Pulled: id, Commit: id, At: m.Now()}, ok, err
}

// record adds a resolution to the store's record, unless that has been fetched again
// since: then it is for that fetch to say.
func (m *Remote) record(s Source, at meta.Store, r meta.Resolution) (meta.Resolution, error) {
	there := false
	_, changed := m.change(s.History.Name(), func(store meta.Store, ok bool) (meta.Store, bool) {
		there = ok
		if !ok {
			return store, false
		}
		if newer, known := store.Refs[s.Ref.String()]; known && store.Snapshot != at.Snapshot && r.Ref != "" {
			r = newer
			return store, false
		}
		store.Refs[s.Ref.String()] = r
		m.expireLocked(s.History.Name(), store.Refs)
		return store, true
	})
	switch {
	case !there:
		return r, fmt.Errorf("%s was removed meanwhile: run it again", m.Used.Name)
	case !changed:
		return r, nil
	}
	return r, m.Save()
}

// NoCommit says why the store has no commit of this ID, or not its tree.
func (m *Remote) NoCommit(ctx context.Context, s Source, id string) error {
	dir := m.StoreDir(s.History.Name())
	_, isCommit, err := m.Git.Commit(ctx, dir, id)
	if err != nil {
		return err
	}
	if isCommit {
		return git.Damaged(dir, fmt.Errorf("the tree of %s is gone", id))
	}
	ok, err := m.Git.Has(ctx, dir, id)
	switch {
	case err != nil:
		return err
	case ok:
		return git.NoCommit(s.URL.String(), s.Ref.String())
	}
	return git.Damaged(dir, fmt.Errorf("object %s is gone", id))
}

// LookUp finds a full ref among those of the store.
func LookUp(refs []git.PackedRef, name string, now time.Time) (meta.Resolution, bool) {
	stored := storedAs(name)
	for _, r := range refs {
		if r.Name == stored {
			res := meta.Resolution{Ref: name, Pulled: r.ID, Commit: r.ID, At: now}
			if r.Peeled != "" {
				res.Commit = r.Peeled
			}
			return res, true
		}
	}
	return meta.Resolution{}, false
}
