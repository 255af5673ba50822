package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace"
	"github.com/helmdeck/repos/tests/wait"
)

// write writes a file in a workspace.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// has reports whether a workspace has a file.
func has(t *testing.T, dir, name string) bool {
	t.Helper()
	_, err := os.Lstat(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func (w *world) unmountOK(name, id string) {
	w.t.Helper()
	if err := w.Unmount(w.t.Context(), name, id); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) removeOK(name string) {
	w.t.Helper()
	if err := w.core.Remove(w.t.Context(), name); err != nil {
		w.t.Fatal(err)
	}
}

// checkpoints waits until a volume has n checkpoints whose changed files are counted, and returns them.
func (w *world) checkpoints(name string, n int) (list []workspace.Checkpoint) {
	w.t.Helper()
	wait.For(w.t, fmt.Sprintf("%d checkpoints of %s", n, name), func() error {
		list = nil
		for _, d := range w.core.Workspaces.Checkpoints() {
			if d.Volume == name && d.Changed != nil {
				list = append(list, d)
			}
		}
		return wait.Equal(len(list), n)
	})
	return list
}

// settled waits until all ended workspaces are gone.
func (w *world) settled() {
	w.t.Helper()
	wait.For(w.t, "every ended workspace to go", func() error {
		for _, rec := range w.core.Workspaces.Workspaces() {
			if rec.Phase == meta.Ended {
				return fmt.Errorf("%+v", rec)
			}
		}
		return nil
	})
}

func (w *world) status(name string) map[string]any {
	w.t.Helper()
	v, err := w.Get(name)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Status
}

// modes runs f for each mode in list, in a world of its own with a volume "v".
func modes(t *testing.T, list []string, f func(t *testing.T, w *world, mode string)) {
	t.Parallel()
	for _, mode := range list {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create("v", "mode", mode)
			f(t, w, mode)
		})
	}
}

var allModes = []string{"private", "shared", "keep"}

// TestTwoContainersOneVolume checks that two containers have a workspace each, or share one,
// depending on the mode.
func TestTwoContainersOneVolume(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		first, second := w.mountOK("v", "1"), w.mountOK("v", "2")
		if got, want := first == second, mode != "private"; got != want {
			t.Errorf("both mounts have one workspace: %v, want %v", got, want)
		}
		write(t, first, "mine", "x")
		if got, want := has(t, second, "mine"), mode != "private"; got != want {
			t.Errorf("the second container sees the first one's file: %v, want %v", got, want)
		}
		w.unmountOK("v", "1")
		if !has(t, second, "README.md") {
			t.Error("the second container has lost its workspace")
		}
		leases := w.status("v")["leases"].([]leaseStatus)
		if len(leases) != 1 || leases[0].ID != "2" {
			t.Errorf("leases %+v, want only that of ID 2", leases)
		}
	})
}

// TestLastContainerEnds checks that the last Unmount turns the workspace into a checkpoint. With
// mode=keep, the workspace stays.
func TestLastContainerEnds(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		dir := w.mountOK("v", "1")
		write(t, dir, "mine", "x")
		w.unmountOK("v", "1")
		if mode == "keep" {
			if !has(t, dir, "mine") {
				t.Error("the kept workspace has lost its file")
			}
		} else {
			d := w.checkpoints("v", 1)[0]
			if *d.Changed != 1 || d.Size.Bytes == 0 || d.Repo != w.server.URL("r") || d.Subject != "default" || d.Ref != "refs/heads/main" {
				t.Errorf("checkpoint %+v", d)
			}
			if got := w.status("v"); got["checkpoints"] != 1 || got["checkpoint_bytes"] != d.Size.Bytes {
				t.Errorf("status %v", got)
			}
			if got := w.left(); len(got) > 0 {
				t.Errorf("left %q", got)
			}
		}
		next := w.mountOK("v", "2")
		if got, want := has(t, next, "mine"), mode == "keep"; got != want {
			t.Errorf("the next workspace has the file: %v, want %v", got, want)
		}
	})
}

// TestUnchangedWorkspaceLeavesNoCheckpoint checks that a workspace without changes leaves no checkpoint. Files in the
// cache and git's index do not count as changes.
func TestUnchangedWorkspaceLeavesNoCheckpoint(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		dir := w.mountOK("v", "1")
		write(t, dir, ".git/hdcache/go-mod/x", "cache")
		write(t, dir, ".git/index", "as git status leaves it")
		w.unmountOK("v", "1")
		w.removeOK("v")
		w.settled()
		if got := w.core.Workspaces.Workspaces(); len(got) > 0 {
			t.Errorf("left: %+v", got)
		}
	})
}

// TestFirstMountsAtOnce checks that concurrent first Mounts make one workspace.
func TestFirstMountsAtOnce(t *testing.T) {
	modes(t, []string{"shared", "keep"}, func(t *testing.T, w *world, mode string) {
		var wg sync.WaitGroup
		dirs := make([]string, 16)
		for i := range dirs {
			wg.Go(func() {
				dir, err := w.Mount(t.Context(), "v", fmt.Sprint(i))
				if err != nil {
					t.Error(err)
				}
				dirs[i] = dir
			})
		}
		wg.Wait()
		for _, dir := range dirs {
			if dir != dirs[0] {
				t.Errorf("mounted at %s and %s", dir, dirs[0])
			}
		}
		if got := w.core.Workspaces.Workspaces(); len(got) != 1 || len(got[0].Leases) != len(dirs) {
			t.Errorf("workspaces %+v, want one with all leases", got)
		}
		for i := range dirs {
			w.unmountOK("v", fmt.Sprint(i))
		}
		if got := len(w.core.Workspaces.Leases("v")); got != 0 {
			t.Errorf("%d workspaces are leased, want none", got)
		}
	})
}

// TestVolumeRemoved checks that the kept workspace of a removed volume becomes a checkpoint.
func TestVolumeRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "mode", "keep")
	write(t, w.mountOK("v", "1"), "mine", "x")
	wantErr(t, "remove", w.core.Remove(t.Context(), "v"), "is mounted")
	w.unmountOK("v", "1")
	w.removeOK("v")
	w.checkpoints("v", 1)
	if got := w.left(); len(got) > 0 {
		t.Errorf("left %q", got)
	}
}

// TestRefMoved checks that a new workspace is at the ref's new commit. A kept workspace stays at its
// commit, and Status says how many commits it is behind.
func TestRefMoved(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		w.mountOK("v", "1")
		old := w.status("v")["commit"]
		for i := range 3 {
			if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "new", Content: fmt.Sprint(i)}); err != nil {
				t.Fatal(err)
			}
		}
		second := w.mountOK("v", "2")
		if got, want := has(t, second, "new"), mode == "private"; got != want {
			t.Errorf("the next mount while the volume is mounted is at the new commit: %v, want %v", got, want)
		}
		w.unmountOK("v", "1")
		w.unmountOK("v", "2")
		next := w.mountOK("v", "3")
		if got, want := has(t, next, "new"), mode != "keep"; got != want {
			t.Errorf("the next mount after the last unmount is at the new commit: %v, want %v", got, want)
		}
		if mode != "keep" {
			return
		}
		wait.For(t, "Status to say how far behind the workspace is", func() error {
			s := w.status("v")
			return wait.Check(s["behind"] == 3 && s["kept_commit"] == old && s["commit"] != old, "%v", s)
		})
	})
}

// TestKeptNeedsNoRemote checks that a kept workspace can be mounted while the remote is silent.
func TestKeptNeedsNoRemote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "mode", "keep")
	write(t, w.mountOK("v", "1"), "mine", "x")
	w.unmountOK("v", "1")
	g := gitserver.NewGate()
	w.server.Wrap(g.Fault)
	defer close(g.Open)
	if dir := w.mountOK("v", "2"); !has(t, dir, "mine") {
		t.Error("the kept workspace has lost its file")
	}
}

// TestHungUpFirstMount checks that no workspace stays if the client of the first Mount of a volume
// with mode=keep hangs up.
func TestHungUpFirstMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "mode", "keep", "refresh", "never")
	w.mountOK("v", "1")
	w.unmountOK("v", "1")
	w.removeOK("v")
	w.create("v", "mode", "keep", "refresh", "never")
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Mount(gone, "v", "1"); err == nil {
		t.Error("a Mount whose client is gone succeeded")
	}
	w.settled()
	if got := w.core.Workspaces.Workspaces(); len(got) > 0 {
		t.Errorf("left %+v", got)
	}
}

// TestDockerRestart sends an Unmount, then a Mount with another ID, as `docker restart` does.
func TestDockerRestart(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		dir := w.mountOK("v", "1")
		write(t, dir, "mine", "x")
		w.unmountOK("v", "1")
		dir = w.mountOK("v", "2")
		if got, want := has(t, dir, "mine"), mode == "keep"; got != want {
			t.Errorf("the only container: the workspace continues: %v, want %v", got, want)
		}
		// Another container has the volume, so a shared workspace is not reset.
		write(t, dir, "mine", "x")
		other := w.mountOK("v", "3")
		w.unmountOK("v", "2")
		dir = w.mountOK("v", "4")
		if got, want := has(t, dir, "mine"), mode != "private"; got != want {
			t.Errorf("beside another container: the workspace continues: %v, want %v", got, want)
		}
		if got, want := dir == other, mode != "private"; got != want {
			t.Errorf("both containers have one workspace: %v, want %v", got, want)
		}
	})
}

// TestDockerCp sends the Mounts of `docker cp`: for a running container with the container's ID, for
// a stopped one with a new ID each time.
func TestDockerCp(t *testing.T) {
	modes(t, allModes, func(t *testing.T, w *world, mode string) {
		dir := w.mountOK("v", "1")
		if again := w.mountOK("v", "1"); again != dir {
			t.Errorf("while the container runs: mounted at %s, want %s", again, dir)
		}
		write(t, dir, "running", "x")
		w.unmountOK("v", "1")
		if !has(t, dir, "running") {
			t.Error("the container has lost its workspace")
		}
		w.unmountOK("v", "1")
		for _, id := range []string{"cp 1", "cp 2"} {
			dir = w.mountOK("v", id)
			if got, want := has(t, dir, "running"), mode == "keep"; got != want {
				t.Errorf("while the container is stopped: the file of the run is there: %v, want %v", got, want)
			}
			write(t, dir, "stopped", "x")
			w.unmountOK("v", id)
		}
		dir = w.mountOK("v", "2")
		if got, want := has(t, dir, "stopped"), mode == "keep"; got != want {
			t.Errorf("the next start sees the copied file: %v, want %v", got, want)
		}
		if mode != "keep" {
			w.checkpoints("v", 3)
		}
	})
}

// TestSlowFirstMount checks that Mounts that wait for the first workspace of a volume delay no other
// volume, and get the same workspace.
func TestSlowFirstMount(t *testing.T) {
	modes(t, []string{"shared", "keep"}, func(t *testing.T, w *world, mode string) {
		w.create("other", "refresh", "never")
		w.mountOK("other", "0")
		g := gitserver.NewGate()
		w.server.Wrap(g.Fault)
		dirs := make(chan string, 2)
		for i := range cap(dirs) {
			go func() {
				dir, err := w.Mount(t.Context(), "v", fmt.Sprint(i))
				if err != nil {
					t.Error(err)
				}
				dirs <- dir
			}()
		}
		<-g.Arrived
		if s := w.status("v"); len(s["leases"].([]leaseStatus)) != 0 || len(w.List()) != 2 {
			t.Errorf("status %v", s)
		}
		w.mountOK("other", "1") // has the same clone
		wantErr(t, "remove", w.core.Remove(t.Context(), "v"), "is mounted")
		close(g.Open)
		if first, second := <-dirs, <-dirs; first != second || first == "" {
			t.Errorf("mounted at %q and %q, want one workspace", first, second)
		}
	})
}

// TestSharedAsksOnce checks that only the Mount that makes the shared workspace asks the remote.
func TestSharedAsksOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "mode", "shared")
	w.mountOK("v", "1") // Create's work in the background may still ask after this
	w.restart()
	w.server.Reset()
	w.mountOK("v", "2")
	if got := w.server.Stats("r"); got.LsRefs != 0 || got.Fetches != 0 {
		t.Errorf("the server saw %+v, want no question", got)
	}
}
