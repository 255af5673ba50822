package siege

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/daemon"
)

// Volume is a volume of an attacker.
type Volume struct {
	Name    string
	Options map[string]string
}

// Assault is a running attack on a plugin.
type Assault struct {
	d    *daemon.Daemon
	wait sync.WaitGroup

	mu      sync.Mutex
	volumes []Volume       // that were created
	got     map[string]int // how often each answer came, by its first line
	mounted map[string]bool
	early   error // why an attack that follows ended before its time
}

// Begin creates and mounts all volumes concurrently, and does not wait for the answers. If the
// answer to a Mount is that the work continues, the Mount is repeated as long as more than
// mountWait is left before the context's deadline. If following is not nil, it is repeated until the
// deadline, and a volume that is mounted is followed by the one that following returns at its index.
func Begin(ctx context.Context, d *daemon.Daemon, volumes []Volume, mountWait time.Duration, following func() ([]Volume, error)) *Assault {
	a := &Assault{d: d, got: make(map[string]int), mounted: make(map[string]bool)}
	for i, v := range volumes {
		a.wait.Go(func() {
			if following == nil {
				a.mount(ctx, v, mountWait)
			} else if err := a.follow(ctx, i, v, following); err != nil {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.early = errors.Join(a.early, err)
			}
		})
	}
	return a
}

// follow mounts a volume and those that follow it until ctx ends. It returns an error if it ends before.
func (a *Assault) follow(ctx context.Context, i int, v Volume, following func() ([]Volume, error)) error {
	for {
		err := a.mount(ctx, v, 0)
		if end, _ := ctx.Deadline(); ctx.Err() != nil || !time.Now().Before(end) { // the context's timer may be late
			return nil
		}
		if err != nil {
			return err
		}
		list, err := following()
		if err != nil {
			return err
		}
		v = list[i]
	}
}

// mount creates a volume and mounts it.
func (a *Assault) mount(ctx context.Context, v Volume, least time.Duration) error {
	a.mu.Lock()
	a.volumes = append(a.volumes, v)
	a.mu.Unlock()
	err := a.one(ctx, v, least)
	a.note(v, err)
	return err
}

// Early waits for all answers, and returns why volumes that were to follow one another did not do so until the
// deadline.
func (a *Assault) Early() error {
	a.Wait()
	return a.early
}

const mountID = "attack"

// continues is part of the answer to a Mount whose work is not done.
const continues = "continues in the background"

// one repeats a Mount that continues as long as more than least is left.
func (a *Assault) one(ctx context.Context, v Volume, least time.Duration) error {
	if err := withTimeout(func(ctx context.Context) error { return a.d.Create(ctx, v.Name, v.Options) }); err != nil {
		return err
	}
	end, _ := ctx.Deadline()
	for {
		err := withTimeout(func(ctx context.Context) error { _, err := a.d.Mount(ctx, v.Name, mountID); return err })
		if err == nil || !strings.Contains(err.Error(), continues) || time.Until(end) < least {
			return err
		}
	}
}

func (a *Assault) note(v Volume, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.mounted[v.Name] = true
		a.got["mounted"]++
		return
	}
	line, _, _ := strings.Cut(err.Error(), "\n")
	a.got[strings.NewReplacer(v.Options["repo"], "REPO", v.Name, "VOLUME").Replace(line)]++
}

// Wait waits until every volume has its final answer.
func (a *Assault) Wait() { a.wait.Wait() }

// Answers summarizes the answers to the attacker: the most frequent one, by its first line, and how
// many others came.
func (a *Assault) Answers() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	lines := slices.SortedFunc(maps.Keys(a.got), func(x, y string) int { return a.got[y] - a.got[x] })
	if len(lines) == 0 {
		return "nothing yet"
	}
	text := fmt.Sprintf("%d of %d: %.160s", a.got[lines[0]], len(a.volumes), lines[0])
	if len(lines) > 1 {
		text += fmt.Sprintf(" (and %d other answers, such as %.100s)", len(lines)-1, lines[1])
	}
	return text
}

// End waits for all answers, unmounts the volumes and removes them.
func (a *Assault) End() error {
	a.Wait()
	var errs []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, v := range a.volumes {
		all.Go(func() {
			err := error(nil)
			if a.mounted[v.Name] {
				err = withTimeout(func(ctx context.Context) error { return a.d.Unmount(ctx, v.Name, mountID) })
			}
			err = errors.Join(err, withTimeout(func(ctx context.Context) error { return a.d.Remove(ctx, v.Name) }))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// SubjectPrefix is the beginning of every attacker's subject.
const SubjectPrefix = "attacker-"

// OfAttacker reports whether a clone belongs to an attacker.
func OfAttacker(c api.Clone) bool { return strings.HasPrefix(c.Subject, SubjectPrefix) }

// Delete deletes the clones of the attack, as an operator does: the listed clones, and those that
// follow from the volumes' options, because an operator can delete a clone that is still being
// fetched. It tries again until ctx ends, because a workspace that just ended may hold its clone
// for a moment. An unknown clone is not an error.
func (a *Assault) Delete(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		err := a.delete()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (a *Assault) delete() error {
	return withTimeout(func(ctx context.Context) error {
		clones, err := a.d.Admin.Clones(ctx, api.Filter{})
		errs := []error{err}
		keys := make(map[string]bool)
		for _, c := range clones {
			if OfAttacker(c) {
				keys[c.Clone] = true
			}
		}
		for _, v := range a.volumes {
			u, err := volume.ParseURL(v.Options["repo"], volume.Schemes{})
			errs = append(errs, err)
			keys[v.Options["subject"]+"/"+u.Hash()] = true
		}
		for key := range keys {
			_, err := a.d.Admin.EvictClone(ctx, key)
			if e, ok := errors.AsType[*api.Error](err); !ok || e.Status != http.StatusNotFound {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}
