package clone

import (
	"slices"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// A Mount whose cold store ends while it asks the remote gets the full history, and does
// not fetch the newest commits again.
func TestColdEndsDuringAMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	gate, _ := w.holdFull()
	s := w.spec(coldMain...)
	c := w.clone(s)
	w.coldMount().Release()
	<-gate.Arrived
	ask := gitserver.NewGate()
	count, fetches := counted()
	w.Server.Route("r", gitserver.On(gitserver.LsRefs, ask.Fault), gitserver.OnDepth(true, count))
	done := make(chan *Checkout)
	go func() { done <- w.prepare(s) }()
	<-ask.Arrived
	close(gate.Open)
	wait.For(t, "the end of the cold store", func() error { return wait.Equal(w.stores(c), []string{"full"}) })
	close(ask.Open)
	co := <-done
	defer co.Release()
	if got := w.stores(c); co.Shallow || fetches.Load() > 0 || !slices.Equal(got, []string{"full"}) {
		t.Errorf("shallow: %v, stores %q, %d more fetches of the newest commits", co.Shallow, got, fetches.Load())
	}
}
