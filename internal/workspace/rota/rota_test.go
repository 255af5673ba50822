package rota

import (
	"testing"
	"time"
)

// TestDue: the thing that has waited longest comes first, one that cost much comes later, and one that is gone has a last turn
// only if that was asked for.
func TestDue(t *testing.T) {
	t.Parallel()
	began := time.Now()
	r := New[string](time.Minute, 10)
	used := map[string]time.Time{"a": began, "b": began.Add(-time.Second)}
	want := func(after time.Duration, want string) {
		t.Helper()
		if got, ok := r.Due(began.Add(after), used); got != want || ok != (want != "") {
			t.Errorf("after %v: got %q, %v, want %q", after, got, ok, want)
		}
	}
	want(time.Minute-2*time.Second, "")
	want(time.Minute, "b")
	r.Charge("b", time.Minute)
	want(time.Minute, "a")
	want(time.Minute, "")
	want(3*time.Minute, "a")
	r.Soon("a", began)
	want(3*time.Minute, "a")
	want(11*time.Minute, "a")
	r.Soon("b", began) // that costs too much
	delete(used, "a")
	want(11*time.Minute-1, "")
	want(11*time.Minute, "b")
	delete(used, "b")
	r.Soon("c", began)
	want(11*time.Minute, "c")
	want(30*time.Minute, "")
	if n := r.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}
