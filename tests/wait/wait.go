// Package wait waits for what must come: an answer, the end of a process, an event.
//
// A test has no deadline of its own for that, because it must not depend on how fast the machine is. A wait ends after half of
// the time that is left until go test ends the whole process (-timeout). So the test that waits in vain fails and says for what,
// and the tests after it still have time. A limit of the product is another thing: its test says how long it is.
package wait

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A Limit knows when go test ends the process: a *testing.T or, in code that has none, a context, whose end is not waited for.
// The deadline is the same for all tests of a process, so a Limit can be kept for longer than its test.
type Limit interface {
	Deadline() (deadline time.Time, ok bool)
}

// endless is the time for a wait without a deadline: with -timeout 0, in TestMain, and in a program that is no test. Nobody ends
// such a process, and an error that says what did not come is better than a process that hangs.
const endless = 20 * time.Minute

// Most returns how long a wait that begins now may take: half of the time that is left. It is for a client or a command, which
// takes a timeout; For and Until know it.
func Most(l Limit) time.Duration {
	deadline, ok := l.Deadline()
	if !ok {
		return endless
	}
	return max(time.Until(deadline)/2, 0)
}

// Of returns the Limit of a test. A benchmark has no deadline.
func Of(t testing.TB) Limit {
	if l, ok := t.(Limit); ok {
		return l
	}
	return context.Background()
}

// pause is between two calls of a check. Most checks read a file or a record; those that ask an engine take longer than the pause.
const pause = 10 * time.Millisecond

// For calls check until it returns nil. After Most it fails the test, and says what it waited for and check's last error, which
// should be the state that check saw.
func For(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := Until(Of(t), check); err != nil {
		t.Fatalf("wait for %s: %v", what, err)
	}
}

// Until is For for code that returns an error. It gives up early at an error that Final made.
func Until(l Limit, check func() error) error {
	most := Most(l)
	for began := time.Now(); ; time.Sleep(pause) {
		err := check()
		var f final
		switch {
		case err == nil:
			return nil
		case errors.As(err, &f):
			return f.error
		case time.Since(began) > most:
			return fmt.Errorf("still after %v: %w", most.Round(time.Second), err)
		}
	}
}

type final struct{ error }

// Final wraps an error that waiting does not change.
func Final(err error) error { return final{err} }

// Equal returns nil if the two are equal, and an error with both otherwise.
func Equal[T any](got, want T) error {
	return Check(reflect.DeepEqual(got, want), "%v, want %v", got, want)
}

// Check returns nil if ok, and the state as an error otherwise.
func Check(ok bool, state string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(state, args...)
}
