package backlog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"
)

// item is what the tests have in a Backlog.
type item struct {
	subject string
	cause   string
	urgency int
}

// newBacklog returns a Backlog whose background work ends with group.
func newBacklog(t *testing.T, group *sync.WaitGroup, do func(item) error) *Backlog[item] {
	return &Backlog[item]{
		Go:      func(f func(context.Context)) { group.Go(func() { f(t.Context()) }) },
		Subject: func(i item) string { return i.subject },
		Urgency: func(i item) int { return i.urgency },
		Cause:   func(i item) string { return i.cause },
		Do:      func(_ context.Context, i item) error { return do(i) },
		Pause:   time.Hour,
	}
}

// TestBacklog: of the items that come while one is worked on, each subject has one in turn, the most urgent one, each
// once. It begins again after a rest.
func TestBacklog(t *testing.T) {
	var group sync.WaitGroup
	var done []item
	began, goOn := make(chan bool, 1), make(chan bool)
	first := item{"a", "x", 1}
	b := newBacklog(t, &group, func(i item) error {
		if i == first {
			began <- true
			<-goOn
		}
		done = append(done, i)
		return nil
	})
	for range 2 {
		b.Add(first)
		<-began
		for _, i := range []item{{"a", "x", 3}, {"a", "x", -1}, {"b", "y", 0}, {"a", "x", 2}, {"a", "x", 3}, {"b", "y", -7}, {"c", "z", -5}} {
			b.Add(i)
		}
		close(goOn)
		group.Wait()
		goOn = make(chan bool)
		want := []item{first, {"a", "x", 3}, {"b", "y", 0}, {"c", "z", -5}, {"a", "x", 2}, {"b", "y", -7}, {"a", "x", -1}}
		if !slices.Equal(done, want) {
			t.Errorf("done %v, want %v", done, want)
		}
		done = nil
	}
}

// TestPause: after an item has failed, none with the same cause is taken before the pause is over, also none that
// waits. Others go on.
func TestPause(t *testing.T) {
	var group sync.WaitGroup
	began, goOn := make(chan bool, 1), make(chan bool)
	var tried []item
	b := newBacklog(t, &group, func(i item) error {
		if tried = append(tried, i); len(tried) == 1 {
			began <- true
			<-goOn
		}
		if i.cause == "x" {
			return errors.New("no")
		}
		return nil
	})
	b.Add(item{"a", "x", 1})
	<-began
	for _, i := range []item{{"a", "x", 9}, {"a", "z", 0}, {"b", "y", 0}} {
		if !b.Add(i) {
			t.Errorf("%v was not added", i)
		}
	}
	close(goOn)
	group.Wait()
	if want := []item{{"a", "x", 1}, {"a", "z", 0}, {"b", "y", 0}}; !slices.Equal(tried, want) {
		t.Errorf("tried %v, want %v", tried, want)
	}
	for _, i := range []item{{"a", "x", 1}, {"a", "x", 2}} {
		if b.Add(i) {
			t.Errorf("%v was added in the pause", i)
		}
	}
	group.Wait()
	b.mu.Lock()
	b.failed["x"] = time.Now()
	b.mu.Unlock()
	if !b.Add(item{"a", "x", 2}) {
		t.Error("not added after the pause")
	}
	group.Wait()
	if len(tried) != 4 {
		t.Errorf("%d tries, want 4", len(tried))
	}
}
