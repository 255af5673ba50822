package workspace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
)

// containers is a kernel that says how many containers have a workspace; -1 is one
// that can't tell.
type containers struct{ n atomic.Int64 }

func (c *containers) holders(string, string) (int, error) {
	if n := c.n.Load(); n >= 0 {
		return int(n), nil
	}
	return 0, overlay.ErrUnknown
}

// inherited restarts a world in which the leases of a volume are those of an earlier
// process, and so many containers still have its workspace.
func inherited(t *testing.T, n int64, mode string, leases ...string) (*world, *containers, meta.Workspace) {
	t.Helper()
	w := newWorld(t)
	made, dir := w.open("v", leases[0], "mode", mode)
	for _, id := range leases[1:] {
		w.join("v", id)
	}
	write(t, filepath.Join(dir, "mine"), "x")
	w.doubt = true
	w.restart()
	c := &containers{}
	c.n.Store(n)
	w.m.holders = c.holders
	return w, c, made
}

func (w *world) retain(id string) (meta.Workspace, bool) {
	w.t.Helper()
	rec, ok, err := w.m.Retain(w.t.Context(), "v", id)
	if err != nil {
		w.t.Fatal(err)
	}
	return rec, ok
}

// counts are the leases of "v".
func (w *world) counts() map[string]int {
	counts := make(map[string]int)
	for _, rec := range w.m.Leases("v") {
		for id, n := range rec.Leases {
			counts[id] += n
		}
	}
	return counts
}

func (w *world) wantCounts(when string, want map[string]int) {
	w.t.Helper()
	got := w.counts()
	if len(got) != len(want) {
		w.t.Errorf("%s: leases %v, want %v", when, got, want)
	}
	for id, n := range want {
		if got[id] != n {
			w.t.Errorf("%s: leases %v, want %v", when, got, want)
		}
	}
}

// A container that was started again after the engine and the plugin were killed comes
// with its old mount ID: nothing that an earlier process gave is left.
func TestInheritedOfNobody(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			leases := []string{"1", "2"}
			if mode == "private" {
				leases = leases[:1]
			}
			w, _, made := inherited(t, 0, mode, leases...)
			if rec, ok := w.retain("1"); ok {
				t.Errorf("Retain: %+v", rec)
			}
			w.wantCounts("after Retain", nil)
			if mode == "keep" {
				rec, ok, err := w.m.Join(t.Context(), "v", "1")
				if err != nil || !ok || rec.ID != made.ID {
					t.Fatalf("Join: %+v, %v, %v", rec, ok, err)
				}
				w.wantMounted(rec, "x")
			} else {
				reaped(t, w)
				rec, dir := w.open("v", "1", "mode", mode)
				if _, err := os.Lstat(filepath.Join(dir, "mine")); rec.ID == made.ID || !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the new workspace %s is not clean: %v", rec.ID, err)
				}
			}
			w.wantCounts("mounted again", map[string]int{"1": 1})
			if rec, ok := w.retain("1"); !ok { // docker cp
				t.Errorf("Retain of a lease of this process: %+v", rec)
			}
			w.release("v", "1")
			w.release("v", "1")
			w.wantCounts("in the end", nil)
		})
	}
}

// While a container has the workspace, its lease is as it was: docker cp gets it.
func TestInheritedOfContainer(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c, made := inherited(t, 1, mode, "1")
			if !w.m.verifyAll(t.Context()) {
				t.Error("nothing was inherited")
			}
			for range 2 {
				rec, ok := w.retain("1")
				if !ok || rec.ID != made.ID {
					t.Fatalf("Retain: %+v, %v", rec, ok)
				}
				w.wantMounted(rec, "x")
				w.wantCounts("copying", map[string]int{"1": 2})
				w.release("v", "1")
			}
			c.n.Store(0)
			w.release("v", "1")
			w.wantCounts("in the end", nil)
			if w.m.verifyAll(t.Context()) {
				t.Error("something is inherited still")
			}
		})
	}
}

// Of several leases nobody can say whose container lives: they are believed while one
// does, and go with it.
func TestInheritedOfSome(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c, made := inherited(t, 1, mode, "1", "2")
			if rec, ok := w.retain("1"); !ok || rec.ID != made.ID { // docker cp
				t.Fatalf("Retain: %+v, %v", rec, ok)
			}
			w.release("v", "1")
			w.join("v", "3")
			w.wantCounts("one more", map[string]int{"1": 1, "2": 1, "3": 1})
			w.release("v", "1")
			w.wantCounts("one has ended", map[string]int{"2": 1, "3": 1})
			c.n.Store(0) // that of "2" has ended long ago, and "3" is about to start
			w.m.verifyAll(t.Context())
			w.wantCounts("of an earlier start", map[string]int{"3": 1})
			w.release("v", "3")
			w.wantCounts("in the end", nil)
		})
	}
}

// The last Unmount of those that are known asks once more.
func TestInheritedAfterRelease(t *testing.T) {
	t.Parallel()
	w, c, _ := inherited(t, 1, "shared", "1", "2")
	c.n.Store(0)
	w.release("v", "1")
	testdir.Eventually(t, "the lease that nobody has to go", func() bool { return len(w.counts()) == 0 })
	reaped(t, w)
}

func TestVerifyAll(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		w, _, _ := inherited(t, 0, mode, "1")
		w.m.verifyAll(t.Context())
		w.wantCounts(mode, nil)
		if w.m.verifyAll(t.Context()) {
			t.Errorf("%s: something is inherited still", mode)
		}
	}
	w, c, _ := inherited(t, 0, "private", "1")
	c.n.Store(-1)
	w.m.verifyAll(t.Context())
	w.wantCounts("a kernel that can't tell", map[string]int{"1": 1})
}

// A kernel that can't tell is asked whether a workspace is free, which takes its mount
// away. Not parallel: the holder would keep the workspaces of other tests, too.
func TestInheritedUnknown(t *testing.T) {
	for _, mode := range modes {
		w, _, made := inherited(t, -1, mode, "1")
		if rec, ok := w.retain("1"); ok {
			t.Errorf("%s: Retain: %+v", mode, rec)
		}
		w.wantCounts(mode, nil)
		if mounted, err := overlay.Mounted(w.m.Mountpoint(made)); err != nil || mounted {
			t.Errorf("%s: mounted: %v, %v", mode, mounted, err)
		}
		if mode == "keep" {
			rec, _, err := w.m.Join(t.Context(), "v", "1")
			if err != nil || rec.ID != made.ID {
				t.Errorf("Join: %+v, %v", rec, err)
			}
			w.wantMounted(rec, "x")
		}
	}
	w, _, made := inherited(t, -1, "shared", "1", "2")
	if rec, ok := w.retain("1"); !ok || rec.ID != made.ID {
		t.Errorf("one of two leases: %+v, %v", rec, ok)
	}

	w, _, made = inherited(t, -1, "private", "1")
	h := hold(t, w.root, w.m.Mountpoint(made))
	w.m.HeldWait = 1
	for range 2 {
		if rec, ok, err := w.m.Retain(t.Context(), "v", "1"); !errors.Is(err, ErrHeld) {
			t.Errorf("a container has it: %+v, %v, %v", rec, ok, err)
		}
	}
	h.end()
}

// The kernel itself, with mounts that propagate as a managed plugin's do.
func TestInheritedMounts(t *testing.T) {
	w := newWorld(t)
	w.close()
	for _, how := range []uintptr{unix.MS_BIND, unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount(w.root, w.root, "", how, ""); err != nil {
			t.Fatal(err)
		}
	}
	w.doubt = true
	w.start()
	made, dir := w.open("v", "1")
	script := `mount --bind "$1" "$2" && umount -l "$3" && echo && cat`
	c := exec.Command("unshare", "--mount", "--propagation", "slave", "sh", "-c", script, "sh", dir, t.TempDir(), overlay.PointsDir(w.root))
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	w.restart()
	if rec, ok := w.retain("1"); !ok || rec.ID != made.ID {
		t.Errorf("with a container: %+v, %v", rec, ok)
	}
	in.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	testdir.Eventually(t, "the lease to go", func() bool {
		w.m.verifyAll(context.Background())
		return slices.Equal([]int{1}, []int{w.counts()["1"]}) // docker cp's, which has no end here
	})
	w.restart()
	if rec, ok := w.retain("1"); ok {
		t.Errorf("without one: %+v", rec)
	}
}

// An engine that finds this process alive inherits the leases of the one before: those of containers that live
// are as they were, and those that nobody has any more go; where the kernel can't tell, all.
func TestEngineStarted(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		for _, n := range []int64{1, 0, -1} {
			t.Run(fmt.Sprint(mode, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				w.doubt = true
				w.restart()
				c := &containers{}
				c.n.Store(n)
				w.m.holders = c.holders
				made, _ := w.open("v", "1", "mode", mode)
				if w.m.verifyAll(t.Context()) || w.m.Count("v", "1") {
					t.Error("something is inherited, or uncounted, of this engine")
				}
				if !w.m.EngineStarted() || w.m.EngineStarted() {
					t.Error("the lease is not news once")
				}
				rec, ok := w.retain("1")
				if ok != (n > 0) || ok && rec.ID != made.ID {
					t.Errorf("Retain: %+v, %v", rec, ok)
				}
				if !w.m.Count("v", "1") || w.m.Count("v", "1") {
					t.Error("the lease is not uncounted once")
				}
				if n <= 0 {
					w.wantCounts("of nobody", nil)
					return
				}
				w.release("v", "1")
				w.wantCounts("copied", map[string]int{"1": 1})
				w.release("v", "1")
				w.wantCounts("in the end", nil)
				if w.m.verifyAll(t.Context()) {
					t.Error("something is inherited still")
				}
			})
		}
	}
}
