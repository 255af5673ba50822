package remote

import (
	"context"
	"errors"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work/phase"
)

// Snapshot is what the remote had at the time of one answer: where a ref was, and all other refs that the store has
// of that time. The store may move on. It drops no object, so all of a Snapshot is there until the store is set
// aside. A Snapshot does not change, and is safe for concurrent use.
type Snapshot struct {
	Source // with the history that serves it
	// Resolution says where the ref was.
	Resolution meta.Resolution
	// Store is the record of the store at that time, without its refs.
	Store meta.Store
	// Checked is set if the ref is a branch, and the fetch for the Snapshot brought its commit: the store has all that
	// it reaches.
	Checked bool

	m    *Remote
	list *refList
	more *Answer // set if FetchOthers is to be called for the rest
}

// rounds is how often Snapshot tries: with the cold store, with the full one that takes its place, with the one that is
// cloned again because that is damaged, and with a newer answer.
const rounds = 4

// ErrAgain says that what a Snapshot stands for, or what was made of it, has gone meanwhile.
var ErrAgain = errors.New("something was removed meanwhile: run it again")

// Again returns an error that makes Snapshot try again, and is err in the end.
func Again(err error) error { return againError{err} }

type againError struct{ error }

func (e againError) Unwrap() error { return e.error }

func (e againError) Is(target error) bool { return target == ErrAgain }

var (
	// errColdEnded says that a full store has taken the place of the cold one, which is not made again.
	errColdEnded = errors.New("the cold store has ended meanwhile: run it again")
	// errOvertaken says that the store has the answer to a newer question.
	errOvertaken = errors.New("the repository was fetched meanwhile: run it again")
	// errRefsLost says that the refs of a store do not match its record.
	errRefsLost = errors.New("the refs of the store are not those of its last fetch")
)

// Snapshot calls use with what the remote has of s, after it has asked the remote, unless a record or an answer
// serves s: see servedBy. What the store lacks is fetched before. use may be nil.
//
// If that fails, or use does, because the store is damaged, was cloned again, or has ended as the cold one, or because
// the answer is not the newest any more, Snapshot repairs the store if necessary and does it again, with a new answer.
func (m *Remote) Snapshot(ctx context.Context, s Source, use func(*Snapshot) error) error {
	overtaken := false // once: pushes may come faster than that
	for round := 1; ; round++ {
		source := s
		source.History = m.Serving(s)
		store, there := m.Store(source.History)
		snap, err := m.take(ctx, source, s.key(), round == 1, overtaken || round == rounds)
		if err == nil && use != nil {
			err = use(snap)
		}
		if err == nil && snap.more != nil {
			m.FetchOthers(ctx, source, *snap.more) // last, because it holds the lock for long
		}
		if err == nil || round == rounds || ctx.Err() != nil {
			return err
		}
		overtaken = overtaken || errors.Is(err, errOvertaken)
		if again, err := m.mend(ctx, &s, source, store, there, err); !again {
			return err
		}
	}
}

// Latest returns what the remote has: as it says until ctx ends or, if it does not say so, as it said last. Then the
// Resolution is stale, and has no commit if s.Ref was never asked for. It is nil if nothing was fetched.
func (m *Remote) Latest(ctx context.Context, s Source) (snap *Snapshot) {
	if _, there := m.Store(m.Serving(s)); !there {
		return nil
	}
	if r, known := m.Resolution(s); s.Ref.Kind() == volume.RefSHA || known && r.Ref == "" {
		s.Ref = volume.Ref{} // for a commit nobody asks
	}
	s.Refresh, s.StaleIfError, s.Others = volume.Refresh{}, 0, OthersNow
	err := m.Snapshot(ctx, s, func(now *Snapshot) error {
		snap = now
		return nil
	})
	if err == nil {
		return snap
	}
	m.config.Log.WithContext(ctx).WithError(err).Debug("the remote does not say what it has: what it said last is used")
	s.History = m.Serving(s)
	m.mu.Lock()
	defer m.mu.Unlock()
	store, there := m.stores[s.History.Name()]
	if !there {
		return nil
	}
	r, known := store.Refs[s.Ref.String()]
	if !known {
		r.At = store.FetchedAt
	}
	r.Stale = true
	return m.snapshotLocked(s, store, r)
}

// mend reports whether Snapshot is to try again after an error, with s. source and store are those of the error.
func (m *Remote) mend(
	ctx context.Context, s *Source, source Source, store meta.Store, there bool, err error,
) (again bool, _ error) {
	now, still := m.Store(source.History)
	switch {
	case errors.Is(err, ErrAgain), errors.Is(err, errOvertaken):
		return true, err
	case source.History.Cold && s.ColdShallow && (m.has(s.History) || refusesShallow(err)):
		s.ColdShallow = false // the cold store goes when the full history was fetched: then err may be of any kind
		return true, err
	case there && !(still && now.ClonedAt.Equal(store.ClonedAt)), errors.Is(err, errRefsLost) && !still:
		return true, err // another one has set the damaged store aside: err is about that store
	case errors.Is(err, errRefsLost) && !m.StoreLost(source):
		m.config.Log.WithContext(ctx).WithError(err).Error("refs were lost: they are fetched again")
		extra := ""
		if source.History.Cold {
			extra = source.extra(now.Refs[s.Ref.String()])
		}
		_, err = m.fetch(ctx, source, Answer{head: now.Head, format: now.Format}, extra)
		if err == nil || giterror.KindOf(err) != giterror.KindCorrupt {
			return err == nil, err
		}
		fallthrough
	case giterror.KindOf(err) == giterror.KindCorrupt || m.StoreLost(source):
		healed, healErr := m.HealStore(ctx, source)
		if healErr != nil {
			return false, errors.Join(err, healErr)
		}
		return healed, err
	}
	return false, err
}

// refusesShallow reports whether a remote may serve the full history although it failed to
// serve the newest commits: it has only files, or does not send a commit by its ID.
func refusesShallow(err error) bool {
	e, ok := errors.AsType[*giterror.Error](err)
	return ok && e.URL != "" && (e.Kind == giterror.KindRefNotFound || e.Kind == giterror.KindOther)
}

// take is one round of Snapshot. Those after the first are there because something was too old, or has gone: their
// questions begin in the round. last is that of reconcile.
func (m *Remote) take(ctx context.Context, s Source, key string, first, last bool) (*Snapshot, error) {
	defer phase.Begin(ctx, phase.Resolve)()
	req := m.request(ctx, s)
	if !first {
		req.came, req.For = time.Now(), 0 // as if it came now
	}
	if snap, ok := m.recorded(s, &req); ok {
		return snap, nil
	}
	if s.Ref.Kind() == volume.RefSHA {
		if snap, ok, err := m.lookUpCommit(ctx, s, s.Ref.String()); ok || err != nil {
			return snap, err
		}
	}
	asking, cancel := m.inTime(ctx, s, req)
	a, err := m.ask(asking, s, key, req)
	cancel()
	if late := lateError(0); asking != ctx && errors.As(err, &late) && giterror.KindOf(err) == "" {
		err = giterror.NoAnswer(s.URL.String(), err)
	}
	if err != nil {
		return m.orStale(ctx, s, err)
	}
	return m.reconcile(ctx, s, a, last)
}

// reconcile makes the store agree with an answer. If it has a newer one, the error is errOvertaken, unless last is
// set: then the Snapshot may have other refs as the store had them at another time.
func (m *Remote) reconcile(ctx context.Context, s Source, a Answer, last bool) (*Snapshot, error) {
	snap, ok := m.confirm(s, a)
	if !ok {
		if !last && m.overtaken(s.History, a) {
			return nil, errOvertaken
		}
		return m.fetchRef(ctx, s, a)
	}
	if s.Others == OthersIgnored {
		return snap, nil
	}
	aligned, more, err := m.align(ctx, snap, a)
	switch {
	case errors.Is(err, errOvertaken) && last: // snap is whole, too
	case err != nil:
		return nil, err
	case more && s.Others == OthersNow && m.FetchOthersNow(ctx, s, a):
		if now, ok := m.recorded(s, nil); ok {
			return now, nil
		}
		return aligned, nil
	default:
		if snap = aligned; more && s.Others != OthersNow {
			snap.more = &a
		}
	}
	return snap, nil
}

// fetchRef is reconcile for an answer that the record does not confirm.
func (m *Remote) fetchRef(ctx context.Context, s Source, a Answer) (*Snapshot, error) {
	if a.later {
		return m.resolveCommit(ctx, s, a)
	}
	extra := s.extra(a.res)
	for try := 0; ; try++ {
		f, err := m.fetch(ctx, s, a, extra)
		if err != nil {
			return m.orStale(ctx, s, err)
		}
		r, ok := f.resolve(a)
		if !ok {
			return nil, giterror.RefNotFound(s.URL.String(), s.Ref.String())
		}
		// The first fetch may have been a joined one, from before our question. The second
		// is as new as the question: use its result even if the remote has moved again.
		if r.Pulled == a.res.Pulled || try > 0 {
			_, err := m.recordRef(s, f.store.Snapshot, r)
			f.store.Refs = nil
			list := &refList{moved: true, refs: f.refs}
			checked := isBranch(r.Ref) && f.brought(r.Pulled)
			return &Snapshot{Source: s, Resolution: r, Store: f.store, Checked: checked, m: m, list: list}, err
		}
	}
}

// recorded returns what the record has of s, if that serves the request; nil stands for any.
func (m *Remote) recorded(s Source, req *request) (snap *Snapshot, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	store := m.stores[s.History.Name()]
	r, ok := store.Refs[s.Ref.String()]
	if !ok || req != nil && !req.servedBy(said{recorded: &r}) {
		return nil, false
	}
	return m.snapshotLocked(s, store, r), true
}

// snapshotLocked returns a Snapshot of a store as it is now. The caller holds mu.
func (m *Remote) snapshotLocked(s Source, store meta.Store, r meta.Resolution) *Snapshot {
	store.Refs = nil
	return &Snapshot{Source: s, Resolution: r, Store: store, m: m, list: m.listLocked(s.History.Name())}
}

// orStale returns what the record has, marked as stale, if err says that the remote does not
// answer and s allows the record's age. Otherwise it returns err: a remote that answers no is
// right.
func (m *Remote) orStale(ctx context.Context, s Source, err error) (*Snapshot, error) {
	switch giterror.KindOf(err) {
	case giterror.KindTimeout, giterror.KindServer, giterror.KindRefused, giterror.KindHost, giterror.KindPage:
	default:
		return nil, err
	}
	req := m.request(ctx, s)
	req.down = true
	snap, ok := m.recorded(s, &req)
	if !ok {
		return nil, err
	}
	m.config.Log.WithContext(ctx).WithError(err).WithField("commit", snap.Resolution.Commit).
		Warn("the remote does not answer: the last known commit is used")
	snap.Resolution.Stale = true
	return snap, nil
}

// Dir returns the directory of the store.
func (s *Snapshot) Dir() string { return s.m.StoreDir(s.History.Name()) }

// Refs returns the refs of the store at the time of the answer, sorted by name. They are those of the file, unless
// the store has moved on: then the list has kept them. Callers must not change them.
func (s *Snapshot) Refs(ctx context.Context) ([]gitref.PackedRef, error) {
	refs, err := s.readRefs()
	if !errors.Is(err, errRefsLost) {
		return refs, err
	}
	unlock, err := s.m.lock(ctx, s.History) // the file is being replaced, or the refs are lost
	if err != nil {
		return nil, err
	}
	defer unlock()
	return s.readRefs()
}

func (s *Snapshot) readRefs() (refs []gitref.PackedRef, err error) {
	refs, moved := s.m.movedRefs(s.list)
	if !moved {
		refs, err = s.m.config.Git.Refs(s.Dir())
	}
	if err == nil && snapshot(refs, s.Store.Head) != s.Store.Snapshot {
		err = errRefsLost
	}
	return refs, err
}

// Link calls f while nothing changes the store, so that f can link its packs, which a repack replaces. Later fetches
// may have added others. The error is ErrAgain if the store was set aside.
func (s *Snapshot) Link(ctx context.Context, f func() error) error {
	unlock, err := s.m.lock(ctx, s.History)
	if err != nil {
		return err
	}
	defer unlock()
	if now, ok := s.m.Store(s.History); !ok || !now.ClonedAt.Equal(s.Store.ClonedAt) {
		return ErrAgain
	}
	return f()
}

// BringBlobs is Remote.BringBlobs for the commit of the Snapshot.
func (s *Snapshot) BringBlobs(ctx context.Context, cone gitindex.Cone) error {
	return s.m.BringBlobs(ctx, s.Source, s.Resolution.Commit, cone)
}
