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

	"github.com/helmdeck/repos/tests/daemon"
)

// worker is one that starts and ends containers.
type worker struct {
	*soak
	n    int
	rand *rand.Rand
	step int
}

// kept is how many of the workers have a volume that keeps its workspace.
const kept = 3

// work does one thing at random.
func (w *worker) work() error {
	w.step++
	switch p := w.rand.IntN(100); {
	case p < 70:
		return w.private()
	case p < 76:
		return w.shared()
	case p < 84 && w.n < kept:
		return w.keep()
	case p < 88:
		r := w.pick()
		return errors.Join(r.push(w.text()), w.private())
	case p < 94:
		return w.restore()
	}
	return w.recreate()
}

// pick returns a repository; some are more popular than others.
func (w *worker) pick() *repo {
	n := len(w.repos)
	if w.rand.IntN(10) < 7 {
		n /= 4
	}
	return w.repos[w.rand.IntN(n)]
}

// text is one that nobody else writes.
func (w *worker) text() string { return fmt.Sprintf("%d of worker %d\n", w.step, w.n) }

func (w *worker) id() string { return fmt.Sprintf("%d-%d", w.n, w.step) }

const mine = "mine.txt"

// volume makes a volume of the worker's own, if it is not there.
func (w *worker) volume(r *repo, kind string, options map[string]string) (string, error) {
	name := fmt.Sprintf("%s-%d-%s", kind, w.n, r.name)
	all := map[string]string{"repo": r.url, "subject": r.name}
	for key, value := range options {
		all[key] = value
	}
	return name, w.d.Create(context.Background(), name, all)
}

// private mounts a volume, checks it, mostly writes, and ends: what was written is a discard then.
func (w *worker) private() error {
	r := w.pick()
	defer r.use()()
	name, err := w.volume(r, "private", nil)
	if err != nil {
		return err
	}
	newest := r.newest()
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	err = r.check(dir, newest)
	if err == nil && w.rand.IntN(10) < 7 {
		err = w.write(dir, w.text())
	}
	return errors.Join(err, w.unmount(name, w.id(), dir))
}

// write leaves something in a workspace and reads it back.
func (w *worker) write(dir, text string) error {
	noise := make([]byte, w.rand.IntN(100<<10))
	for i := range noise {
		noise[i] = byte(w.rand.Uint32())
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, mine), []byte(text), 0o644),
		os.WriteFile(filepath.Join(dir, "noise"), noise, 0o644),
		os.WriteFile(filepath.Join(dir, ".hdcache", "npm", fmt.Sprint(w.rand.IntN(20))), noise[:len(noise)/4], 0o644),
	)
	if err != nil {
		return err
	}
	return reads(dir, text)
}

func reads(dir, text string) error {
	got, err := os.ReadFile(filepath.Join(dir, mine))
	if err == nil && string(got) != text {
		err = fmt.Errorf("%s: %q, want %q", mine, got, text)
	}
	return err
}

// shared mounts a volume for two containers.
func (w *worker) shared() error {
	r := w.pick()
	defer r.use()()
	name, err := w.volume(r, "shared", map[string]string{"mode": "shared"})
	if err != nil {
		return err
	}
	newest := r.newest()
	one, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	if err := r.check(one, newest); err != nil {
		return err
	}
	two, err := w.mount(name, w.id()+"b")
	if err != nil {
		return err
	}
	if one != two {
		return fmt.Errorf("a shared workspace is at %s and at %s", one, two)
	}
	err = w.write(one, w.text())
	if err := w.d.Unmount(context.Background(), name, w.id()); err != nil {
		return err
	}
	return errors.Join(err, reads(two, w.text()), w.unmount(name, w.id()+"b", two))
}

// keep goes on in the workspace that the worker's volume keeps.
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
	if before := w.keeps[w.n]; before != "" {
		err = errors.Join(reads(dir, before), r.check(dir, 0, mine, "noise"))
	}
	w.keeps[w.n] = w.text()
	return errors.Join(err, w.write(dir, w.text()), w.d.Unmount(context.Background(), name, w.id()))
}

// restore goes on with a discard, and ends: it is one again.
func (w *worker) restore() error {
	list, err := w.d.Admin.Discards(context.Background())
	if err != nil || len(list) == 0 {
		return err
	}
	d := list[w.rand.IntN(len(list))]
	text, ok := w.claim(d.ID)
	if !ok {
		return nil // just another's
	}
	var r *repo
	for _, have := range w.repos {
		if have.name == d.Subject {
			r = have
		}
	}
	defer r.use()()
	name, err := w.volume(r, "restored-"+d.ID, map[string]string{"mode": "keep", "restore": d.ID})
	if daemon.IsRefused(err) && strings.Contains(err.Error(), "no discard") {
		w.mustBeEvicted(d.ID)
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	err = errors.Join(reads(dir, text), r.check(dir, 0, mine, "noise"))
	return errors.Join(err, w.d.Unmount(context.Background(), name, w.id()), w.d.Remove(context.Background(), name), w.discarded(dir))
}

// recreate removes a volume and makes it again: its clone goes on.
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
	newest := r.newest()
	dir, err := w.mount(name, w.id())
	if err != nil {
		return err
	}
	return errors.Join(r.check(dir, newest), w.unmount(name, w.id(), dir))
}

func (w *worker) mount(name, id string) (string, error) {
	began := time.Now()
	dir, err := w.d.Mount(context.Background(), name, id)
	if err != nil {
		return "", fmt.Errorf("mount %q: %w", name, err)
	}
	if w.timed != nil {
		w.timed(time.Since(began))
	}
	w.mounts.Add(1)
	return dir, nil
}

// unmount ends a workspace. If something was written, it is a discard from then on.
func (w *worker) unmount(name, id, dir string) error {
	return errors.Join(w.discarded(dir), w.d.Unmount(context.Background(), name, id))
}
