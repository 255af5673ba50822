package clone

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
)

// fullDisk is a world with its data on a small filesystem, and a repository with 8 MB that
// do not compress.
type fullDisk struct {
	*world
	ballast string
	asked   atomic.Int32 // how often room was to be made
}

func newFullDisk(t *testing.T) *fullDisk {
	t.Helper()
	w := newWorld(t, "")
	content := make([]byte, 8<<20)
	for i := range content {
		content[i] = byte(rand.Uint32())
	}
	w.Commit("main", gitserver.Change{Path: "big", Content: string(content)})
	dir := filepath.Join(testdir.New(t, "clone"), "disk")
	if err := testdisk.Ext4(dir, 64<<20); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := testdisk.Eject(t, dir); err != nil {
			t.Error(err)
		}
	})
	w.data.Close()
	w.Root = filepath.Join(dir, "data")
	if err := os.Mkdir(w.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	return &fullDisk{world: w, ballast: filepath.Join(dir, "ballast")}
}

// fill fills the disk, except free bytes.
func (w *fullDisk) fill(free int64) {
	w.T.Helper()
	space, err := disk.SpaceOf(w.Root)
	if err != nil {
		w.T.Fatal(err)
	}
	f, err := os.OpenFile(w.ballast, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		w.T.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 64<<10)
	for left := space.Free.Bytes - free; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			w.T.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		w.T.Fatal(err)
	}
}

// makeRoom uses f to make room, and checks that no leftovers remain when it is called.
func (w *fullDisk) makeRoom(f func(need disk.Size) error) {
	w.m.config.MakeRoom = func(_ context.Context, subject string, need disk.Size) error {
		w.asked.Add(1)
		if want := string(w.clone(w.spec("ref", "main")).Subject); subject != want {
			w.T.Errorf("room for subject %q, want %q", subject, want)
		}
		for _, pattern := range []string{"store", "trees", "refs"} {
			left, err := filepath.Glob(filepath.Join(w.Root, "clones/*/*", pattern, durable.TempPrefix+"*"))
			if err != nil || len(left) > 0 {
				w.T.Errorf("left half: %q, %v", left, err)
			}
		}
		return f(need)
	}
}

// room deletes the ballast and the entries of the trash.
func (w *fullDisk) room(disk.Size) error {
	return errors.Join(os.Remove(w.ballast), os.RemoveAll(filepath.Join(w.Root, "trash")), os.Mkdir(filepath.Join(w.Root, "trash"), 0o700))
}

// TestFullDiskInWords checks that work is tried again after AwaitRoom, and that nothing is
// evicted for it, if only git's words say that the disk is full.
func TestFullDiskInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.clone(w.spec("ref", "main"))
	var steps []string
	w.m.config.MakeRoom = func(context.Context, string, disk.Size) error {
		steps = append(steps, "make room")
		return nil
	}
	var waitErr error
	w.m.config.AwaitRoom = func(context.Context) error {
		steps = append(steps, "wait")
		return waitErr
	}
	words := giterror.New("check out", "", "fatal: write error: No space left on device", errors.New("exit status 128"), false)
	other := errors.New("other")
	for _, tt := range []struct {
		name  string
		wait  error
		fails []error // of each try, as long as there are some
		want  string
		err   error
	}{
		{"freed by then", nil, []error{words}, "try, wait, try", nil},
		{"a remote says so", nil, []error{words, words, words, words}, "try, wait, try, wait, try", words},
		{"full the next time", nil, []error{words, unix.ENOSPC}, "try, wait, try, make room, try", nil},
		{"another error", nil, []error{words, other}, "try, wait, try", other},
		{"a quota, not the disk", nil, []error{unix.EDQUOT}, "try", unix.EDQUOT},
		{"no time to wait", context.DeadlineExceeded, []error{words}, "try, wait", context.DeadlineExceeded},
	} {
		steps, waitErr = nil, tt.wait
		err := c.WithRoom(t.Context(), disk.Size{}, func() (err error) {
			steps = append(steps, "try")
			if len(tt.fails) > 0 {
				err, tt.fails = tt.fails[0], tt.fails[1:]
			}
			return err
		})
		if got := strings.Join(steps, ", "); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %s, %v; want %s, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
}

// A fetch and a tree without room are tried again after room was made. If none was made,
// the error has that of MakeRoom.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		first []string // another checkout, while there is room
		made  int32    // the MakeRoom that is the first to make enough room
	}{
		{"fetch", nil, 1},
		{"tree", []string{"uid", "64779", "gid", "64779"}, 1},
		{"fetch, too little room at first", nil, roomTries - 1},
		{"tree, too little room at first", []string{"uid", "64779", "gid", "64779"}, roomTries - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFullDisk(t)
			if tt.first != nil {
				s := w.spec(append([]string{"ref", "main"}, tt.first...)...)
				w.prepare(s).Release()
				w.measured(w.clone(s))
			}
			s := w.spec("ref", "main")
			if err := w.m.config.Layers.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.fill(3 << 20)
			_, err := w.clone(s).Prepare(t.Context(), s)
			if !giterror.NoSpace(err) {
				t.Fatalf("without MakeRoom: %v, want that the disk is full", err)
			}
			w.idle(w.clone(s))
			held := errors.New("2 MiB are missing; volume v holds them")
			w.makeRoom(func(disk.Size) error { return held })
			_, err = w.clone(s).Prepare(t.Context(), s)
			if !giterror.NoSpace(err) || !errors.Is(err, held) || !strings.Contains(err.Error(), held.Error()) || w.asked.Load() != 1 {
				t.Errorf("no room: %v, after %d attempts to make some", err, w.asked.Load())
			}
			w.idle(w.clone(s))
			w.asked.Store(0)
			w.makeRoom(func(need disk.Size) error {
				if w.asked.Load() > 1 {
					return held
				}
				if (need.Bytes > 0) != (tt.first != nil) {
					t.Errorf("need %+v", need)
				}
				return nil // but has not
			})
			_, err = w.clone(s).Prepare(t.Context(), s)
			if !giterror.NoSpace(err) || !errors.Is(err, held) || w.asked.Load() != 2 {
				t.Errorf("no room the second time: %v, after %d attempts to make some", err, w.asked.Load())
			}
			w.idle(w.clone(s))
			w.asked.Store(0)
			w.makeRoom(func(need disk.Size) error {
				asked := w.asked.Load()
				if asked > 1 && need != (disk.Size{}) {
					t.Errorf("room is made for %+v, which was not enough", need)
				}
				if asked < tt.made {
					return nil
				}
				return w.room(need)
			})
			co := w.prepare(s)
			defer co.Release()
			if w.asked.Load() != tt.made {
				t.Errorf("room was made %d times, want %d", w.asked.Load(), tt.made)
			}
			if got := run(t, w.Mount(co.Lower, 0), 0, "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
		})
	}
}
