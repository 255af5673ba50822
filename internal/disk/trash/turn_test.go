package trash

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
)

// refiller makes a file in each directory that should be empty.
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

// TestRemoveEnds checks that deletion ends although each directory is filled again.
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

// TestUnfinishedEntryDelaysNoOther checks that an entry that is not empty after its turn is
// reported once, and delays no other.
func TestUnfinishedEntryDelaysNoOther(t *testing.T) {
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
	later, err := disk.Measure(t.Context(), first)
	must(t, err)
	if got, want := tr.Stats(), (Stats{Entries: 1, Later: later}); got != want || later.Bytes == 0 {
		t.Errorf("got %+v, want %+v: a postponed entry counts as no free space", got, want)
	}
	stop()
	// The entry is deleted when no writer is left.
	tr.queue[0].due = time.Now()
	done := make(chan struct{})
	tr.report = func(r Report) { reps.add(r); close(done) }
	run(t, tr)
	<-done
	if got, want := reps.take(), []Report{{Entry: first, Removed: 3}}; !slices.Equal(got, want) {
		t.Errorf("reports %+v, want %+v", got, want)
	}
	if _, err := os.Lstat(first); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the entry is still there: %v", err)
	}
}

// TestTurnYields checks that a new entry ends the turn of a postponed one, and that its
// pauses grow.
func TestTurnYields(t *testing.T) {
	tr := open(t, t.TempDir(), nil)
	tr.pause = 24 * time.Hour
	put(t, tr, tree(t), "large")
	large, _, end, _ := tr.next(t.Context(), &remover{})
	end()
	tr.postpone(large, disk.Size{})
	if e, _, _, wait := tr.next(t.Context(), &remover{}); e != nil || wait != refill {
		t.Errorf("while it rests: %v, wait %v", e, wait)
	}
	large.due = time.Now()
	e, turn, end, _ := tr.next(t.Context(), &remover{})
	if e != large || turn.Err() != nil {
		t.Fatalf("got %v, %v; want a turn of the large entry", e, turn)
	}
	fresh := put(t, tr, tree(t), "fresh")
	if turn.Err() == nil {
		t.Error("the turn of the large entry continues")
	}
	end()
	large.pause = time.Second
	tr.postpone(large, disk.Size{})
	if large.pause != 2*time.Second {
		t.Errorf("the entry rests %v, want 2s", large.pause)
	}
	large.due = time.Now()
	e, _, end, _ = tr.next(t.Context(), &remover{})
	if e == nil || e.path != fresh {
		t.Errorf("next is %+v, want the fresh entry", e)
	}
	end()
}

// TestLargeEntryIsNotPostponed checks that an entry that takes longer than a turn is not postponed:
// its next turn is after the others, and its size still counts.
func TestLargeEntryIsNotPostponed(t *testing.T) {
	dir := t.TempDir()
	var reps reports
	tr := open(t, dir, reps.add)
	victim := tree(t)
	wide(t, victim, 197) // 200 with the files of tree
	large, err := tr.PutSized(victim, "large", disk.Size{Bytes: 200 << 10, Inodes: 200})
	must(t, err)
	small := put(t, tr, tree(t), "small")
	work := &remover{}
	e, turn, end, _ := tr.next(t.Context(), work)
	work.some = end // ends the turn after some files
	tr.delete(t.Context(), turn, e)
	end()
	tr.measure(t.Context())
	if got := reps.take(); len(got) > 0 {
		t.Errorf("reports %+v, want none", got)
	}
	smallSize, err := disk.Measure(t.Context(), small)
	must(t, err)
	left := disk.Size{Bytes: (200 - someFiles) << 10, Inodes: 200 - someFiles}
	if got, want := tr.Stats(), (Stats{Entries: 2, Size: left.Add(smallSize)}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	run(t, tr)
	idle(t, tr)
	wantNames(t, dir)
	want := []Report{{Entry: small, Removed: 3}, {Entry: large, Removed: 200 - someFiles}}
	if got := reps.take(); !slices.Equal(got, want) {
		t.Errorf("reports %+v, want %+v", got, want)
	}
}

// TestFilledEntryIsPostponed checks that an entry is postponed if more was deleted than was
// measured.
func TestFilledEntryIsPostponed(t *testing.T) {
	var reps reports
	tr := open(t, t.TempDir(), reps.add)
	tr.pause = 24 * time.Hour
	victim := tree(t)
	wide(t, victim, 197)
	_, err := tr.PutSized(victim, "filled", disk.Size{Bytes: 1 << 10, Inodes: someFiles})
	must(t, err)
	work := &remover{}
	e, turn, end, _ := tr.next(t.Context(), work)
	work.some = end
	tr.delete(t.Context(), turn, e)
	end()
	if got := reps.take(); len(got) != 1 || !errors.Is(got[0].Err, ErrLater) {
		t.Errorf("reports %+v, want ErrLater", got)
	}
	later, err := disk.Measure(t.Context(), e.path)
	must(t, err)
	if got, want := tr.Stats(), (Stats{Entries: 1, Later: later}); got != want || later.Inodes == 0 {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestNoRestAfterIdleTime checks that idle time between entries does not count as work.
func TestNoRestAfterIdleTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var reps reports
		tr := open(t, dir, reps.add)
		stop := run(t, tr)
		defer stop()
		for range 4 {
			time.Sleep(20 * time.Second)
			victim := tree(t)
			wide(t, victim, 100)
			began := time.Now()
			put(t, tr, victim, "ws")
			idle(t, tr)
			if got := time.Since(began); got > time.Second { // no time passes in system calls here
				t.Errorf("a deletion took %v", got)
			}
		}
		for _, r := range reps.take() {
			if r.Err != nil {
				t.Errorf("report %+v", r)
			}
		}
	})
}
