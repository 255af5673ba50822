package credential

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
)

// Request says for what a secret is obtained.
type Request struct {
	URL     volume.URL
	Subject volume.Subject
	Name    string // of the credential; empty: the one that fits best
	Access  Access
	// Refused is a renewed secret that the remote has refused. If it is the one that is held,
	// another one is asked for in its place, but not within a minute after that was done last:
	// then the answer is the same secret again.
	Refused Secret
}

// Obtain returns what Match does, with a secret that a remote takes: for a kind that renews,
// one that is held, or one that it asks the provider for. Callers that want the same secret
// at the same time share the request, which continues when they give up.
//
// The error of a provider names the credential and contains no secret. It is held for some
// seconds too, so that a provider that fails is asked once for a volume's Create and its Mount,
// and not as fast as a container asks for its secret. If ctx ends, the error is the cause of
// that.
func (s *Store) Obtain(ctx context.Context, r Request) (Match, error) {
	for {
		m, e, err := s.match(r.URL, r.Subject, r.Name, r.Access)
		if err != nil || e == nil || !e.Kind.Renews() {
			return m, err
		}
		k := e.key(r.URL, r.Subject, r.Access)
		t, held := s.tokens.get(k, s.config.Now(), r.Refused)
		if !held {
			if t, err = s.ask(ctx, e, k); err != nil {
				return Match{}, err
			}
		}
		if t.failed != nil {
			return Match{}, t.failed
		}
		if s.isCurrent(e) {
			m.Kind, m.User, m.Secret, m.Expires, m.Held = t.kind(), t.User, t.Secret, t.Expires, held
			return m, nil
		}
		// The credential was replaced or removed meanwhile.
	}
}

// ask asks the provider of e for a secret, once for all callers, and holds how that ended. The
// error is about ctx or the Store alone.
func (s *Store) ask(ctx context.Context, e *entry, k tokenKey) (renewed, error) {
	p := s.config.Providers[e.Kind]
	if p == nil {
		return renewed{}, fmt.Errorf("credential %q can't be used: there is no provider for the kind %s", e.Name, e.Kind)
	}
	return work.Share(ctx, s.config.Work, fmt.Sprintf("credential %d %s %s %q", k.serial, k.access, k.repository, k.subject), s.config.Report, func(ctx context.Context) (renewed, error) {
		last, ok := s.tokens.get(k, s.config.Now(), Secret{})
		if ok { // another caller just got it
			return last, nil
		}
		a, err := p.Ask(ctx, Question{e.Credential, e.info.Provider, k.repository, k.subject, k.access})
		// Without the monotonic reading, which a jump of the clock does not move.
		now := s.config.Now().Round(0)
		if err == nil {
			if err = a.check(now); err != nil {
				err = fmt.Errorf("the provider of the credential %q, %s, answered with a secret that can't be used: %w", e.Name, e.info.Provider, err)
			}
		}
		if err != nil && ctx.Err() != nil { // the failure says nothing about the provider
			return renewed{}, err
		}
		t := renewed{Answer: a, failed: err, at: now, came: time.Now(), replaces: last.replaces}
		s.tokens.put(k, t, func() bool { return s.isCurrent(e) })
		return t, nil
	})
}

// isCurrent reports whether e was neither replaced nor removed.
func (s *Store) isCurrent(e *entry) bool {
	now := (*s.entries.Load())[e.Name]
	return now != nil && now.serial == e.serial
}

// tokenKey says what a renewed secret is for.
type tokenKey struct {
	serial     int64
	repository string
	subject    volume.Subject // empty for an app's, which are the same for all subjects
	access     Access
}

func (e *entry) key(u volume.URL, subject volume.Subject, access Access) tokenKey {
	k := tokenKey{e.serial, repositoryOf(u), subject, access}
	if e.Kind == GitHubApp {
		k.subject = ""
	}
	return k
}

// renewed is a secret that a provider gave, or why it gave none.
type renewed struct {
	Answer
	failed   error
	at       time.Time // when it came, by the clock of the Store
	came     time.Time // and by the monotonic clock
	replaces bool      // it was asked for because a remote had refused another one
	refused  bool      // it is not used any more: another one is asked for in its place
}

const (
	// failedPause is how long a provider that failed is not asked again for the same: from the
	// question of a Create to that of the Mount which follows.
	failedPause = 5 * time.Second
	// renewPause is the time between two secrets that are replaced because a remote has refused
	// them, or a container says so, so that neither can make a provider issue one after the other.
	renewPause = time.Minute
)

// renewBefore is how long before its end a secret is no longer used, so that a fetch does
// not outlive it. For a short life it is the half of that.
const renewBefore = 5 * time.Minute

// isFresh reports whether t may be used. The monotonic clock ends it too, because the
// machine's clock may be set back; but only the latter counts while the machine sleeps.
func (t renewed) isFresh(now time.Time) bool {
	if t.failed != nil {
		return time.Since(t.came) < failedPause
	}
	life := t.Expires.Sub(t.at)
	left := life - min(renewBefore, life/2)
	return now.Sub(t.at) < left && time.Since(t.came) < left
}

// isReplaced reports whether another secret is asked for in place of t, because a remote has
// refused it.
func (t renewed) isReplaced(refused Secret) bool {
	return t.failed == nil && t.Secret.Reveal() == refused.Reveal() && !(t.replaces && time.Since(t.came) < renewPause)
}

// maxTokens bounds the secrets and the failures that are held.
const maxTokens = 4096

// tokens are the secrets that providers gave, and their failures, in memory alone. It is safe for concurrent use.
type tokens struct {
	mu    sync.Mutex // never held over I/O
	held  map[tokenKey]renewed
	asked map[int64]asked // by the serial of the credential
}

// asked is how the last request for a secret of a credential ended.
type asked struct {
	expires time.Time
	failed  string
}

func newTokens() tokens {
	return tokens{held: make(map[tokenKey]renewed), asked: make(map[int64]asked)}
}

// get returns what is held for a key, unless it is about to end, or to be replaced because it was
// refused: then it returns false, and whether the next one replaces it.
func (t *tokens) get(k tokenKey, now time.Time, refused Secret) (renewed, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.held[k]
	switch {
	case !ok:
		return renewed{}, false
	case !found.isFresh(now):
		delete(t.held, k)
		return renewed{}, false
	case found.refused || found.isReplaced(refused):
		// It stays, so that the next one replaces it, whichever caller asks for that.
		found.refused = true
		t.held[k] = found
		return renewed{replaces: true}, false
	}
	return found, true
}

// put holds how a request ended, if the credential is still wanted.
func (t *tokens) put(k tokenKey, got renewed, wanted func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !wanted() { // asked under mu, so that forget comes after it
		return
	}
	ended := asked{expires: got.Expires}
	if got.failed != nil {
		ended = asked{t.asked[k.serial].expires, got.failed.Error()}
	}
	t.asked[k.serial] = ended
	if len(t.held) >= maxTokens {
		t.dropLocked(got.at)
	}
	t.held[k] = got
}

// dropLocked makes room for a secret: without those that ended, or else without the one
// that ends first.
func (t *tokens) dropLocked(now time.Time) {
	var first tokenKey
	var ends time.Time
	for k, held := range t.held {
		if !held.isFresh(now) {
			delete(t.held, k)
		} else if ends.IsZero() || held.Expires.Before(ends) {
			first, ends = k, held.Expires
		}
	}
	if len(t.held) >= maxTokens {
		delete(t.held, first)
	}
}

// forget drops what is held for a credential.
func (t *tokens) forget(serial int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.held {
		if k.serial == serial {
			delete(t.held, k)
		}
	}
	delete(t.asked, serial)
}

// state returns when the last secret of a credential ends, zero if it has ended, and why the
// last request failed.
func (t *tokens) state(serial int64, now time.Time) (expires time.Time, failed string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.asked[serial]
	if !a.expires.After(now) {
		a.expires = time.Time{}
	}
	return a.expires, a.failed
}
