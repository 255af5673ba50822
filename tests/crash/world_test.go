package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
)

// world is a plugin on a disk of its own, with a repository of its own, and what it has promised.
type world struct {
	*testing.T
	dir    string
	repo   string // of the server
	config daemon.Config
	d      *daemon.Daemon // the run that is on
	// volumes are those that were answered to exist; unsure what was asked for since.
	volumes map[string]bool
	leases  map[lease]held
	unsure  map[any]bool
	round   int // how often the case has done what it does
}

type lease struct{ volume, id string }

// held is a workspace that was answered to be mounted.
type held struct{ dir, commit string }

// The file that each workspace is given, and the one of the repository that is changed in each.
const (
	mine    = "mine.txt"
	changed = "README.md"
)

// worlds counts those that were made, for their names.
var worlds atomic.Int32

func newWorld(t *testing.T) *world {
	t.Helper()
	name := fmt.Sprint("w", worlds.Add(1))
	w := &world{
		T: t, dir: filepath.Join(scratch, name), repo: name,
		volumes: make(map[string]bool), leases: make(map[lease]held), unsure: make(map[any]bool),
	}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	disk := filepath.Join(w.dir, "disk")
	if err := testdisk.Ext4(disk, 256<<20, "-N", "20000"); err != nil {
		t.Fatal(err)
	}
	if _, err := gitserver.Generate(server.Path(name), gitserver.Spec{Seed: 1, Files: 12, Commits: 2, Changes: 3}); err != nil {
		t.Fatal(err)
	}
	w.config = daemon.Config{Program: program, Dir: w.dir, Data: filepath.Join(disk, "data"), Env: []string{"LOG_LEVEL=debug"}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", w.config.Log())
		}
		if w.d != nil {
			_ = w.d.Kill() // it may have ended
		}
		if err := testdisk.Eject(disk); err != nil {
			t.Error(err)
		}
	})
	return w
}

// points is the file that a run with failpoints writes.
func (w *world) points() string { return filepath.Join(w.dir, "points") }

// with is the configuration of a run that dies at a point.
func (w *world) with(point string) daemon.Config {
	c := w.config
	c.Env = append([]string{"HELMDECK_FAILPOINT=" + point, "HELMDECK_FAILPOINT_LOG=" + w.points()}, c.Env...)
	return c
}

// start runs the plugin, without points.
func (w *world) start() {
	w.Helper()
	d, err := daemon.Start(w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
}

// kill ends the run.
func (w *world) kill() {
	w.Helper()
	if err := w.d.Kill(); err != nil {
		w.Fatal(err)
	}
	w.d = nil
}

// settle waits until the plugin has done what it does in the background.
func (w *world) settle() {
	w.Helper()
	if err := daemon.Poll(func() error { return invariant.Structure(w.config.DataDir()) }); err != nil {
		w.Fatalf("the data: %v", err)
	}
}

// create makes a volume, and notes that it must be there from now on.
func (w *world) create(name string, options ...string) error {
	given := map[string]string{"repo": server.URL(w.repo)}
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		given[key] = value
	}
	w.unsure[name] = true
	if err := w.d.Create(context.Background(), name, given); err != nil {
		return err
	}
	delete(w.unsure, name)
	w.volumes[name] = true
	return nil
}

// remove removes a volume, which must not be there from then on.
func (w *world) remove(name string) error {
	w.unsure[name] = true
	if err := w.d.Remove(context.Background(), name); err != nil {
		return err
	}
	delete(w.unsure, name)
	delete(w.volumes, name)
	return nil
}

// mount mounts a volume and works in it: what it has written must be there as long as it is mounted.
func (w *world) mount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	dir, err := w.d.Mount(context.Background(), volume, id)
	if err != nil {
		return err
	}
	delete(w.unsure, l)
	commit, err := daemon.Git(dir, nil, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	w.leases[l] = held{dir, commit}
	if err := invariant.Compare(filepath.Join(dir, ".git"), dir, commit, false); err != nil && !onlyCacheLink(err) {
		return fmt.Errorf("a new workspace: %w", err)
	}
	return w.work(l)
}

// onlyCacheLink says whether what differs in a workspace is the link to the cache, which is no file of the commit.
func onlyCacheLink(err error) bool {
	return strings.HasSuffix(err.Error(), "1 files differ: not in the commit: .hdcache")
}

// work writes into a leased workspace.
func (w *world) work(l lease) error {
	dir := w.leases[l].dir
	return errors.Join(
		os.WriteFile(filepath.Join(dir, mine), []byte(text(l)), 0o644),
		os.WriteFile(filepath.Join(dir, changed), []byte(text(l)), 0o644),
	)
}

// text is what is written for a lease.
func text(l lease) string { return "written by " + l.volume + " for " + l.id + "\n" }

// unmount takes a mount back.
func (w *world) unmount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	if err := w.d.Unmount(context.Background(), volume, id); err != nil {
		return err
	}
	delete(w.unsure, l)
	delete(w.leases, l)
	return nil
}

// push commits to the default branch.
func (w *world) push(n int) {
	w.Helper()
	if _, err := gitserver.Commit(server.Path(w.repo), "main", gitserver.Change{Path: "pushed.txt", Content: fmt.Sprint(n)}); err != nil {
		w.Fatal(err)
	}
}

// promises says what was answered and does not hold.
func (w *world) promises() error {
	var errs []error
	list, err := w.d.List(context.Background())
	errs = append(errs, err)
	there := make(map[string]bool)
	for _, v := range list {
		there[v.Name] = true
		if !w.volumes[v.Name] && !w.unsure[v.Name] {
			errs = append(errs, fmt.Errorf("volume %q is there", v.Name))
		}
	}
	for name := range w.volumes {
		if !there[name] && !w.unsure[name] {
			errs = append(errs, fmt.Errorf("volume %q was lost", name))
		}
	}
	for l, h := range w.leases {
		if !w.unsure[l] {
			errs = append(errs, w.intact(l, h))
		}
	}
	return errors.Join(errs...)
}

// intact says what is wrong with a leased workspace.
func (w *world) intact(l lease, h held) error {
	for _, name := range []string{mine, changed} {
		got, err := os.ReadFile(filepath.Join(h.dir, name))
		if err != nil || string(got) != text(l) {
			return fmt.Errorf("%s of %v: got %q, %v", name, l, got, err)
		}
	}
	commit, err := daemon.Git(h.dir, nil, "rev-parse", "HEAD")
	if err == nil && commit != h.commit {
		err = fmt.Errorf("HEAD of %v is %s, want %s", l, commit, h.commit)
	}
	if err != nil {
		return err
	}
	status, err := daemon.Git(h.dir, nil, "status", "--porcelain")
	if want := " M " + changed + "\n?? " + mine; err == nil && status != want {
		err = fmt.Errorf("status of %v: got %q, want %q", l, status, want)
	}
	if err != nil {
		return err
	}
	_, err = daemon.Git(h.dir, nil, "fsck", "--connectivity-only", "--no-dangling")
	return err
}

// finish takes all back that was promised, and checks that nothing is left of it.
func (w *world) finish() {
	w.Helper()
	for _, m := range []map[lease]bool{w.allLeases()} {
		for l := range m {
			for range 3 { // a mount that was not answered counts too
				if err := w.unmount(l.volume, l.id); err != nil {
					w.Errorf("unmount %v: %v", l, err)
				}
			}
		}
	}
	for name := range w.volumes {
		if err := w.remove(name); err != nil {
			w.Errorf("remove %q: %v", name, err)
		}
	}
	w.settle()
	if err := w.d.Stop(); err != nil {
		w.Error(err)
	}
	w.d = nil
	if err := errors.Join(invariant.Structure(w.config.DataDir()), invariant.Leaks(w.dir)); err != nil {
		w.Errorf("at the end: %v", err)
	}
}

// allLeases are those that were answered, and those that may be.
func (w *world) allLeases() map[lease]bool {
	all := make(map[lease]bool)
	for l := range w.leases {
		all[l] = true
	}
	for what := range w.unsure {
		if l, ok := what.(lease); ok {
			all[l] = true
		}
	}
	return all
}
