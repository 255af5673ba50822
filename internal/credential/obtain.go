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
	// it is forgotten, and another one asked for.
	Refused Secret
}

// Obtain returns what Match does, with a secret that a remote takes: for a kind that renews,
// one that is held, or one that it asks the provider for. Callers that want the same secret
// at the same time share the request, which continues when they give up.
//
// The error of a provider names the credential and contains no secret. If ctx ends, it is
// the cause of that.
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
		if s.isCurrent(e) {
			m.Kind, m.User, m.Secret, m.Expires, m.Held = t.kind(), t.User, t.Secret, t.Expires, held
			return m, nil
		}
		// The credential was replaced or removed meanwhile.
	}
}

// ask asks the provider of e for a secret, once for all callers, and holds it.
func (s *Store) ask(ctx context.Context, e *entry, k tokenKey) (renewed, error) {
	p := s.config.Providers[e.Kind]
	if p == nil {
		return renewed{}, fmt.Errorf("credential %q can't be used: there is no provider for the kind %s", e.Name, e.Kind)
	}
	return work.Share(ctx, s.config.Work, fmt.Sprintf("credential %d %s %s %q", k.serial, k.access, k.repository, k.subject), s.config.Report, func(ctx context.Context) (renewed, error) {
		// Another caller may just have got it.
		if t, ok := s.tokens.get(k, s.config.Now(), Secret{}); ok {
			return t, nil
		}
		a, err := p.Ask(ctx, Question{e.Credential, e.info.Provider, k.repository, k.subject, k.access})
		// Without the monotonic reading, which a jump of the clock does not move.
		now := s.config.Now().Round(0)
		if err == nil {
			if err = a.check(now); err != nil {
				err = fmt.Errorf("the provider of the credential %q, %s, answered with a secret that can't be used: %w", e.Name, e.info.Provider, err)
			}
		}
		t := renewed{a, now, time.Now()}
		if ctx.Err() == nil { // else the failure says nothing about the provider
			s.tokens.put(k, t, err, func() bool { return s.isCurrent(e) })
		}
		return t, err
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

// renewed is a secret that a provider gave.
type renewed struct {
	Answer
	at   time.Time // when it came, by the clock of the Store
	came time.Time // and by the monotonic clock
}

// renewBefore is how long before its end a secret is no longer used, so that a fetch does
// not outlive it. For a short life it is the half of that.
const renewBefore = 5 * time.Minute

// isFresh reports whether t may be used. The monotonic clock ends it too, because the
// machine's clock may be set back; but only the latter counts while the machine sleeps.
func (t renewed) isFresh(now time.Time) bool {
	life := t.Expires.Sub(t.at)
	left := life - min(renewBefore, life/2)
	return now.Sub(t.at) < left && time.Since(t.came) < left
}

// maxTokens bounds the secrets that are held.
const maxTokens = 4096

// tokens are the secrets that providers gave, in memory alone. It is safe for concurrent use.
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

// get returns the secret that is held for a key, unless it is about to end, or refused.
func (t *tokens) get(k tokenKey, now time.Time, refused Secret) (renewed, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found, ok := t.held[k]
	if ok && (!found.isFresh(now) || found.Secret.Reveal() == refused.Reveal()) {
		delete(t.held, k)
		return renewed{}, false
	}
	return found, ok
}

// put notes how a request ended, and holds its secret, if the credential is still wanted.
func (t *tokens) put(k tokenKey, got renewed, err error, wanted func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !wanted() { // asked under mu, so that forget comes after it
		return
	}
	if err != nil {
		t.asked[k.serial] = asked{t.asked[k.serial].expires, err.Error()}
		return
	}
	t.asked[k.serial] = asked{expires: got.Expires}
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
