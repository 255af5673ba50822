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
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/wait"
)

// containers takes the place of overlay.Copies: n containers have a workspace. If n is
// -1 the kernel can't tell.
type containers struct{ n atomic.Int64 }

func (c *containers) holders(string, string) (int, error) {
	if n := c.n.Load(); n >= 0 {
		return int(n), nil
	}
	return 0, overlay.ErrUnknown
}

// inherited returns a restarted world, in which the leases of the volume "v" are those of an
// earlier process, and n containers still have its workspace.
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
	w.m.copies = c.holders
	return w, c, made
}

func (w *world) lookup(id string) (meta.Workspace, bool) {
	w.t.Helper()
	rec, ok, err := w.m.Lookup(w.t.Context(), Lease{"v", id})
	if err != nil {
		w.t.Fatal(err)
	}
	return rec, ok
}

// copy gives a workspace of "v" a second lease, as docker cp on a running container does.
func (w *world) copy(id string) {
	w.t.Helper()
	if _, ok, err := w.m.Add(w.t.Context(), Lease{"v", id}, id+"#2"); !ok || err != nil {
		w.t.Fatalf("Add: %v, %v", ok, err)
	}
}

// leases returns the leases of "v", sorted.
func (w *world) leases() (ids []string) {
	for _, rec := range w.m.Leases("v") {
		ids = append(ids, rec.Leases...)
	}
	slices.Sort(ids)
	return ids
}

func (w *world) wantLeases(when string, want ...string) {
	w.t.Helper()
	if got := w.leases(); !slices.Equal(got, want) {
		w.t.Errorf("%s: leases %q, want %q", when, got, want)
	}
}

// A container that is started again after the engine and the plugin were killed mounts with
// its old mount ID: all leases of the earlier process are lost.
func TestInheritedLeasesWithoutContainer(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			leases := []string{"1", "2"}
			if mode == "private" {
				leases = leases[:1]
			}
			w, _, made := inherited(t, 0, mode, leases...)
			if rec, ok := w.lookup("1"); ok {
				t.Errorf("Lookup: %+v", rec)
			}
			w.wantLeases("after Lookup")
			if mode == "keep" {
				rec, ok, err := w.m.Join(t.Context(), Lease{"v", "1"})
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
			w.wantLeases("mounted again", "1")
			if rec, ok := w.lookup("1"); !ok { // docker cp
				t.Errorf("Lookup of a lease of this process: %+v", rec)
			}
			w.copy("1")
			w.release("v", "1#2")
			w.release("v", "1")
			w.wantLeases("in the end")
		})
	}
}

// While a container has the workspace, its lease is valid: docker cp gets the workspace.
func TestInheritedLeaseOfContainer(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c, made := inherited(t, 1, mode, "1")
			if !w.m.verifyInherited(t.Context()) {
				t.Error("nothing was inherited")
			}
			for range 2 {
				rec, ok := w.lookup("1")
				if !ok || rec.ID != made.ID {
					t.Fatalf("Lookup: %+v, %v", rec, ok)
				}
				w.wantMounted(rec, "x")
				w.copy("1")
				w.wantLeases("copying", "1", "1#2")
				w.release("v", "1#2")
			}
			c.n.Store(0)
			w.release("v", "1")
			w.wantLeases("in the end")
			if w.m.verifyInherited(t.Context()) {
				t.Error("something is inherited still")
			}
		})
	}
}

// If a workspace has several leases, nothing tells whose container lives: all are valid
// while one container has the workspace, and all are lost when none has it.
func TestInheritedLeasesOfOneWorkspace(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c, made := inherited(t, 1, mode, "1", "2")
			if rec, ok := w.lookup("1"); !ok || rec.ID != made.ID { // docker cp
				t.Fatalf("Lookup: %+v, %v", rec, ok)
			}
			w.copy("1")
			w.release("v", "1#2")
			w.join("v", "3")
			w.wantLeases("one more", "1", "2", "3")
			w.release("v", "1")
			w.wantLeases("one has ended", "2", "3")
			c.n.Store(0) // the container of "2" ended long ago, and that of "3" is about to start
			w.m.verifyInherited(t.Context())
			w.wantLeases("of an earlier start", "3")
			w.release("v", "3")
			w.wantLeases("in the end")
		})
	}
}

// An Unmount that leaves only inherited leases makes the plugin ask again.
func TestInheritedAfterRelease(t *testing.T) {
	t.Parallel()
	w, c, _ := inherited(t, 1, "shared", "1", "2")
	c.n.Store(0)
	w.release("v", "1")
	wait.For(t, "the lease without a container to go", func() error { return wait.Equal(len(w.leases()), 0) })
	reaped(t, w)
}

func TestVerifyInherited(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		w, _, _ := inherited(t, 0, mode, "1")
		w.m.verifyInherited(t.Context())
		w.wantLeases(mode)
		if w.m.verifyInherited(t.Context()) {
			t.Errorf("%s: something is inherited still", mode)
		}
	}
	w, c, _ := inherited(t, 0, "private", "1")
	c.n.Store(-1)
	w.m.verifyInherited(t.Context())
	w.wantLeases("a kernel that can't tell", "1")
}

// If the kernel can't tell whether a container has a workspace, it is asked whether the
// workspace is free, after an unmount. Not parallel: the holder would keep the workspaces
// of other tests busy.
func TestInheritedUnknown(t *testing.T) {
	for _, mode := range modes {
		w, _, made := inherited(t, -1, mode, "1")
		if rec, ok := w.lookup("1"); ok {
			t.Errorf("%s: Lookup: %+v", mode, rec)
		}
		w.wantLeases(mode)
		if mounted, err := overlay.Mounted(w.m.Mountpoint(made)); err != nil || mounted {
			t.Errorf("%s: mounted: %v, %v", mode, mounted, err)
		}
		if mode == "keep" {
			rec, _, err := w.m.Join(t.Context(), Lease{"v", "1"})
			if err != nil || rec.ID != made.ID {
				t.Errorf("Join: %+v, %v", rec, err)
			}
			w.wantMounted(rec, "x")
		}
	}
	w, _, made := inherited(t, -1, "shared", "1", "2")
	if rec, ok := w.lookup("1"); !ok || rec.ID != made.ID {
		t.Errorf("one of two leases: %+v, %v", rec, ok)
	}

	w, _, made = inherited(t, -1, "private", "1")
	h := hold(t, w.root, w.m.Mountpoint(made))
	long := w.m.config.HeldWait
	w.m.config.HeldWait = 1
	for range 2 {
		if rec, ok, err := w.m.Lookup(t.Context(), Lease{"v", "1"}); !errors.Is(err, ErrHeld) {
			t.Errorf("a container has it: %+v, %v, %v", rec, ok, err)
		}
	}
	// The lease is lost by now, so that this Lookup only waits.
	w.m.config.HeldWait = long
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if rec, ok, err := w.m.Lookup(ctx, Lease{"v", "1"}); !errors.Is(err, ErrHeld) || rec.ID != made.ID {
		t.Errorf("a container has it, until the deadline: %+v, %v, %v", rec, ok, err)
	}
	h.end()
}

// If the kernel can't tell, the leases of one container count as one lease.
func TestInheritedUnknownWhileCopying(t *testing.T) {
	t.Parallel()
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, c, made := inherited(t, 1, mode, "1")
			if _, ok := w.lookup("1"); !ok {
				t.Fatal("the lease is not valid")
			}
			w.copy("1")
			c.n.Store(-1) // the container has removed all its files
			if rec, ok := w.lookup("1"); !ok || rec.ID != made.ID {
				t.Errorf("Lookup while a docker cp of this process runs: %+v, %v", rec, ok)
			}
			w.wantLeases("copying", "1", "1#2")
			w.restart()
			w.m.copies = c.holders
			if rec, ok := w.lookup("1"); ok {
				t.Errorf("Lookup with two leases of one container, of an earlier process: %+v", rec)
			}
			w.wantLeases("in the end")
		})
	}
}

// TestInheritedMounts asks the kernel itself, with mounts that propagate as those of a
// managed plugin do.
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
	if rec, ok := w.lookup("1"); !ok || rec.ID != made.ID {
		t.Errorf("with a container: %+v, %v", rec, ok)
	}
	w.copy("1")
	in.Close()
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	wait.For(t, "the lease to go", func() error {
		w.m.verifyInherited(context.Background())
		return wait.Equal(w.leases(), []string{"1#2"}) // docker cp's, which was given by this process
	})
	w.restart()
	if rec, ok := w.lookup("1"); ok {
		t.Errorf("without one: %+v", rec)
	}
}

// An engine that finds this process alive inherits the leases of the engine before. Leases
// stay valid while a container has the workspace, and are lost if none has it, or if the
// kernel can't tell.
func TestInheritLeases(t *testing.T) {
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
				w.m.copies = c.holders
				made, _ := w.open("v", "1", "mode", mode)
				if w.m.verifyInherited(t.Context()) {
					t.Error("something is inherited of this engine")
				}
				for _, want := range []bool{true, false} {
					leases, news := w.m.InheritLeases()
					if !slices.Equal(leases, []Lease{{"v", "1"}}) || news != want {
						t.Errorf("InheritLeases: %v, %v, want the lease, which is news once", leases, news)
					}
				}
				rec, ok := w.lookup("1")
				if ok != (n > 0) || ok && rec.ID != made.ID {
					t.Errorf("Lookup: %+v, %v", rec, ok)
				}
				if n <= 0 {
					w.wantLeases("of nobody")
					return
				}
				w.copy("1")
				w.release("v", "1#2")
				w.wantLeases("copied", "1")
				w.release("v", "1")
				w.wantLeases("in the end")
				if w.m.verifyInherited(t.Context()) {
					t.Error("something is inherited still")
				}
			})
		}
	}
}

// A workspace that has lost its leases may be gone before a Lookup, an Add or a Release that has found it by its lease
// gets the lock: then the lease is unknown.
func TestLostWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared"} {
		w, _, _ := inherited(t, 0, mode, "1")
		l := Lease{"v", "1"}
		found := w.m.records.leased(l)
		w.m.verifyInherited(t.Context())
		reaped(t, w)
		for _, again := range []func() (bool, error){
			func() (bool, error) { _, ok, err := w.m.Lookup(t.Context(), l); return ok, err },
			func() (bool, error) { _, ok, err := w.m.Add(t.Context(), l, "1#2"); return ok, err },
			func() (bool, error) { _, err := w.m.Release(t.Context(), l); return false, err },
			func() (bool, error) { return false, w.m.loseInherited(t.Context(), found, true) },
		} {
			w.m.records.leases[l] = found
			if ok, err := again(); ok || err != nil {
				t.Errorf("%s: %v, %v", mode, ok, err)
			}
		}
	}
}
