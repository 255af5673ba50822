package workspace

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/wait"
)

// TestCheckpointTurns: a subject whose drafts nobody continues waits for them itself, until one ends, and no other does.
func TestCheckpointTurns(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, _ := w.open("v", "1")
	other, _ := w.open("o", "1", "subject", "other")
	draft := func() string {
		c, err := w.m.Draft(t.Context(), rec.ID, Note{})
		if err != nil {
			t.Error(err)
		}
		return c.ID
	}
	ids := []string{draft(), draft()}
	third := make(chan string)
	go func() { third <- draft() }()
	w.awaitTurns(1)
	w.checkpoint(other.ID, Note{})
	select {
	case <-third:
		t.Error("a subject has three drafts")
	default:
	}
	w.m.DropDraft(t.Context(), ids[0])
	if _, err := w.m.Keep(t.Context(), ids[1]); err != nil {
		t.Error(err)
	}
	w.m.DropDraft(t.Context(), <-third)
	if n, _ := w.m.copying.Busy(); n > 0 {
		t.Errorf("%d turns are left", n)
	}
}

// awaitTurns returns when so many turns to copy are waited for.
func (w *world) awaitTurns(want int) {
	w.t.Helper()
	wait.For(w.t, fmt.Sprintf("%d to wait for turns", want), func() error {
		_, waiting := w.m.copying.Busy()
		return wait.Equal(waiting, want)
	})
}

// TestLargeCheckpoints: two drafts may have many files, each of another subject. A third one waits for one of them, in its
// first pass or in CatchUp, and a draft with few files does not.
func TestLargeCheckpoints(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	w.m.copying.Few = 100
	open := func(subject string, files int) (rec meta.Workspace, dir string) {
		rec, dir = w.open("v-"+subject, "1", "subject", subject)
		for n := range files {
			write(t, filepath.Join(dir, fmt.Sprint("file-", n)), "")
		}
		return rec, dir
	}
	draft := func(rec meta.Workspace) string {
		c, err := w.m.Draft(t.Context(), rec.ID, Note{})
		if err != nil {
			t.Error(err)
		}
		return c.ID
	}
	var large []string
	for _, subject := range []string{"a", "b"} {
		rec, _ := open(subject, 150)
		large = append(large, draft(rec))
	}
	many, _ := open("c", 150)
	few, dir := open("d", 1)
	third := make(chan string)
	go func() { third <- draft(many) }()
	w.awaitTurns(1)
	w.checkpoint(few.ID, Note{})
	grows := draft(few)
	select {
	case <-third:
		t.Error("three drafts have many files")
	default:
	}
	w.m.DropDraft(t.Context(), large[0])
	large[0] = <-third

	for n := range 150 {
		write(t, filepath.Join(dir, fmt.Sprint("more-", n)), "")
	}
	caughtUp := make(chan error)
	go func() { _, err := w.m.CatchUp(t.Context(), grows); caughtUp <- err }()
	w.awaitTurns(1)
	if _, err := w.m.Keep(t.Context(), large[1]); err != nil {
		t.Error(err)
	}
	if err := <-caughtUp; err != nil {
		t.Error(err)
	}
	w.m.DropDraft(t.Context(), grows)
	w.m.DropDraft(t.Context(), large[0])
	if held, waiting := w.m.copying.Busy(); held+waiting > 0 {
		t.Errorf("%d turns are left, and %d are waited for", held, waiting)
	}
}
