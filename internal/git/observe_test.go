package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
)

func TestCommandName(t *testing.T) {
	for _, tt := range []struct {
		c    Command
		want string
	}{
		{Command{Args: []string{"--git-dir=.", "rev-parse", "--verify", "fetch"}}, "rev-parse"},
		{Command{Args: []string{"-c", "fetch=clone", "-c", "a=b", "--literal-pathspecs", "ls-tree"}}, "ls-tree"},
		{Command{Args: []string{"remote-https", "origin", "https://h/clone"}}, "remote-https"},
		{Command{Args: []string{"evil\nname"}}, "other"},
		{Command{Args: []string{"-c"}}, "other"},
		{Command{}, "other"},
		{Command{Args: []string{"clone"}, Judge: func([]byte, error) (string, error) { return "", nil }}, "job"},
	} {
		got := tt.c.name()
		if got != tt.want || !slices.Contains(CommandNames(), got) {
			t.Errorf("%q: got %q, want %q", tt.c.Args, got, tt.want)
		}
	}
}

// TestObserve checks which kind of an event each error has. No kind is the text of an error.
func TestObserve(t *testing.T) {
	var got Event
	g := &Git{config: Config{Observe: func(e Event) { got = e }}}
	for _, tt := range []struct {
		what What
		err  error
		want giterror.Kind
	}{
		{RanCommand, nil, giterror.KindOK},
		{RanCommand, &giterror.Error{Kind: giterror.KindAuth}, giterror.KindAuth},
		{AskedRemote, fmt.Errorf("%w: why", ErrThroughGit), giterror.KindFallback},
		{FetchedRemote, errors.Join(ErrThroughGit, &giterror.Error{Kind: giterror.KindServer}), giterror.KindFallback},
		{RanCommand, fmt.Errorf("more: %w", context.Canceled), giterror.KindCanceled},
		{AskedRemote, context.DeadlineExceeded, giterror.KindTimeout},
		{RanCommand, os.ErrNotExist, giterror.KindOther},
	} {
		if g.observe(tt.what, "x", time.Now(), tt.err); got.Kind != tt.want || got.What != tt.what || got.Via != "x" {
			t.Errorf("%v: got %+v, want kind %q", tt.err, got, tt.want)
		}
		if tt.want != giterror.KindFallback && !slices.Contains(giterror.Kinds(), got.Kind) {
			t.Errorf("kind %q is not in Kinds", got.Kind)
		}
	}
	(&Git{}).observe(RanCommand, "x", time.Now(), nil)
}

// events collects events.
type events struct {
	mu   sync.Mutex
	list []Event
}

func (e *events) add(ev Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ev.Took = 0
	e.list = append(e.list, ev)
}

// TestMissingObjectIsNoFailure checks that a negative answer of a store counts as an answer.
func TestMissingObjectIsNoFailure(t *testing.T) {
	var seen events
	g := newGit(t)
	store := store(t, g)
	g.config.Observe = seen.add
	if ok, err := g.Has(t.Context(), store, "0123456789012345678901234567890123456789"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, ok, err := g.Commit(t.Context(), store, "main"); ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, _, err := g.Commit(t.Context(), store+"/none", "main"); err == nil {
		t.Fatal("a store that does not exist has an answer")
	}
	want := []Event{{Via: "cat-file", Kind: giterror.KindOK}, {Via: "rev-parse", Kind: giterror.KindOK}, {Via: "rev-parse", Kind: giterror.KindOther}}
	if !slices.Equal(seen.list, want) {
		t.Errorf("got %+v, want %+v", seen.list, want)
	}
}
