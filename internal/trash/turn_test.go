package trash

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// refiller makes a file in each directory that is to be empty.
type refiller struct{ *remover }

func (r refiller) Leave(e disk.Entry) {
	fd, err := unix.Openat(e.Dir, e.Name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		err = errors.Join(unix.Mknodat(fd, "again", unix.S_IFREG|0o600, 0), unix.Close(fd))
	}
	if err != nil {
		r.fail(e.Name, err)
	}
	r.remover.Leave(e)
}

// What somebody fills as fast as it is emptied does not go on for ever.
func TestRemoveEnds(t *testing.T) {
	dir := tree(t)
	r := &remover{}
	if got := r.removeBy(t.Context(), dir, refiller{r}, nil); !errors.Is(got.Err, ErrLater) || got.Removed != 1+2*(passes-1) {
		t.Errorf("got %+v", got)
	}
	if got, want := new(remover).remove(t.Context(), dir, nil), (Report{Removed: 4}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// An entry that is not empty after its turn is said once, and keeps nobody waiting.
func TestOthersGoFirst(t *testing.T) {
	dir := t.TempDir()
	var reps reports
	var tr *Trash
	tr = open(t, dir, func(r Report) {
		reps.add(r)
		tr.turn = firstTurn
	})
	tr.turn, tr.pause = 0, 24*time.Hour
	size := disk.Size{Bytes: 1 << 40, Inodes: 3}
	first, err := tr.PutSized(tree(t), "first", size)
	must(t, err)
	second := put(t, tr, tree(t), "second")
	stop := run(t, tr)
	idle(t, tr)
	must(t, tr.Hurry(t.Context(), func() bool { return false }))
	got := reps.take()
	if len(got) != 2 || got[0].Entry != first || !errors.Is(got[0].Err, ErrLater) || got[1] != (Report{Entry: second, Removed: 3}) {
		t.Errorf("reports %+v", got)
	}
	wantNames(t, dir, filepath.Base(first))
	if got, want := tr.Stats(), (Stats{Entries: 1}); got != want {
		t.Errorf("got %+v, want %+v: nothing of it counts as free", got, want)
	}
	stop()
	// When nobody writes any more it is deleted.
	tr.queue[0].due = time.Now()
	done := make(chan struct{})
	tr.report = func(r Report) { reps.add(r); close(done) }
	run(t, tr)
	<-done
	if got, want := reps.take(), []Report{{Entry: first, Removed: 3}}; !slices.Equal(got, want) {
		t.Errorf("reports %+v, want %+v", got, want)
	}
	if _, err := os.Lstat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// The turn of an entry that was put back ends when another one comes, and it rests
// longer each time.
func TestTurnYields(t *testing.T) {
	tr := open(t, t.TempDir(), nil)
	tr.pause = 24 * time.Hour
	put(t, tr, tree(t), "large")
	large, _, end, _ := tr.next(t.Context(), &remover{})
	end()
	tr.putBack(large)
	if e, _, _, wait := tr.next(t.Context(), &remover{}); e != nil || wait != refill {
		t.Errorf("while it rests: %v, wait %v", e, wait)
	}
	large.due = time.Now()
	e, turn, end, _ := tr.next(t.Context(), &remover{})
	if e != large || turn.Err() != nil {
		t.Fatalf("not its turn: %v, %v", e, turn)
	}
	fresh := put(t, tr, tree(t), "fresh")
	if turn.Err() == nil {
		t.Error("its turn goes on")
	}
	end()
	large.pause = time.Second
	tr.putBack(large)
	if large.pause != 2*time.Second {
		t.Errorf("it rests %v", large.pause)
	}
	large.due = time.Now()
	e, _, end, _ = tr.next(t.Context(), &remover{})
	if e == nil || e.path != fresh {
		t.Errorf("next is %+v", e)
	}
	end()
}
