package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/daemon"
)

// worker starts and ends containers, as far as the plugin can tell.
type worker struct {
	*soak
	n    int
	rand *rand.Rand
	step int
}

// keepWorkers is the number of workers that have a volume with mode=keep.
const keepWorkers = 3

// work runs one operation, chosen at random.
func (w *worker) work() error {
	w.step++
	switch p := w.rand.IntN(100); {
	case p < 70:
		return w.private()
	case p < 76:
		return w.shared()
	case p < 84 && w.n < keepWorkers:
		return w.keep()
	case p < 88:
		r := w.pick()
		return errors.Join(r.push(w.text()), w.private())
	case p < 94:
		return w.restore()
	}
	return w.recreate()
}

// pick returns a random repository. It prefers the first quarter of them.
func (w *worker) pick() *repo {
	n := len(w.repos)
	if w.rand.IntN(10) < 7 {
		n /= 4
	}
	return w.repos[w.rand.IntN(n)]
}

// text returns a text that is unique to the worker and the step.
func (w *worker) text() string { return fmt.Sprintf("%d of worker %d\n", w.step, w.n) }

func (w *worker) id() string { return fmt.Sprintf("%d-%d", w.n, w.step) }

// ownFile is the file to which a worker writes its text.
const ownFile = "mine.txt"

// volume creates a volume of the worker, unless it exists.
func (w *worker) volume(r *repo, kind string, options map[string]string) (string, error) {
	name := fmt.Sprintf("%s-%d-%s", kind, w.n, r.name)
	all := map[string]string{"repo": r.url, "subject": r.name}
	for key, value := range options {
		all[key] = value
	}
	return name, w.d.Create(context.Background(), name, all)
}

// private mounts a volume, checks it, mostly writes to it, and unmounts it. If it wrote, the
// workspace becomes a checkpoint.
func (w *worker) private() error {
	r := w.pick()
	defer r.use()()
	name, err := w.volume(r, "private", nil)
	if err != nil {
		return err
	}
	minCommits := r.minCommits()
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	err = r.check(dir, minCommits)
	if err == nil && w.rand.IntN(10) < 7 {
		err = w.write(dir, w.text())
	}
	return errors.Join(err, w.unmount(name, w.id(), dir))
}

// write writes a text and random bytes to a workspace, and reads the text back.
func (w *worker) write(dir, text string) error {
	noise := make([]byte, w.rand.IntN(100<<10))
	for i := range noise {
		noise[i] = byte(w.rand.Uint32())
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, ownFile), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644),
		os.MkdirAll(filepath.Join(dir, ".git/hdcache", "mine"), 0o755),
		os.WriteFile(filepath.Join(dir, ".git/hdcache", "mine", fmt.Sprint(w.rand.IntN(20))), noise[:len(noise)/4], 0o644),
	)
	if err != nil {
		return err
	}
	return wantText(dir, text)
}

// wantText checks that a workspace has a text.
func wantText(dir, text string) error {
	got, err := os.ReadFile(filepath.Join(dir, ownFile))
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s: %q, want %q", ownFile, got, text)
	}
	return err
}

// shared mounts a volume with mode=shared for two containers.
func (w *worker) shared() error {
	r := w.pick()
	defer r.use()()
	name, err := w.volume(r, "shared", map[string]string{"mode": "shared"})
	if err != nil {
		return err
	}
	minCommits := r.minCommits()
	one, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	if err := r.check(one, minCommits); err != nil {
		return err
	}
	two, err := w.mount(name, w.id()+"b")
	if err != nil {
		return err
	}
	if one != two {
		return fmt.Errorf("the shared workspace is at %s and at %s, want one path", one, two)
	}
	err = w.write(one, w.text())
	if err := w.d.Unmount(context.Background(), name, w.id()); err != nil {
		return err
	}
	return errors.Join(err, wantText(two, w.text()), w.unmount(name, w.id()+"b", two))
}

// keep mounts the worker's volume with mode=keep, checks the text that it wrote there last, and
// writes a new one.
func (w *worker) keep() error {
	r := w.repos[len(w.repos)-1-w.n]
	r.mu.Lock()
	r.keeping = true
	r.mu.Unlock()
	name, err := w.volume(r, "keep", map[string]string{"mode": "keep"})
	if err != nil {
		return err
	}
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	if before := w.keptTexts[w.n]; before != "" {
		err = errors.Join(wantText(dir, before), r.check(dir, 0, ownFile, "noise"))
	}
	w.keptTexts[w.n] = w.text()
	return errors.Join(err, w.write(dir, w.text()), w.d.Unmount(context.Background(), name, w.id()))
}

// restore begins a workspace with a random checkpoint, checks it, changes it, and removes the volume, which leaves another
// checkpoint.
func (w *worker) restore() error {
	list, err := w.d.Admin.Checkpoints(context.Background(), api.Filter{})
	if err != nil || len(list) == 0 {
		return err
	}
	d := list[w.rand.IntN(len(list))]
	text, ok := w.claim(d.ID)
	if !ok {
		return nil // another worker has claimed it
	}
	lost := false
	defer func() {
		if lost {
			w.addLost(d.ID)
		} else {
			w.unclaim(d.ID, text)
		}
	}()
	var r *repo
	for _, have := range w.repos {
		if have.name == d.Subject {
			r = have
		}
	}
	defer r.use()()
	name, err := w.volume(r, "restored-"+d.ID, map[string]string{"mode": "keep", "from": d.ID})
	if daemon.IsRefused(err) && strings.Contains(err.Error(), "no checkpoint") {
		lost = true
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := w.mount(name, w.id())
	if daemon.IsRefused(err) && strings.Contains(err.Error(), "that it begins with is gone") {
		lost = true
		return w.d.Remove(context.Background(), name)
	}
	if err != nil {
		return err
	}
	err = errors.Join(wantText(dir, text), r.check(dir, 0, ownFile, "noise"), w.write(dir, w.text()))
	return errors.Join(err, w.d.Unmount(context.Background(), name, w.id()), w.d.Remove(context.Background(), name), w.addCheckpoint(dir))
}

// recreate removes a volume and creates it again, with the same clone.
func (w *worker) recreate() error {
	r := w.pick()
	defer r.use()()
	name, err := w.volume(r, "private", nil)
	if err == nil {
		err = w.d.Remove(context.Background(), name)
	}
	if err == nil {
		name, err = w.volume(r, "private", nil)
	}
	if err != nil {
		return err
	}
	minCommits := r.minCommits()
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	return errors.Join(r.check(dir, minCommits), w.unmount(name, w.id(), dir))
}

func (w *worker) mount(name, id string) (string, error) {
	began := time.Now()
	dir, err := w.d.Mount(context.Background(), name, id)
	if err != nil {
		return "", fmt.Errorf("mount %q: %w", name, err)
	}
	if w.onMount != nil {
		w.onMount(time.Since(began))
	}
	w.mounts.Add(1)
	return dir, nil
}

// unmount unmounts a volume. If a text was written to the workspace, it becomes a checkpoint.
func (w *worker) unmount(name, id, dir string) error {
	return errors.Join(w.addCheckpoint(dir), w.d.Unmount(context.Background(), name, id))
}
