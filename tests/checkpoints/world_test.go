package checkpoints

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testtree"
	"github.com/helmdeck/repos/tests/wait"
)

// world is a plugin whose data is on a filesystem of its own, and a repository.
type world struct {
	*testing.T
	d      *daemon.Daemon
	remote *gitserver.Server
	n      int // volumes that were made
}

// onEach runs a test on each filesystem, whose image is in memory, because each checkpoint syncs it.
func onEach(t *testing.T, f func(w *world)) {
	for _, fs := range []struct {
		name string
		make func(dir string) error
	}{
		{"ext4", func(dir string) error { return testdisk.Ext4(dir, 2<<30) }},
		{"xfs", func(dir string) error { return testdisk.XFS(dir, 2<<30) }},
	} {
		t.Run(fs.name, func(t *testing.T) {
			t.Parallel()
			base, err := os.MkdirTemp("/dev/shm", "checkpoints")
			if err == nil {
				err = os.Chmod(base, 0o755) // for the user who fetches
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fine(t, os.RemoveAll(base)) })
			data := filepath.Join(base, "data")
			if err := fs.make(data); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { fine(t, testdisk.Eject(t, data)) })
			f(newWorld(t, data))
		})
	}
}

func fine(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func newWorld(t *testing.T, data string) *world {
	t.Helper()
	w := &world{T: t, remote: testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40, Commits: 2, Changes: 5})}
	dir, err := os.MkdirTemp(scratch, "w")
	if err == nil {
		err = os.Chmod(dir, 0o755) // for the user who fetches
	}
	if err != nil {
		t.Fatal(err)
	}
	if w.d, err = daemon.Start(t, daemon.Config{Program: program, Dir: dir, Data: data, Args: []string{"-start-wait", "1ms"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		fine(t, errors.Join(w.d.Stop(), testdir.DetachBelow(data)))
		if t.Failed() {
			log := w.d.Log()
			t.Logf("the end of the plugin's log:\n%s", log[max(0, len(log)-5000):])
		}
	})
	return w
}

// volume is a volume, and where it is mounted.
type volume struct {
	name, id, dir string
}

// start makes a volume and mounts it.
func (w *world) start(options ...string) volume {
	w.Helper()
	given := map[string]string{"repo": w.remote.URL("r")}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	w.n++
	v := volume{name: fmt.Sprint("v", w.n)}
	if err := w.d.Create(w.Context(), v.name, given); err != nil {
		w.Fatal(err)
	}
	w.mount(&v)
	return v
}

func (w *world) mount(v *volume) {
	w.Helper()
	var err error
	if v.dir, err = w.d.Mount(w.Context(), v.name, "1"); err != nil {
		w.Fatal(err)
	}
	v.id = filepath.Base(v.dir)
}

func (w *world) unmount(v volume) {
	w.Helper()
	if err := w.d.Unmount(w.Context(), v.name, "1"); err != nil {
		w.Fatal(err)
	}
}

// end unmounts and removes a volume.
func (w *world) end(v volume) {
	w.Helper()
	w.unmount(v)
	if err := w.d.Remove(w.Context(), v.name); err != nil {
		w.Fatal(err)
	}
}

// draft begins a checkpoint.
func (w *world) draft(v volume) api.Draft {
	w.Helper()
	d, err := w.d.Admin.Draft(w.Context(), v.id, api.Note{})
	if err != nil {
		w.Fatal(err)
	}
	return d
}

func (w *world) catchUp(d api.Draft) {
	w.Helper()
	if step, err := w.d.Admin.CatchUp(w.Context(), d.ID); err != nil || step.Torn > 0 {
		w.Fatalf("%+v, %v", step, err)
	}
}

func (w *world) keep(d api.Draft) api.Checkpoint {
	w.Helper()
	c, err := w.d.Admin.Keep(w.Context(), d.ID)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// describe describes a workspace, but for what is of each workspace its own.
func (w *world) describe(dir string) map[string]string {
	w.Helper()
	lines := testtree.Describe(w.T, dir, false, ".git/hdcache", ".git/helmdeck.json")
	delete(lines, ".git") // its time is that of helmdeck.json and of git's locks
	return lines
}

// same compares what begins with a checkpoint with what its workspace had.
func (w *world) same(what string, want map[string]string, dir string) {
	w.Helper()
	if d := testtree.Differ(want, w.describe(dir)); len(d) > 0 {
		w.Fatalf("%s: %s", what, testtree.Show(d))
	}
}

// remove removes all checkpoints but the newest ones, and those that others stand on.
func (w *world) remove(but int) {
	w.Helper()
	list := w.checkpoints()
	for _, c := range list[:max(0, len(list)-but)] {
		if c.InUse {
			continue
		}
		if err := w.d.Admin.RemoveCheckpoint(w.Context(), c.ID); err != nil {
			w.Fatal(err)
		}
	}
}

// nothingLeft removes all volumes and checkpoints, and checks that nothing of them is left. open is how many descriptors the
// plugin had before.
func (w *world) nothingLeft(open int) {
	w.Helper()
	list, err := w.d.List(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, v := range list {
		fine(w.T, w.d.Remove(w.Context(), v.Name))
	}
	if err := wait.Until(w, func() error {
		w.remove(0)
		all, err := w.d.Admin.Workspaces(w.Context(), api.Filter{})
		if err == nil && len(all) > 0 {
			err = fmt.Errorf("workspaces are left: %+v", all[0])
		}
		return err
	}); err != nil {
		w.Error(err)
	}
	fine(w.T, w.d.AwaitEmptyTrash())
	dirs, err := filepath.Glob(filepath.Join(w.d.DataDir(), "clones/*/*/workspaces/*"))
	if err != nil || len(dirs) > 0 {
		w.Errorf("left are %q, %v", dirs, err)
	}
	if err := wait.Until(w, func() error {
		n, err := invariant.Descriptors(w.d.Pid())
		if err == nil && n > open {
			err = fmt.Errorf("the plugin has %d open files, and had %d", n, open)
		}
		return err
	}); err != nil {
		w.Error(err)
	}
	fine(w.T, invariant.Structure(w.d.DataDir()))
}
