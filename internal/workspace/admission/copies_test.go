package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/work"
)

// TestCopies: a subject has two turns and waits for more of them itself. Others wait only while two subjects have turns, for a
// second, and not longer than their request.
func TestCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, turns := NewCopies(), turns[work.Fetch]
		begun := time.Now()
		turn := func(ctx context.Context, subject string) (end func(), waited time.Duration) {
			turn, err := c.Turn(ctx, subject)
			if err != nil {
				t.Fatal(err)
			}
			return turn.End, time.Since(begun)
		}
		hungUp := errors.New("hung up")
		impatient, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, hungUp)
		defer cancel()
		var ends []func()
		for range turns.PerSubject {
			for n := range turns.Slots / turns.PerSubject {
				end, waited := turn(t.Context(), fmt.Sprint("hostile", n))
				if ends = append(ends, end); waited > 0 {
					t.Errorf("a turn that was free took %v", waited)
				}
			}
		}
		end, waited := turn(t.Context(), "victim")
		if waited != turns.Quantum {
			t.Errorf("another subject waited %v, want %v", waited, turns.Quantum)
		}
		if _, err := c.Turn(impatient, "hostile0"); err != hungUp {
			t.Errorf("a third turn of a subject: %v, want %v", err, hungUp)
		}
		ends[0]()
		ends[0], _ = turn(t.Context(), "hostile0")
		for _, end := range append(ends, end) {
			end()
		}
		if n, _ := c.Busy(); n > 0 {
			t.Errorf("%d turns are left", n)
		}
	})
}

// TestLargeCopies: there are two first passes at a time, which give way after a second, and two copies with many files, each
// of another subject. Others with many files wait for these, and keep nobody with few waiting.
func TestLargeCopies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewCopies()
		turn := func(subject string) *Turn {
			turn, err := c.Turn(t.Context(), subject)
			if err != nil {
				t.Fatal(err)
			}
			return turn
		}
		// check calls f and looks whether it waits. It returns a function that returns when f has.
		check := func(what string, f func() error, want bool) (end func()) {
			t.Helper()
			returned := make(chan error, 1)
			go func() { returned <- f() }()
			synctest.Wait()
			if waits := len(returned) == 0; waits != want {
				t.Errorf("%s: waits %t, want %t", what, waits, want)
			}
			return func() {
				if err := <-returned; err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		pass := func(turn *Turn) func() error { return func() error { return turn.BeginPass(t.Context()) } }
		grow := func(turn *Turn, n int64) func() error { return func() error { return turn.Grow(t.Context(), n) } }
		a, b, own, other := turn("a"), turn("b"), turn("a"), turn("c")
		check("the first pass", pass(a), false)()
		check("the second pass", pass(b), false)()
		third := check("the third pass", pass(other), true)
		grown := check("a first pass with many files", grow(a, MaxCopied), true)
		third() // it came first
		other.EndPass()
		grown()
		check("one of another subject", grow(b, MaxCopied), false)()
		check("few files", grow(other, c.Few), false)()
		second := check("many files in another copy of the subject", grow(own, c.Few+1), true)
		check("the third pass", pass(other), true)() // the others give way
		a.EndPass()
		grown = check("many files of a third subject", grow(other, c.Few+1), true)
		few := turn("d")
		check("few files beside those that wait", pass(few), false)()
		time.Sleep(time.Hour) // on the test's clock
		if _, waiting := c.Busy(); waiting != 2 {
			t.Errorf("%d wait, and one with many files has given way", waiting)
		}
		b.End()
		grown()
		a.End()
		second()
		impatient, cancel := context.WithCancelCause(t.Context())
		hungUp := errors.New("hung up")
		cancel(hungUp)
		last := turn("e")
		if err := last.Grow(impatient, MaxCopied); err != hungUp {
			t.Errorf("a request that has ended: %v", err)
		}
		for _, turn := range []*Turn{own, other, few, last} {
			turn.End()
		}
		if held, waiting := c.Busy(); held+waiting > 0 {
			t.Errorf("%d turns are left, and %d are waited for", held, waiting)
		}
	})
}
