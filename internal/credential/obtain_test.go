package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/work"
)

// provider answers each question with another secret, or with fail.
type provider struct {
	life  time.Duration
	now   func() time.Time
	block chan struct{} // if not nil, an answer waits until it is closed

	mu    sync.Mutex
	asked []Question
	fail  error
}

func (p *provider) Ask(ctx context.Context, q Question) (Answer, error) {
	p.mu.Lock()
	p.asked = append(p.asked, q)
	n, fail := len(p.asked), p.fail
	p.mu.Unlock()
	if p.block != nil {
		select {
		case <-p.block:
		case <-ctx.Done():
			return Answer{}, context.Cause(ctx)
		}
	}
	return Answer{User: "robot", Secret: NewSecret(fmt.Sprint(hidden, n)), Expires: p.now().Round(0).Add(p.life)}, fail
}

func (p *provider) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked)
}

// jumping is a clock that can be set.
type jumping struct {
	mu sync.Mutex
	by time.Duration
}

func (j *jumping) now() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Now().Add(j.by).Round(0)
}

func (j *jumping) jump(by time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.by += by
}

// renewing returns a Store whose provider gives secrets for an hour.
func renewing(t *testing.T) (*Store, *provider, *jumping) {
	t.Helper()
	j := new(jumping)
	p := &provider{life: time.Hour, now: j.now}
	g := work.NewGroup()
	t.Cleanup(g.Close)
	s, err := Open(t.TempDir(), Config{
		Providers: map[Kind]Provider{HTTPProvider: p, GitHubApp: p}, Work: g, Now: j.now, Report: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, p, j
}

func broker(name string) Credential {
	return Credential{Name: name, Kind: HTTPProvider, Scope: "https://h", URL: "https://broker/x", Secret: NewSecret(hidden)}
}

func request(t *testing.T, url string) Request {
	t.Helper()
	return Request{URL: parse(t, url), Subject: "a", Access: Fetch}
}

func obtain(t *testing.T, s *Store, r Request) Match {
	t.Helper()
	m, err := s.Obtain(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestObtain checks for what one secret is held: one repository, subject and access, and
// for an app all subjects.
func TestObtain(t *testing.T) {
	t.Parallel()
	s, p, _ := renewing(t)
	b := broker("b")
	b.Allow = Push
	put(t, s, b, Credential{
		Name: "app", Kind: GitHubApp, Scope: "https://github.com", AppID: "1", Allow: Push, Secret: NewSecret(appKey(t, 2048)),
	})
	for _, tt := range []struct {
		change func(r *Request)
		url    string
		asked  int // questions in all
	}{
		{nil, "https://h/o/r", 1},
		{nil, "https://h/o/r", 1},
		{nil, "https://h/o/r.git", 1},
		{nil, "https://H:443/o/r.git/info/lfs", 1},
		{nil, "https://h/o/other", 2},
		{func(r *Request) { r.Subject = "b" }, "https://h/o/r", 3},
		{func(r *Request) { r.Access = Push }, "https://h/o/r", 4},
		{nil, "https://github.com/o/r", 5},
		{func(r *Request) { r.Subject = "b" }, "https://github.com/o/r", 5},
		{func(r *Request) { r.Access = Push }, "https://github.com/o/r", 6},
		{nil, "https://h/o/r", 6},
		{nil, "https://public/o/r", 6},
	} {
		r := request(t, tt.url)
		if tt.change != nil {
			tt.change(&r)
		}
		before := p.count()
		m := obtain(t, s, r)
		if got := p.count(); got != tt.asked {
			t.Errorf("%s for %q, %s: %d questions, want %d", tt.url, r.Subject, r.Access, got, tt.asked)
		}
		if m.Name == "" {
			continue
		}
		if m.Kind != HTTPS || m.User != "robot" || m.Expires.IsZero() || m.Owner == "" || m.Held != (before == tt.asked) {
			t.Errorf("%s: got %+v", tt.url, m)
		}
	}
	last := p.asked[0]
	if last.Repository != "https://h/o/r" || last.Subject != "a" || last.Access != Fetch || last.Provider != "https://broker/x" || last.Secret.Reveal() != hidden {
		t.Errorf("the provider got %+v", last)
	}
	if got := p.asked[4]; got.Provider != "https://api.github.com" || got.Subject != "" {
		t.Errorf("the app's provider got %+v", got)
	}
	// Without a provider's answer there is no secret to send.
	if m, err := s.Match(parse(t, "https://h/o/r"), "a", "", Fetch); err != nil || m.Secret.Reveal() != "" || m.Name != "b" || m.Repository != "https://h/o/r" {
		t.Errorf("got %+v, %v", m, err)
	}
}

// TestOneRequest checks that callers at the same time share a request, which outlives them.
func TestOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := renewing(t)
		put(t, s, broker("b"))
		p.block = make(chan struct{})
		r := request(t, "https://h/o/r")
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if m, err := s.Obtain(t.Context(), r); err != nil || m.Secret.Reveal() != hidden+"1" || m.Held {
					t.Errorf("got %+v, %v", m, err)
				}
			})
		}
		ctx, giveUp := context.WithCancelCause(t.Context())
		hungUp := errors.New("hung up")
		all.Go(func() {
			if _, err := s.Obtain(ctx, r); err != hungUp {
				t.Errorf("the caller that gave up got %v", err)
			}
		})
		synctest.Wait()
		giveUp(hungUp)
		synctest.Wait()
		close(p.block)
		all.Wait()
		if got := p.count(); got != 1 {
			t.Errorf("%d questions, want 1", got)
		}
	})
}

// TestRenewal checks when another secret is asked for.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, j := renewing(t)
		put(t, s, broker("b"))
		r := request(t, "https://h/o/r")
		want := func(when string, n int) {
			t.Helper()
			if m := obtain(t, s, r); m.Secret.Reveal() != fmt.Sprint(hidden, n) || p.count() != n {
				t.Errorf("%s: got %q after %d questions, want %d", when, m.Secret.Reveal(), p.count(), n)
			}
		}
		want("at first", 1)
		time.Sleep(54 * time.Minute)
		want("six minutes before its end", 1)
		time.Sleep(time.Minute)
		want("five minutes before its end", 2)
		p.life = 2 * time.Minute
		time.Sleep(time.Hour)
		want("one that lives shortly", 3)
		time.Sleep(50 * time.Second)
		want("in the first half of its life", 3)
		time.Sleep(10 * time.Second)
		want("in the second half of its life", 4)
		p.life = time.Hour
		j.jump(10 * time.Hour)
		want("after the clock jumped forward", 5)
		j.jump(-10 * time.Hour)
		want("after the clock jumped back", 5)
		time.Sleep(56 * time.Minute)
		want("an hour later, by a clock that went back", 6)
	})
}

// TestRefused checks that a secret that the remote refused is replaced once, whoever asks.
func TestRefused(t *testing.T) {
	t.Parallel()
	s, p, _ := renewing(t)
	put(t, s, broker("b"), token("static"))
	r := request(t, "https://h/o/r")
	first := obtain(t, s, r)
	r.Refused = first.Secret
	second := obtain(t, s, r)
	if second.Held || second.Secret.Reveal() == first.Secret.Reveal() {
		t.Errorf("got %+v", second)
	}
	third := obtain(t, s, r) // of another caller that had the first one
	if !third.Held || third.Secret.Reveal() != second.Secret.Reveal() || p.count() != 2 {
		t.Errorf("got %+v after %d questions", third, p.count())
	}
	if second.Owner != first.Owner {
		t.Errorf("the holders are %q and %q, want one", first.Owner, second.Owner)
	}
	r.URL = parse(t, "https://h/static/r")
	if m := obtain(t, s, r); m.Secret.Reveal() != hidden || m.Held || m.Owner != "" {
		t.Errorf("a static one: %+v", m)
	}
}

// TestFailures checks that a failure is held for some seconds, for the same repository, subject and
// access, and shown until the provider gives a secret.
func TestFailures(t *testing.T) { synctest.Test(t, testFailures) }

func testFailures(t *testing.T) {
	s, p, _ := renewing(t)
	put(t, s, broker("b"))
	fail := errors.New("the provider of b is out")
	p.fail = fail
	for i := range 3 {
		for range 3 {
			if _, err := s.Obtain(t.Context(), request(t, "https://h/o/r")); !errors.Is(err, fail) {
				t.Errorf("got %v", err)
			}
		}
		if p.count() != i+1 {
			t.Errorf("after %d pauses: %d questions", i, p.count())
		}
		if i < 2 {
			time.Sleep(failedPause)
		}
	}
	p.fail = nil
	obtain(t, s, request(t, "https://h/o/another"))
	p.fail = fail
	if _, err := s.Obtain(t.Context(), request(t, "https://h/o/third")); !errors.Is(err, fail) {
		t.Errorf("got %v", err)
	}
	put(t, s, broker("b")) // which may have mended it
	if _, err := s.Obtain(t.Context(), request(t, "https://h/o/r")); !errors.Is(err, fail) || p.count() != 6 {
		t.Errorf("after Put: %v after %d questions", err, p.count())
	}
	if got := s.List()[0]; got.Failed != fail.Error() || !got.Expires.IsZero() {
		t.Errorf("got %+v after %d questions", got, p.count())
	}
	p.fail = nil
	time.Sleep(failedPause)
	m := obtain(t, s, request(t, "https://h/o/r"))
	if got := s.List()[0]; got.Failed != "" || !got.Expires.Equal(m.Expires) || got.Provider != "https://broker/x" {
		t.Errorf("got %+v", got)
	}
	p.life = -time.Minute
	_, err := s.Obtain(t.Context(), request(t, "https://h/o/other"))
	if err == nil || !strings.Contains(err.Error(), `the provider of the credential "b"`) || !strings.Contains(err.Error(), "is in the past") {
		t.Errorf("got %v", err)
	}
	shows(t, "error", err.Error())
	shows(t, "list", fmt.Sprintf("%+v", s.List()))

	plain := open(t, t.TempDir())
	put(t, plain, broker("b"))
	if _, err := plain.Obtain(t.Context(), request(t, "https://h/o/r")); err == nil || !strings.Contains(err.Error(), "no provider for the kind http") {
		t.Errorf("got %v", err)
	}
}

// TestRemovalDropsSecrets checks that nothing is left of a credential that was removed or
// replaced, also if its provider answers only then.
func TestRemovalDropsSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := renewing(t)
		put(t, s, broker("b"))
		r := request(t, "https://h/o/r")
		obtain(t, s, r)
		put(t, s, broker("b"))
		if len(s.tokens.held) > 0 || len(s.tokens.asked) > 0 {
			t.Errorf("after Put: %v, %v", s.tokens.held, s.tokens.asked)
		}
		if m := obtain(t, s, r); m.Held || p.count() != 2 {
			t.Errorf("got %+v", m)
		}
		p.block = make(chan struct{})
		r.Subject = "late"
		done := make(chan Match)
		go func() {
			m, err := s.Obtain(t.Context(), r)
			if err != nil {
				t.Error(err)
			}
			done <- m
		}()
		synctest.Wait()
		if err := s.Remove("b"); err != nil {
			t.Fatal(err)
		}
		close(p.block)
		if m := <-done; m.Name != "" || m.Secret.Reveal() != "" {
			t.Errorf("the secret of a removed credential: %+v", m)
		}
		synctest.Wait()
		if len(s.tokens.held) > 0 || len(s.tokens.asked) > 0 {
			t.Errorf("after Remove: %v, %v", s.tokens.held, s.tokens.asked)
		}
	})
}

// TestHeldIsBounded checks that many repositories do not fill the memory.
func TestHeldIsBounded(t *testing.T) {
	now := time.Now()
	all := newTokens()
	wanted := func() bool { return true }
	for i := range maxTokens + 10 {
		expires := now.Add(time.Hour + time.Duration(i)*time.Second)
		all.put(tokenKey{repository: fmt.Sprint(i)}, renewed{Answer: Answer{Expires: expires}, at: now, came: now}, wanted)
	}
	if _, ok := all.get(tokenKey{repository: "9"}, now, NewSecret("x")); ok || len(all.held) != maxTokens {
		t.Errorf("%d are held, and the one that ends first: %v", len(all.held), ok)
	}
	if _, ok := all.get(tokenKey{repository: fmt.Sprint(maxTokens)}, now, NewSecret("x")); !ok {
		t.Error("a new one is not held")
	}
}
