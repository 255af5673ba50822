package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
)

// world is a plugin on a disk of its own, with a repository of its own, and what it has promised.
type world struct {
	*testing.T
	dir    string
	repo   string // of the server
	config daemon.Config
	d      *daemon.Daemon // the run that is on
	// volumes, leases, kept and discards are those that were answered to exist; unsure is what was asked for since: a
	// volume's name, or a lease.
	volumes  map[string]bool
	leases   map[lease]held
	kept     map[string]string // the text that a volume keeps
	discards map[string]bool   // texts that were in a workspace when it was unmounted
	built    map[string]bool   // texts that were build state
	unsure   map[any]bool
	forgets  bool // there are no discards
	round    int  // how often the case has done what it does
}

type lease struct{ volume, id string }

// held is a workspace that was answered to be mounted.
type held struct{ dir, commit, text string }

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
		volumes: make(map[string]bool), leases: make(map[lease]held), kept: make(map[string]string),
		discards: make(map[string]bool), built: make(map[string]bool), unsure: make(map[any]bool),
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
	w.config = daemon.Config{Program: program, Dir: w.dir, Data: filepath.Join(disk, "data"), Env: []string{"LOG_LEVEL=debug", "DISCARD_TTL=24h"}}
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

// restore makes a volume of a discard, which is none from then on.
func (w *world) restore(name, text string) error {
	found, err := w.found()
	if err != nil || found[text] == nil {
		return fmt.Errorf("no discard with %q: %w", text, err)
	}
	w.unsure[name] = true
	if err := w.create(name, "mode=keep", "restore="+found[text].ID); err != nil {
		return err
	}
	delete(w.discards, text)
	w.kept[name] = text
	return nil
}

// forget deletes a discard.
func (w *world) forget(text string) error {
	found, err := w.found()
	delete(w.discards, text)
	if err != nil || found[text] == nil {
		return err
	}
	return w.d.Admin.RemoveDiscard(context.Background(), found[text].ID)
}

// remove removes a volume, which must not be there from then on.
func (w *world) remove(name string) error {
	w.unsure[name] = true
	if err := w.d.Remove(context.Background(), name); err != nil {
		return err
	}
	delete(w.unsure, name)
	delete(w.volumes, name)
	if text, ok := w.kept[name]; ok {
		w.discards[text] = true
		delete(w.kept, name)
	}
	return nil
}

// mount mounts a volume and works in it: what it has written must be there as long as it is mounted, and be a discard
// after that, unless the volume keeps it.
func (w *world) mount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	h, err := w.enter(l)
	if err != nil {
		return err
	}
	h.text = cmp.Or(w.kept[volume], "written by "+volume+" for "+id+"\n")
	for _, name := range []string{mine, changed} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(h.text), 0o644); err != nil {
			return err
		}
	}
	delete(w.unsure, l)
	w.leases[l] = h
	return nil
}

// visit mounts a volume and writes nothing.
func (w *world) visit(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	h, err := w.enter(l)
	if err != nil {
		return err
	}
	delete(w.unsure, l)
	w.leases[l] = h
	return nil
}

// enter mounts a volume and checks what is in it: the commit, or what the volume keeps.
func (w *world) enter(l lease) (held, error) {
	dir, err := w.d.Mount(context.Background(), l.volume, l.id)
	if err != nil {
		return held{}, err
	}
	commit, err := testgit.Run(testgit.Command(dir, "rev-parse", "HEAD"))
	if err != nil {
		return held{}, err
	}
	h := held{dir: dir, commit: commit, text: w.kept[l.volume]}
	if err := errors.Join(intact(h), w.warm(dir)); err != nil {
		return h, fmt.Errorf("workspace of volume %q: %w", l.volume, err)
	}
	return h, nil
}

// build leaves build state in a workspace, two files that belong together, and ends it.
func (w *world) build(volume, id string) error {
	if err := w.mount(volume, id); err != nil {
		return err
	}
	h := w.leases[lease{volume, id}]
	w.built[h.text] = true
	dir := filepath.Join(h.dir, "node_modules", "pkg")
	return errors.Join(
		os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "a"), []byte(h.text), 0o644), os.WriteFile(filepath.Join(dir, "b"), []byte(h.text), 0o644),
		os.WriteFile(filepath.Join(dir, fmt.Sprint("of-", id)), nil, 0o644),
		w.unmount(volume, id))
}

// warm says what is wrong with the build state in a new workspace, if there is some.
func (w *world) warm(dir string) error {
	dir = filepath.Join(dir, "node_modules", "pkg")
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	a, err := os.ReadFile(filepath.Join(dir, "a"))
	b, err2 := os.ReadFile(filepath.Join(dir, "b"))
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if string(a) != string(b) || !w.built[string(a)] {
		return fmt.Errorf("build state %q and %q, want both of one of %q", a, b, slices.Collect(maps.Keys(w.built)))
	}
	return nil
}

// keep makes a volume that keeps its workspace, with something in it.
func (w *world) keep(volume, id string) error {
	err := errors.Join(w.create(volume, "mode=keep"), w.mount(volume, id))
	if err == nil {
		w.kept[volume] = w.leases[lease{volume, id}].text
	}
	return err
}

// unmount takes a mount back.
func (w *world) unmount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	if err := w.d.Unmount(context.Background(), volume, id); err != nil {
		return err
	}
	delete(w.unsure, l)
	if h, ok := w.leases[l]; ok && h.text != "" && w.kept[volume] == "" && !w.forgets {
		w.discards[h.text] = true
	}
	delete(w.leases, l)
	return nil
}

// push commits to the default branch.
func (w *world) push(content string) {
	w.Helper()
	if _, err := gitserver.Commit(server.Path(w.repo), "main", gitserver.Change{Path: "pushed.txt", Content: content}); err != nil {
		w.Fatal(err)
	}
}

// branch makes a branch at a commit of main, which every clone has.
func (w *world) branch(name string) {
	w.Helper()
	cmd := exec.Command("git", "--git-dir="+server.Path(w.repo), "update-ref", "refs/heads/"+name, "refs/heads/main")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}

// finish takes all back that was promised, and checks that nothing is left of it.
func (w *world) finish() {
	w.Helper()
	for l := range w.allLeases() {
		for range 3 { // a mount that was not answered counts too
			if err := w.unmount(l.volume, l.id); err != nil {
				w.Errorf("unmount %v: %v", l, err)
			}
		}
	}
	for name := range w.volumes {
		if err := w.remove(name); err != nil {
			w.Errorf("remove %q: %v", name, err)
		}
	}
	w.settle()
	if err := w.promises(); err != nil { // what was written is in the discards
		w.Errorf("at the end: %v", err)
	}
	if err := w.d.Stop(); err != nil {
		w.Error(err)
	}
	w.d = nil
	if err := invariant.Structure(w.config.DataDir()); err != nil {
		w.Errorf("at the end: %v", err)
	}
	// What this process has just forked for another case has its descriptors until it is another program.
	if err := daemon.Poll(func() error { return invariant.Leaks(w.dir) }); err != nil {
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
