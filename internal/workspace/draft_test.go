package workspace

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// checkpoint makes a checkpoint of a workspace that goes on, with a second pass.
func (w *world) checkpoint(id string, n Note) meta.Workspace {
	w.t.Helper()
	c, err := w.m.Draft(w.t.Context(), id, n)
	if err == nil {
		_, err = w.m.CatchUp(w.t.Context(), c.ID)
	}
	var rec meta.Workspace
	if err == nil {
		rec, err = w.m.Keep(w.t.Context(), c.ID)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return rec
}

// TestCheckpoint: a checkpoint has what its workspace had, in each mode, mounted or parked, and the workspace goes on. What
// begins with it has the same, also after a restart, and is of the same commit. It is no copy of the cache.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	for _, mode := range []string{"private", "shared", "keep"} {
		rec, dir := w.open(mode, "1", "ref", "main", "mode", mode, "warm", "nm")
		put(t, dir, "nm/x", "warm")
		put(t, dir, stored("a"), "cached")
		write(t, filepath.Join(dir, "mine"), "one")
		testgit.GitAny(t, dir, "add", "mine")
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, "src")), os.Chmod(filepath.Join(dir, "README.md"), 0o755)); err != nil {
			t.Fatal(err)
		}
		want := testgit.GitAny(t, dir, "status", "--porcelain=v2", "--branch", "--ignored")
		first := w.checkpoint(rec.ID, Note{Name: "first", Message: "before"})
		write(t, filepath.Join(dir, "mine"), "two")
		put(t, dir, ".git/index.lock", "")
		c, err := w.m.Draft(t.Context(), rec.ID, Note{})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "late"), "after the draft")
		second, err := w.m.Keep(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, ".git/index.lock")); err != nil {
			t.Fatal(err)
		}
		w.restart()
		d := w.checkpointOf(first.ID)
		if d.Made != meta.MadeByUser || d.Name != "first" || d.Message != "before" || !d.ExpiresAt.IsZero() || d.Commit != rec.Commit || d.Volume != mode {
			t.Errorf("%+v", d)
		}
		if d := w.checkpointOf(second.ID); d.Name != "" || d.ExpiresAt.Sub(d.EndedAt) != time.Hour {
			t.Errorf("%+v", d)
		}
		if content(t, filepath.Join(dir, "mine")) != "two" {
			t.Errorf("%s: the workspace was changed", mode)
		}
		_, one := w.forked(first.ID, mode+"1", "1")
		_, two := w.forked(second.ID, mode+"2", "1")
		if got := testgit.GitAny(t, one, "status", "--porcelain=v2", "--branch", "--ignored"); got != want {
			t.Errorf("%s: begins with\n%s\nwant\n%s", mode, got, want)
		}
		wantFile(t, one, "mine", "one")
		wantFile(t, one, "nm/x", "warm")
		wantFile(t, two, "mine", "two")
		wantFile(t, two, "late", "")
		if _, err := os.Lstat(filepath.Join(w.m.mounter.Upper(first), ".git/hdcache")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the cache: %v", mode, err)
		}
		testgit.GitAny(t, two, "add", "mine") // no lock
		third := w.checkpoint(filepath.Base(two), Note{})
		if got := third.From; len(got) != 1 || got[0] != second.ID {
			t.Errorf("%s: the checkpoint of what began with one stands on %q", mode, got)
		}
	}
}

// TestCheckpointOfCheckpoint: a checkpoint gets the note, if there is one, and is not copied.
func TestCheckpointOfCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	var noted atomic.Int32
	w.m.config.Observe = func(_ context.Context, e Event) {
		if e.Step == StepNoted {
			noted.Add(1)
		}
	}
	d := w.leave("v")
	for _, tt := range []struct {
		note Note
		was  string
	}{{Note{}, ""}, {Note{Message: "text"}, ""}, {Note{Name: "first"}, ""}, {Note{Name: "kept"}, "first"}, {Note{Name: "kept"}, ""}, {Note{}, ""}} {
		before := noted.Load()
		c, err := w.m.Draft(t.Context(), d.ID, tt.note)
		if err != nil || c.ID != d.ID || c.Was != tt.was || (noted.Load() > before) != (tt.note != Note{}) {
			t.Fatalf("%+v: %+v, %v, noted %d times", tt.note, c, err, noted.Load()-before)
		}
	}
	w.restart()
	if got := w.checkpointOf(d.ID); got.Note != (Note{"kept", "text"}) || !got.ExpiresAt.IsZero() || got.Made != meta.MadeByEnd {
		t.Errorf("%+v", got)
	}
	_, err := w.m.Keep(t.Context(), d.ID)
	refused(t, "Keep", err, "there is no draft")
}

// TestCheckpointFails: what fails, is dropped or is forgotten leaves nothing, and the workspace can be copied again.
func TestCheckpointFails(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1")
	write(t, filepath.Join(dir, "mine"), "x")
	draft := func() string {
		t.Helper()
		c, err := w.m.Draft(t.Context(), rec.ID, Note{})
		if err != nil {
			t.Fatal(err)
		}
		return c.ID
	}
	nothing := func(when string) {
		t.Helper()
		turns, _ := w.m.copying.Busy()
		if got := len(w.workspaces()); got != 1 || len(w.m.Checkpoints()) > 0 || len(w.m.drafts) > 0 || turns > 0 {
			t.Errorf("%s: %d directories, checkpoints %+v", when, got, w.m.Checkpoints())
		}
	}
	w.m.DropDraft(t.Context(), draft())
	nothing("dropped")
	w.m.DropDraft(t.Context(), "0123456789abcdef")
	deep := dir
	for range maxCopyDepth + 2 {
		deep = filepath.Join(deep, "d")
	}
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := w.m.Draft(t.Context(), rec.ID, Note{})
	refused(t, "too deep", err, "has changed too much", fmt.Sprint(maxCopyDepth), "levels")
	nothing("too deep")
	if err := os.RemoveAll(filepath.Join(dir, "d")); err != nil {
		t.Fatal(err)
	}
	w.m.config.MaxSize = func(string) (int64, bool) { return 1, false }
	_, err = w.m.Draft(t.Context(), rec.ID, Note{})
	refused(t, "too large", err, "has changed too much", "bytes")
	w.m.config.MaxSize = func(string) (int64, bool) { return 0, false }
	_, err = w.m.Draft(t.Context(), "0123456789abcdef", Note{})
	refused(t, "unknown", err, "no workspace")
	nothing("refused")
	w.m.config.CheckpointTTL = 0
	_, err = w.m.Draft(t.Context(), rec.ID, Note{})
	refused(t, "without checkpoints", err, "CHECKPOINT_TTL=0", "name")
	w.m.config.CheckpointTTL = time.Hour

	// The workspace ends meanwhile: the draft can be finished, and the workspace is reaped then.
	id := draft()
	w.release("v", "1")
	if _, err := w.m.CatchUp(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := w.m.Keep(t.Context(), id); err != nil {
		t.Error(err)
	}
	reaped(t, w)
	w.checkpointOf(rec.ID)
	w.checkpointOf(id)

	// The database can't be written.
	rec, dir = w.open("v", "2")
	write(t, filepath.Join(dir, "mine"), "y")
	id = draft()
	mend := w.breakDB()
	if _, err := w.m.Keep(t.Context(), id); err == nil {
		t.Error("kept without a database")
	}
	mend()
	if got := len(w.workspaces()); got != 3 || len(w.m.Checkpoints()) != 2 {
		t.Errorf("%d directories without a database", got)
	}

	// A restart forgets drafts.
	id = draft()
	w.restart()
	wait.For(t, "its directory to go", func() error { return wait.Equal(len(w.workspaces()), 3) })
	_, err = w.m.Keep(t.Context(), id)
	refused(t, "Keep after a restart", err, "there is no draft")
}

// TestCheckpointRandom: with a pause, a checkpoint has exactly the state of the pause, while writers of git and of plain
// files go on before and after it.
func TestCheckpointRandom(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "ref", "main")
	var pause sync.RWMutex
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for n := range 2 {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				pause.RLock()
				name := filepath.Join(dir, fmt.Sprintf("w%d-%d", n, r.IntN(20)))
				switch r.IntN(5) {
				case 0:
					os.Remove(name)
				case 1:
					os.Rename(name, filepath.Join(dir, fmt.Sprintf("w%d-%d", n, r.IntN(20))))
				case 2:
					os.Link(name, filepath.Join(dir, fmt.Sprintf("l%d-%d", n, r.IntN(20))))
				default:
					os.WriteFile(name, []byte(strings.Repeat(fmt.Sprint(i), 1+r.IntN(4000))), 0o644)
				}
				pause.RUnlock()
			}
		})
	}
	for range 10 {
		c, err := w.m.Draft(t.Context(), rec.ID, Note{})
		if err != nil {
			t.Fatal(err)
		}
		pause.Lock()
		_, err = w.m.CatchUp(t.Context(), c.ID)
		want := filesOf(t, dir)
		pause.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		kept, err := w.m.Keep(t.Context(), c.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, at := w.forked(kept.ID, "f", "1")
		got := filesOf(t, at)
		for name := range want {
			if strings.HasPrefix(name, ".git/helmdeck") {
				continue
			}
			if got[name] != want[name] {
				t.Fatalf("%s is %.80q, want %.80q", name, got[name], want[name])
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				t.Fatalf("%s is too much", name)
			}
		}
		w.end("f", "1")
	}
	close(stop)
	writers.Wait()
}

// TestRewind: a kept volume goes back to a checkpoint, and what it had is a checkpoint, also if nothing had changed.
func TestRewind(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "mode", "keep")
	write(t, filepath.Join(dir, "mine"), "one")
	one := w.checkpoint(rec.ID, Note{})
	write(t, filepath.Join(dir, "mine"), "two")
	rewind := func(id string) (meta.Workspace, error) {
		r, err := w.requestFrom(id, "v", "", "mode", "keep")
		if err != nil {
			t.Fatal(err)
		}
		return w.m.Rewind(t.Context(), r)
	}
	w.m.config.CheckpointTTL = 0
	_, err := rewind(one.ID)
	refused(t, "without checkpoints", err, "CHECKPOINT_TTL=0", "would be lost")
	w.m.config.CheckpointTTL = time.Hour
	_, err = rewind(one.ID)
	refused(t, "in use", err, `volume "v"`, "in use", "end its containers")
	w.release("v", "1")
	published(t, w, rec)
	now, err := rewind(one.ID)
	if err != nil {
		t.Fatal(err)
	}
	reaped(t, w)
	if d := w.checkpointOf(rec.ID); d.Made != meta.MadeByRewind {
		t.Errorf("%+v", d)
	}
	w.restart()
	joined, dir := w.join("v", "2")
	if joined.ID != now.ID || content(t, filepath.Join(dir, "mine")) != "one" {
		t.Errorf("joined %+v with %q", joined, content(t, filepath.Join(dir, "mine")))
	}
	w.release("v", "2")
	published(t, w, joined)
	if now, err = rewind(rec.ID); err != nil { // forward again, to what it had
		t.Fatal(err)
	}
	reaped(t, w)
	if _, dir = w.join("v", "3"); content(t, filepath.Join(dir, "mine")) != "two" {
		t.Errorf("forward it has %q", content(t, filepath.Join(dir, "mine")))
	}
	if got := len(w.m.Checkpoints()); got != 3 {
		t.Errorf("%d checkpoints", got)
	}
	w.release("v", "3")
	published(t, w, now)
	if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	reaped(t, w)
	for _, d := range slices.Backward(w.m.Checkpoints()) { // each before the one that it stands on
		if err := w.m.EvictCheckpoint(d.ID); err != nil {
			t.Error(err)
		}
	}
	if left := w.workspaces(); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
}
