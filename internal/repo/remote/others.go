package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

const (
	// alignAgain is how long a listing is ignored that a fetch could not complete: a remote
	// may list refs that it does not serve.
	alignAgain = time.Minute
	// maxOthers, times the SizeFactor, is how many branches and tags are listed in the background:
	// some 4 MB of an answer. With more, those that questions do not bring are as of the last fetch, and the log says so.
	maxOthers = 50_000
	// listLeast is the shortest wait between the listings of a store, and listShare the
	// wait as a multiple of how long the last one took. So remotes with many refs, and slow
	// ones, are asked less often, and a listing is under way for a tenth of the time at most.
	listLeast = time.Second
	listShare = 10
)

// Listings limits how many stores are listed at a time, because the listings of slow remotes
// must not take the slots of the questions that Mounts wait for.
var Listings = work.Limits{Slots: 16, PerSubject: 8, Overdue: 32, Quantum: 5 * time.Second}

// lister is the owner of the work.
var lister = work.Owner{Name: "the branches and tags that a mount did not wait for"}

// others is what is known of the branches and tags of a store that its volumes do not name.
type others struct {
	fetching bool // they are fetched, with the lock held
	tried    try  // the last fetch of them
	refused  try  // the last tags that a Mount waited for in vain

	wanted  *want     // by the last Mount, unless it is being done
	running bool      // FetchOthers has a goroutine
	next    time.Time // the next listing begins then at the earliest
	failed  bool      // the last listing has failed
	many    bool      // there were too many, and the log says so
}

// want is a Mount that wants what its question did not bring.
type want struct {
	s Source
	a Answer
}

// try says with which result a store was fetched for a listing. The zero value means never.
type try struct {
	sums     sums
	snapshot string // of the store afterwards
	at       time.Time
}

// again reports whether it would be the same for an answer now.
func (t try) again(a Answer, store meta.Store, now time.Time) bool {
	age := now.Sub(t.at)
	return len(t.sums) > 0 && a.sums.in(t.sums) && t.snapshot == store.Snapshot && age >= 0 && age < alignAgain
}

// othersOf returns a copy of what is known.
func (m *Remote) othersOf(h volume.History) others {
	var copied others
	m.withOthers(h, func(o *others) { copied = *o })
	return copied
}

// withOthers calls f, which must be quick.
func (m *Remote) withOthers(h volume.History, f func(o *others)) {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	o, ok := m.others[h.Name()]
	if !ok {
		o = &others{}
		if m.others == nil {
			m.others = make(map[string]*others)
		}
		m.others[h.Name()] = o
	}
	f(o)
}

// refuse notes that the store lacks tags which a Mount waited for.
func (m *Remote) refuse(h volume.History, a Answer) {
	store, _ := m.Store(h)
	m.withOthers(h, func(o *others) { o.refused = try{a.sums, store.Snapshot, m.config.Now()} })
}

// FetchOthers fetches, in the background, the branches and tags that align did not bring, for
// the next mount. It lists them before, unless the answer does. A call during a listing
// begins another one afterwards, which all calls until then share.
func (m *Remote) FetchOthers(ctx context.Context, s Source, a Answer) {
	release, err := m.config.Used.Use(ctx)
	if err != nil {
		return
	}
	began := false
	m.withOthers(s.History, func(o *others) {
		began = !o.running
		o.running, o.wanted = true, &want{s, a}
	})
	if !began {
		release()
		return
	}
	m.config.Used.Group.Go(origin.Bind(ctx, func(ctx context.Context) {
		defer func() { release() }()
		ctx = work.WithOwner(ctx, lister)
		for {
			wait, ok := m.untilNext(s.History)
			if !ok {
				return
			}
			if wait > 0 {
				release() // so that the clone can be evicted
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
				if release, err = m.config.Used.Use(ctx); err != nil {
					release = func() {}
				}
			}
			var w *want
			m.withOthers(s.History, func(o *others) { w, o.wanted = o.wanted, nil })
			if err == nil {
				m.bringOthers(ctx, w.s, w.a)
			}
		}
	}))
}

// WantsOthers reports whether FetchOthers has something left to do for a store, now or when the time for another listing
// has come. A Mount while it fetches shows the refs of before.
func (m *Remote) WantsOthers(h volume.History) bool { return m.othersOf(h).running }

// untilNext returns how long to wait before what a Mount wants is done. If none wants
// anything, it ends the goroutine.
func (m *Remote) untilNext(h volume.History) (wait time.Duration, ok bool) {
	m.withOthers(h, func(o *others) {
		if ok = o.wanted != nil; !ok {
			o.running = false
		} else if !o.wanted.a.sums.all() {
			wait = m.untilListed(*o)
		}
	})
	return wait, ok
}

// untilListed returns how long to wait before a listing. A wait that is too long, because the
// clock was wrong, counts as over.
func (m *Remote) untilListed(o others) time.Duration {
	wait := o.next.Sub(m.config.Now())
	if wait > listShare*m.config.AskTimeout+listLeast {
		return 0
	}
	return wait
}

// FetchOthersNow is FetchOthers for a caller that waits. It reports whether it has fetched
// them. It does not list them if that was done just now.
func (m *Remote) FetchOthersNow(ctx context.Context, s Source, a Answer) bool {
	if !a.sums.all() && m.untilListed(m.othersOf(s.History)) > 0 {
		return false
	}
	return m.bringOthers(ctx, s, a)
}

// bringOthers lists the branches and tags, unless the answer does, and fetches them if the
// store has others. It reports whether it has fetched them.
func (m *Remote) bringOthers(ctx context.Context, s Source, a Answer) (fetched bool) {
	store, ok := m.Store(s.History)
	if !ok || m.tooMany(ctx, s, store.Sums) {
		return false
	}
	if !a.sums.all() {
		all, err := m.list(ctx, s, a)
		m.noteListed(ctx, s, err)
		if err != nil {
			return false
		}
		// Without a listing, git asks again when it fetches: answers that came meanwhile may
		// be newer.
		a.sums, a.listed = all, listing{}
	}
	if m.tooMany(ctx, s, a.sums) {
		return false
	}
	mine := false
	m.withOthers(s.History, func(o *others) {
		store, ok = m.Store(s.History)
		mine = ok && !o.fetching && !a.sums.in(store.Sums) &&
			!o.tried.again(a, store, m.config.Now())
		o.fetching = o.fetching || mine
	})
	return mine && m.fetchOthers(ctx, s, a)
}

// tooMany reports whether there are more branches and tags than are listed in the background. It logs that once for a
// store.
func (m *Remote) tooMany(ctx context.Context, s Source, all sums) bool {
	n, most := all.count(), m.config.Git.SizeFactor().Of(maxOthers)
	if n <= most {
		return false
	}
	told := false
	m.withOthers(s.History, func(o *others) { told, o.many = o.many, true })
	if !told {
		m.config.Log.WithContext(ctx).WithField("repo", s.URL.String()).Warnf(
			"%d branches and tags, more than %d %s: those that a mount does not name are as of the last fetch", n, most, git.SizeSetting)
	}
	return true
}

// list asks the remote for the sums of all branches and tags.
func (m *Remote) list(ctx context.Context, s Source, a Answer) (sums, error) {
	key := fmt.Sprint("list\x00", s.History.Name(), "\x00", a.number)
	return work.ShareTask(ctx, m.config.Used, key, func(ctx context.Context) (sums, error) {
		slot, err := m.config.Listings.Acquire(ctx, work.Question, false)
		if err != nil {
			return nil, err
		}
		defer slot.Release()
		asking, cancel := context.WithTimeoutCause(ctx, m.config.AskTimeout, noAnswerError(m.config.AskTimeout))
		defer cancel()
		began := time.Now()
		refs, err := m.config.Git.LsRefs(asking, m.at(s), branches, tags)
		m.withOthers(s.History, func(o *others) {
			o.next = m.config.Now().Add(max(listShare*min(time.Since(began), m.config.AskTimeout), listLeast))
		})
		return refs.Sums, err
	})
}

// noteListed logs the result of a listing. Of failures in a row only the first is a warning.
func (m *Remote) noteListed(ctx context.Context, s Source, err error) {
	level := logrus.WarnLevel
	m.withOthers(s.History, func(o *others) {
		if o.failed {
			level = logrus.DebugLevel
		}
		o.failed = err != nil
	})
	if err != nil && ctx.Err() == nil {
		m.config.Log.WithContext(ctx).WithError(err).
			Log(level, "list the other branches and tags: they are those of the last fetch")
	}
}

// fetchOthers fetches, logs an error, and notes the result.
func (m *Remote) fetchOthers(ctx context.Context, s Source, a Answer) bool {
	_, err := m.fetch(ctx, s, a, "")
	m.withOthers(s.History, func(o *others) {
		store, _ := m.Store(s.History)
		o.fetching, o.tried = false, try{a.sums, store.Snapshot, m.config.Now()}
	})
	if err != nil && ctx.Err() == nil {
		m.config.Log.WithContext(ctx).WithError(err).Warn("fetch the other branches and tags")
	}
	return err == nil
}
