package credential

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestRefusedAgain checks that a secret that was asked for in place of a refused one is not
// replaced within a minute, whoever says that it was refused, nor those of many at the same time.
func TestRefusedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, _ := renewing(t)
		put(t, s, broker("b"))
		r := request(t, "https://h/o/r")
		refuse := func() (m Match) {
			t.Helper()
			r.Refused = obtain(t, s, request(t, "https://h/o/r")).Secret
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if _, err := s.Obtain(t.Context(), r); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			return obtain(t, s, r)
		}
		for minute := range 3 {
			for range 5 {
				if m := refuse(); m.Secret.Reveal() != fmt.Sprint(hidden, minute+2) || p.count() != minute+2 {
					t.Errorf("minute %d: got %q after %d questions", minute, m.Secret.Reveal(), p.count())
				}
			}
			time.Sleep(renewPause)
		}
		// Another repository's secret is another one.
		r = request(t, "https://h/o/other")
		r.Refused = obtain(t, s, r).Secret
		if m := obtain(t, s, r); m.Secret.Reveal() == r.Refused.Reveal() {
			t.Error("the refused secret of another repository is not replaced")
		}
	})
}

// TestRefusedByTwo checks that the secret which comes in place of a refused one counts as its
// replacement, also if a caller asks for it that has not heard of the refusal.
func TestRefusedByTwo(t *testing.T) {
	held, k, now := newTokens(), tokenKey{serial: 1}, time.Now()
	first := renewed{Answer: Answer{Secret: NewSecret("first"), Expires: now.Add(time.Hour)}, at: now, came: now}
	held.put(k, first, func() bool { return true })
	for _, refused := range []Secret{first.Secret, {}} {
		if got, ok := held.get(k, now, refused); ok || !got.replaces {
			t.Errorf("got %+v, %v", got, ok)
		}
	}
}
