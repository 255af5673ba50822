package remote

import (
	"context"
	"maps"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/volume"
)

// Since says which answers are too old for a volume, and which of the others serve requests that came after their
// questions began. All that a push ended before the volume was created is in the answers to later questions.
type Since struct {
	// Asked is what Remote.Asked returned when the volume was created: answers to questions up to that number are
	// too old. Zero allows each.
	Asked int64
	// At is when the volume was created, by Config.Now. For is how long from then on an answer serves each request, also
	// one that came later; zero: not at all.
	At  time.Time
	For time.Duration
}

// said is what the remote has said about a ref at some time.
type said struct {
	// recorded is the resolution of a record, whose question is not known; nil for an answer.
	recorded *meta.Resolution

	number    int64     // of the question, counted from 1
	changes   int64     // Config.CredentialChanges when the question began
	began     time.Time // when the question began, by the machine's clock
	at        time.Time // when the answer came, by Config.Now
	cold      bool      // it was asked for the cold store, and lists no other refs
	overtaken bool      // the store has the answer to a newer question, and that is another one
}

// request is what somebody wants to know about a ref.
type request struct {
	Since
	commit  bool // the ref is a full or abbreviated commit ID
	refresh volume.Refresh
	changes int64     // Config.CredentialChanges when the request was made
	now     time.Time // by Config.Now
	came    time.Time // by the machine's clock
	// down is set if the remote does not answer now, and stale is how old a record may be then.
	down  bool
	stale time.Duration
}

// servedBy reports whether an answer, or a record, may serve a request without another question. Nothing else decides
// what is new enough.
//
//   - An answer from before the volume was created never serves it, nor does one from before a change of credentials, or
//     one that the store knows to be old.
//   - An answer serves each request that came before its question began: a push that ended before the request came is
//     in it. So Mounts that come during a question wait for its end and share the next one, however late they are to ask.
//   - With For, the answer to Create serves the volume for a while, and so does each later answer.
//   - A record serves as refresh says, even one from before the volume was created, or before a change of credentials.
//     That of a repository without a commit does not, because whoever makes the first commit wants to see it.
//   - If the clock was set back, ages are unknown, and nothing serves for the sake of its age.
func (r request) servedBy(a said) bool {
	switch rec := a.recorded; {
	case rec != nil && r.down:
		return r.stale > 0 && r.now.Sub(rec.At) <= r.stale
	case rec != nil && (r.refresh.Never || rec.Ref == "" && r.commit): // a commit does not move
		return true
	case rec != nil:
		return rec.Commit != "" && within(rec.At, r.now, r.refresh.Interval)
	case a.number <= r.Asked || a.changes < r.changes || a.overtaken:
		return false
	case !a.began.Before(r.came):
		return true
	}
	return within(r.At, r.now, r.For) && within(r.At, a.at, r.For) && a.at.Round(0).Compare(r.now.Round(0)) <= 0
}

// within reports whether now is in the time that begins at from. Round drops the monotonic clock, which stands still
// while the machine sleeps.
func within(from, now time.Time, most time.Duration) bool {
	age := now.Round(0).Sub(from.Round(0))
	return age >= 0 && age < most
}

// request returns the request of ctx for s. Work of the plugin itself, and in the background, comes now.
func (m *Remote) request(ctx context.Context, s Source) request {
	came := origin.Of(ctx).Began
	if came.IsZero() {
		came = time.Now()
	}
	return request{
		Since: s.Since, commit: s.Ref.Kind() == volume.RefSHA || s.Ref.MaybeAbbrev(), refresh: s.Refresh,
		changes: m.credentialChanges(), now: m.config.Now(), came: came, stale: s.StaleIfError,
	}
}

func (m *Remote) credentialChanges() int64 {
	if m.config.CredentialChanges == nil {
		return 0
	}
	return m.config.CredentialChanges()
}

// storedAnswer is a question with the sums of its answer, which are empty if it has none.
type storedAnswer struct {
	number int64
	sums   sums
}

// noteStored notes that the store has the answer to a question.
func (m *Remote) noteStored(h volume.History, number int64, s sums) {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	if number >= m.newestStored[h.Name()].number {
		if m.newestStored == nil {
			m.newestStored = make(map[string]storedAnswer)
		}
		m.newestStored[h.Name()] = storedAnswer{number, s}
	}
}

// overtaken reports whether the store has the answer to a newer question, and that answer is another one.
func (m *Remote) overtaken(h volume.History, a Answer) bool {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	newest := m.newestStored[h.Name()]
	return newest.number > a.number && (len(newest.sums) == 0 || !maps.Equal(newest.sums, a.sums))
}

// isNewestStored reports whether the newest answer that the store has, as far as it has the objects, is this one.
func (m *Remote) isNewestStored(h volume.History, a Answer) bool {
	m.aligning.Lock()
	defer m.aligning.Unlock()
	return m.newestStored[h.Name()].number == a.number
}
