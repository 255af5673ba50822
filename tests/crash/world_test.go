package crash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/workspace/upper"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// world is a plugin with its own disk and its own repository, and what its answers promised.
type world struct {
	*testing.T
	dir    string
	repo   string // its name on the server
	config daemon.Config
	d      *daemon.Daemon // the current run; nil if none runs
	// volumes, leases, kept and checkpoints must exist, because the plugin answered so.
	volumes     map[string]bool
	leases      map[lease]held
	kept        map[string]string // the text in the kept workspace of a volume
	begun       map[string]string // the text in the checkpoint that a volume begins with
	checkpoints map[string]bool   // the texts in the workspaces that were unmounted
	built       map[string]bool   // the texts that were written as build state
	// unsure has the volumes (by name) and leases for which a request was sent and no answer came.
	unsure        map[any]bool
	noCheckpoints bool // the settings turn checkpoints off
	round         int  // how often the case has run the scenario's operation
}

type lease struct{ volume, id string }

// held is a workspace that must be mounted, because the plugin answered so.
type held struct{ dir, commit, text string }

// The two files to which mount writes the text of a workspace: a new one and one of the repository.
const (
	addedFile   = "mine.txt"
	changedFile = "README.md"
)

// worlds counts the worlds, to name them.
var worlds atomic.Int32

func newWorld(t *testing.T) *world {
	t.Helper()
	name := fmt.Sprint("w", worlds.Add(1))
	w := &world{
		T: t, dir: filepath.Join(scratch, name), repo: name,
		volumes: make(map[string]bool), leases: make(map[lease]held), kept: make(map[string]string), begun: make(map[string]string),
		checkpoints: make(map[string]bool), built: make(map[string]bool), unsure: make(map[any]bool),
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
	w.config = daemon.Config{Program: program, Dir: w.dir, Data: filepath.Join(disk, "data"), Args: []string{"-start-wait", "1ms"}, Env: []string{
		"LOG_LEVEL=debug", "CHECKPOINT_TTL=24h", "DEFAULT_OPTS=refresh=always", // scenarios push right after a Create
	}}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the plugin's log:\n%s", w.config.Log())
		}
		if w.d != nil {
			_ = w.d.Kill() // it may have ended
		}
		if err := testdisk.Eject(t, disk); err != nil {
			t.Error(err)
		}
	})
	return w
}

// pointLog returns the path of the file to which a run with failpoints writes the points that it
// hits.
func (w *world) pointLog() string { return filepath.Join(w.dir, "points") }

// configFor returns the configuration of a run that kills itself at a point.
func (w *world) configFor(point string) daemon.Config {
	c := w.config
	c.Env = append([]string{"HELMDECK_FAILPOINT=" + point, "HELMDECK_FAILPOINT_LOG=" + w.pointLog()}, c.Env...)
	return c
}

// start runs the plugin without failpoints.
func (w *world) start() {
	w.Helper()
	d, err := daemon.Start(w, w.config)
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
}

// kill kills the plugin.
func (w *world) kill() {
	w.Helper()
	if err := w.d.Kill(); err != nil {
		w.Fatal(err)
	}
	w.d = nil
}

// settle waits until the plugin's background work is done.
func (w *world) settle() {
	w.Helper()
	if err := wait.Until(w, func() error { return invariant.Structure(w.config.DataDir()) }); err != nil {
		w.Fatalf("the data: %v", err)
	}
}

// create creates a volume, which must exist from then on.
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

// restore creates a volume that begins with a checkpoint, and keeps it.
func (w *world) restore(name, text string) error {
	saved, err := w.savedByText()
	if err != nil || saved[text] == nil {
		return fmt.Errorf("no checkpoint with %q: %w", text, err)
	}
	w.unsure[name] = true
	if err := w.create(name, "mode=keep", "from="+saved[text].ID); err != nil {
		return err
	}
	w.kept[name], w.unsure[unmounted(name)] = text, true
	return nil
}

// unmounted is what is unsure of a volume that is going to keep a workspace, until its first mount.
type unmounted string

// follow makes a checkpoint of a workspace that begins with another one.
func (w *world) follow(name, text string) error {
	saved, err := w.savedByText()
	if err != nil || saved[text] == nil {
		return fmt.Errorf("no checkpoint with %q: %w", text, err)
	}
	w.begun[name] = text
	return errors.Join(w.create(name, "from="+saved[text].ID), w.mount(name, "f"), w.unmount(name, "f"))
}

// followed is the text in the checkpoint that follow makes.
func followed(name string) string { return "written by " + name + " for f\n" }

// rewind makes a volume begin again with a checkpoint. What it had is a checkpoint from then on.
func (w *world) rewind(name, text string) error {
	saved, err := w.savedByText()
	if err != nil || saved[text] == nil {
		return fmt.Errorf("no checkpoint with %q: %w", text, err)
	}
	w.unsure[name] = true
	if _, err := w.d.Admin.Rewind(context.Background(), name, saved[text].ID); err != nil {
		return err
	}
	delete(w.unsure, name)
	w.checkpoints[w.kept[name]] = true
	w.kept[name] = text
	return nil
}

// checkpoint makes a checkpoint of a mounted workspace.
func (w *world) checkpoint(volume string) error {
	list, err := w.d.Admin.Workspaces(context.Background(), api.Filter{Volume: volume, Phase: "mounted"})
	if err != nil || len(list) == 0 {
		return fmt.Errorf("no workspace of volume %q: %w", volume, err)
	}
	_, err = w.d.Checkpoint(context.Background(), list[0].ID, api.Note{Name: "checkpoint"})
	return err
}

// removeCheckpoint deletes a checkpoint.
func (w *world) removeCheckpoint(text string) error {
	saved, err := w.savedByText()
	delete(w.checkpoints, text)
	if err != nil || saved[text] == nil {
		return err
	}
	return w.d.Admin.RemoveCheckpoint(context.Background(), saved[text].ID)
}

// remove removes a volume, which must not exist from then on.
func (w *world) remove(name string) error {
	w.unsure[name] = true
	if err := w.d.Remove(context.Background(), name); err != nil {
		return err
	}
	delete(w.unsure, name)
	delete(w.volumes, name)
	if text, ok := w.kept[name]; ok {
		w.checkpoints[text] = true
		delete(w.kept, name)
	}
	return nil
}

// mount mounts a volume and writes a text to it. The text must exist as long as the volume is
// mounted, and after that in a checkpoint, or in the volume's kept workspace.
func (w *world) mount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	h, err := w.mountAndCheck(l)
	if err != nil {
		return err
	}
	h.text = cmp.Or(w.kept[volume], "written by "+volume+" for "+id+"\n")
	for _, name := range []string{addedFile, changedFile} {
		if err := os.WriteFile(filepath.Join(h.dir, name), []byte(h.text), 0o644); err != nil {
			return err
		}
	}
	delete(w.unsure, l)
	delete(w.unsure, unmounted(volume))
	w.leases[l] = h
	return nil
}

// mountUnchanged mounts a volume and writes nothing to it.
func (w *world) mountUnchanged(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	h, err := w.mountAndCheck(l)
	if err != nil {
		return err
	}
	delete(w.unsure, l)
	w.leases[l] = h
	return nil
}

// mountAndCheck mounts a volume and checks that it has the files of its commit, with the changes
// that the volume kept.
func (w *world) mountAndCheck(l lease) (held, error) {
	dir, err := w.d.Mount(context.Background(), l.volume, l.id)
	if err != nil {
		return held{}, err
	}
	commit, err := testgit.Run(testgit.Command(dir, "rev-parse", "HEAD"))
	if err != nil {
		return held{}, err
	}
	h := held{dir: dir, commit: commit, text: cmp.Or(w.kept[l.volume], w.begun[l.volume])}
	if err := errors.Join(checkWorkspace(h), w.checkWarm(dir), checkCache(dir)); err != nil {
		return h, fmt.Errorf("workspace of volume %q: %w", l.volume, err)
	}
	return h, nil
}

// mountAndBuild mounts a volume, writes build state, which includes three files with the same text in two warm
// directories, and unmounts it.
func (w *world) mountAndBuild(volume, id string) error {
	if err := w.mount(volume, id); err != nil {
		return err
	}
	h := w.leases[lease{volume, id}]
	w.built[h.text] = true
	dir := filepath.Join(h.dir, "node_modules", "pkg")
	return errors.Join(
		os.MkdirAll(dir, 0o755), os.MkdirAll(filepath.Join(h.dir, "dist"), 0o755), os.WriteFile(filepath.Join(h.dir, "dist/c"), []byte(h.text), 0o644),
		os.WriteFile(filepath.Join(dir, "a"), []byte(h.text), 0o644), os.WriteFile(filepath.Join(dir, "b"), []byte(h.text), 0o644),
		os.WriteFile(filepath.Join(dir, fmt.Sprint("of-", id)), nil, 0o644), os.WriteFile(filepath.Join(h.dir, upper.Mark), nil, 0o644),
		w.unmount(volume, id))
}

// checkWarm checks the build state in a new workspace: if one of the three files exists, all have the same
// text, which was written once.
func (w *world) checkWarm(dir string) error {
	var texts []string
	for _, name := range []string{"node_modules/pkg/a", "node_modules/pkg/b", "dist/c"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case err == nil:
			texts = append(texts, string(text))
		case !errors.Is(err, os.ErrNotExist):
			return err
		}
	}
	if len(texts) > 0 && (len(texts) < 3 || len(slices.Compact(texts)) > 1 || !w.built[texts[0]]) {
		return fmt.Errorf("build state %q, want the same text three times, one of %q", texts, slices.Collect(maps.Keys(w.built)))
	}
	return nil
}

// keep creates a volume with mode=keep, mounts it and writes to it.
func (w *world) keep(volume, id string) error {
	err := errors.Join(w.create(volume, "mode=keep"), w.mount(volume, id))
	if err == nil {
		w.kept[volume] = w.leases[lease{volume, id}].text
	}
	return err
}

// unmount ends a mount.
func (w *world) unmount(volume, id string) error {
	l := lease{volume, id}
	w.unsure[l] = true
	if err := w.d.Unmount(context.Background(), volume, id); err != nil {
		return err
	}
	delete(w.unsure, l)
	if h, ok := w.leases[l]; ok && h.text != "" && w.kept[volume] == "" && !w.noCheckpoints {
		w.checkpoints[h.text] = true
	}
	delete(w.leases, l)
	return nil
}

// push adds a commit to the default branch.
func (w *world) push(content string) {
	w.Helper()
	if _, err := gitserver.Commit(server.Path(w.repo), "main", gitserver.Change{Path: "pushed.txt", Content: content}); err != nil {
		w.Fatal(err)
	}
}

// branch creates a branch at the head of main, a commit that every clone has.
func (w *world) branch(name string) {
	w.Helper()
	testgit.Git(w, server.Path(w.repo), "update-ref", "refs/heads/"+name, "refs/heads/main")
}

// finish ends all mounts and removes all volumes, and checks that nothing is left of them.
func (w *world) finish() {
	w.Helper()
	for l := range w.allLeases() {
		for range 3 { // the plugin also counts mounts whose answer was lost
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
	if err := w.checkPromises(); err != nil { // the texts must be in checkpoints
		w.Errorf("at the end: %v", err)
	}
	if err := w.d.Stop(); err != nil {
		w.Error(err)
	}
	w.d = nil
	if err := invariant.Ended(w.config.DataDir()); err != nil {
		w.Errorf("at the end: %v", err)
	}
	// A process that is being forked for another case has this process's descriptors until it
	// executes its program.
	if err := wait.Until(w, func() error { return invariant.Leaks(w.dir) }); err != nil {
		w.Errorf("at the end: %v", err)
	}
}

// allLeases returns the leases that must exist and those that may exist.
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
