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

	"github.com/helmdeck/repos/internal/admin"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/daemon"
)

// Volume is one of an attacker.
type Volume struct {
	Name    string
	Options map[string]string
}

// Assault is an attack under way on a plugin.
type Assault struct {
	d       *daemon.Daemon
	volumes []Volume
	wait    sync.WaitGroup

	mu      sync.Mutex
	got     map[string]int // the first lines of what was answered
	mounted map[string]bool
}

// Begin creates and mounts all volumes at once, and returns at once. Who is told that the work goes on asks again, while
// an answer within mountWait can be expected before the context's deadline.
func Begin(ctx context.Context, d *daemon.Daemon, volumes []Volume, mountWait time.Duration) *Assault {
	a := &Assault{d: d, volumes: volumes, got: make(map[string]int), mounted: make(map[string]bool)}
	for _, v := range volumes {
		a.wait.Go(func() { a.note(v, a.one(ctx, v, mountWait)) })
	}
	return a
}

const mountID = "attack"

// goesOn is in the answer to a Mount whose work is not done.
const goesOn = "continues in the background"

func (a *Assault) one(ctx context.Context, v Volume, mountWait time.Duration) error {
	if err := answered(func(ctx context.Context) error { return a.d.Create(ctx, v.Name, v.Options) }); err != nil {
		return err
	}
	end, _ := ctx.Deadline()
	for {
		err := answered(func(ctx context.Context) error { _, err := a.d.Mount(ctx, v.Name, mountID); return err })
		if err == nil || !strings.Contains(err.Error(), goesOn) || time.Until(end) < mountWait {
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

// Wait returns when all have got an answer.
func (a *Assault) Wait() { a.wait.Wait() }

// Got is what the attacker was answered: the most frequent first line, and how many got another.
func (a *Assault) Got() string {
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

// End waits for all answers, ends what was mounted, and removes the volumes.
func (a *Assault) End() error {
	a.Wait()
	var errs []error
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, v := range a.volumes {
		all.Go(func() {
			err := error(nil)
			if a.mounted[v.Name] {
				err = answered(func(ctx context.Context) error { return a.d.Unmount(ctx, v.Name, mountID) })
			}
			err = errors.Join(err, answered(func(ctx context.Context) error { return a.d.Remove(ctx, v.Name) }))
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// Attackers is how the subjects of all attackers begin.
const Attackers = "attacker-"

// Attacked says whether a clone is an attacker's.
func Attacked(c janitor.CloneInfo) bool { return strings.HasPrefix(c.Subject, Attackers) }

// Delete deletes the clones of the attack, as an operator does: those that are listed, and those whose names are known
// from the volumes, for a clone that is still being fetched must be known to an operator too. It tries again until ctx
// ends, for a workspace that has just ended may still be free only in a moment. That there is no clone is not an error.
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
	return answered(func(ctx context.Context) error {
		clones, err := a.d.Admin.Clones(ctx)
		errs := []error{err}
		keys := make(map[string]bool)
		for _, c := range clones {
			if Attacked(c) {
				keys[c.Clone] = true
			}
		}
		for _, v := range a.volumes {
			u, err := volume.ParseURL(v.Options["repo"], volume.Schemes{})
			errs = append(errs, err)
			keys[v.Options["subject"]+"/"+u.Hash()] = true
		}
		for key := range keys {
			err := a.d.Admin.EvictClone(ctx, key)
			if e, ok := errors.AsType[*admin.Error](err); !ok || e.Status != http.StatusNotFound {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}
