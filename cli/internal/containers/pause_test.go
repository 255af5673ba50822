package containers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/api"
)

// freezer is an engine whose containers can be paused, by their IDs.
type freezer struct {
	engine
	states   map[string]*container.State
	onPause  func(ctx context.Context, s *container.State) error
	onResume func(ctx context.Context, s *container.State, call int) error

	mu    sync.Mutex
	calls []string
	n     int // unpauses
}

func (f *freezer) ContainerInspect(_ context.Context, id string, _ client.ContainerInspectOptions) (r client.ContainerInspectResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[id]
	if s == nil {
		return r, errdefs.ErrNotFound
	}
	of := *s
	r.Container.State = &of
	return r, nil
}

func (f *freezer) ContainerPause(ctx context.Context, id string, _ client.ContainerPauseOptions) (r client.ContainerPauseResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "pause "+id)
	if f.onPause != nil {
		return r, f.onPause(ctx, f.states[id])
	}
	f.states[id].Paused = true
	return r, nil
}

func (f *freezer) ContainerUnpause(ctx context.Context, id string, _ client.ContainerUnpauseOptions) (r client.ContainerUnpauseResult, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, "unpause "+id)
	f.n++
	if f.onResume != nil {
		return r, f.onResume(ctx, f.states[id], f.n)
	}
	f.states[id].Paused = false
	return r, nil
}

var errNotPaused = fmt.Errorf("is not paused: %w", errdefs.ErrConflict)

// TestPause: containers that are paused are unpaused, whatever happens, and no others.
func TestPause(t *testing.T) {
	running := func(s *container.State) { s.Running = true }
	for name, c := range map[string]struct {
		state    func(*container.State) // of a; nil: it is gone
		onPause  func(ctx context.Context, s *container.State) error
		onResume func(ctx context.Context, s *container.State, call int) error
		calls    string // "…": any number of those that end it
		err      string // of the pause
		still    string // of the unpause
	}{
		"it runs":             {state: running, calls: "pause a, unpause a"},
		"the user's pause":    {state: func(s *container.State) { s.Running, s.Paused = true, true }},
		"it has ended":        {state: func(s *container.State) {}},
		"it is gone":          {},
		"it ends at the call": {state: running, calls: "pause a", onPause: func(_ context.Context, s *container.State) error { s.Running = false; return errdefs.ErrConflict }},
		"the user is faster":  {state: running, calls: "pause a", onPause: func(_ context.Context, s *container.State) error { s.Paused = true; return errdefs.ErrConflict }},
		"it restarts": {state: running, calls: "pause a", err: "is restarting", onPause: func(context.Context, *container.State) error {
			return fmt.Errorf("is restarting: %w", errdefs.ErrConflict)
		}},
		"no freezer": {state: running, calls: "pause a, unpause a…", err: "no cgroup",
			onPause:  func(context.Context, *container.State) error { return errors.New("no cgroup") },
			onResume: func(context.Context, *container.State, int) error { return errNotPaused }},
		"a pause with an error": {state: running, calls: "pause a, unpause a", err: "timeout", onPause: func(_ context.Context, s *container.State) error { s.Paused = true; return errors.New("timeout") }},
		"a refused unpause": {state: running, calls: "pause a, unpause a, unpause a", onResume: func(_ context.Context, s *container.State, call int) error {
			if call == 1 {
				return errNotPaused // and it stays paused
			}
			s.Paused = false
			return nil
		}},
		"a state that comes late": {state: running, calls: "pause a, unpause a, unpause a, unpause a, unpause a", onPause: func(context.Context, *container.State) error { return nil },
			onResume: func(_ context.Context, s *container.State, call int) error {
				if call == 4 {
					s.Paused = false
					return nil
				}
				s.Paused = call == 3
				return errNotPaused
			}},
		"the user's unpause": {state: running, calls: "pause a, unpause a…", onResume: func(_ context.Context, s *container.State, _ int) error { s.Paused = false; return errNotPaused }},
		"it ends while it is paused": {state: running, calls: "pause a, unpause a", onResume: func(_ context.Context, s *container.State, _ int) error {
			*s = container.State{}
			return errors.New("is not running")
		}},
		"no unpause": {state: running, calls: "pause a, unpause a…", still: `container "name" may still be paused: run docker unpause a (no way`,
			onResume: func(context.Context, *container.State, int) error { return errors.New("no way") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &freezer{states: map[string]*container.State{}, onPause: c.onPause, onResume: c.onResume}
				if c.state != nil {
					f.states["a"] = &container.State{}
					c.state(f.states["a"])
				}
				finder := &Finder{engine: f, proc: t.TempDir()}
				ctx, cancel := context.WithCancel(t.Context())
				_, before, resume, err := finder.Pause(ctx, []Container{{ID: "a", Name: "name"}})
				if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), `container "name" can't be paused: `+c.err)) {
					t.Errorf("pause: %v, want %q", err, c.err)
				}
				if want := name == "the user's pause" || name == "the user is faster"; want != (len(before) == 1) {
					t.Errorf("found paused: %v", before)
				}
				cancel() // the unpause is made nevertheless
				if err = resume(); c.still == "" && err != nil || c.still != "" && (err == nil || !strings.HasPrefix(err.Error(), c.still)) {
					t.Errorf("unpause: %v, want %q", err, c.still)
				}
				calls := strings.Join(f.calls, ", ")
				if begin, more := strings.CutSuffix(c.calls, "…"); more && strings.HasPrefix(calls, begin) {
					calls = c.calls
				}
				if calls != c.calls {
					t.Errorf("got %q, want %q", calls, c.calls)
				}
				if s := f.states["a"]; c.still == "" && s != nil && s.Paused && name != "the user's pause" && name != "the user is faster" {
					t.Error("it is still paused")
				}
			})
		})
	}
}

// TestPauseSeveral: after an error the others are not paused, and those that are get unpaused. So is one whose pause was
// interrupted.
func TestPauseSeveral(t *testing.T) {
	f := &freezer{states: map[string]*container.State{"a": {Running: true}, "b": {Running: true}, "c": {Running: true}}}
	f.onPause = func(_ context.Context, s *container.State) error {
		if s == f.states["b"] {
			return fmt.Errorf("is restarting: %w", errdefs.ErrConflict)
		}
		s.Paused = true
		return nil
	}
	finder := &Finder{engine: f, proc: t.TempDir()}
	list := []Container{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	paused, _, resume, err := finder.Pause(t.Context(), list)
	if _, ok := errors.AsType[*PauseError](err); !ok || len(paused) != 1 {
		t.Errorf("paused %v, %v", paused, err)
	}
	if err := resume(); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(f.calls, ", "), "pause a, pause b, unpause a"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	interrupt := errors.New("interrupt")
	ctx, cancel := context.WithCancelCause(t.Context())
	f.calls, f.onPause = nil, func(ctx context.Context, s *container.State) error {
		cancel(interrupt)
		if ctx.Err() != nil {
			t.Error("the engine is not waited for after an interrupt")
		}
		s.Paused = true
		return nil
	}
	if _, _, resume, err = finder.Pause(ctx, list); err != interrupt {
		t.Errorf("got %v, want %v", err, interrupt)
	}
	if err := resume(); err != nil || strings.Join(f.calls, ", ") != "pause a, unpause a" {
		t.Errorf("got %q, %v", f.calls, err)
	}
}

// TestPauseItself: a command in a container that it would pause could not unpause it.
func TestPauseItself(t *testing.T) {
	id := strings.Repeat("a1", 32)
	f := &freezer{states: map[string]*container.State{id: {Running: true}}}
	finder := &Finder{engine: f, proc: t.TempDir()}
	if err := os.Mkdir(filepath.Join(finder.proc, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	mounts := "1 2 254:1 /var/lib/docker/containers/" + id + "/hostname /etc/hostname rw - ext4 /dev/vda1 rw\n"
	if err := os.WriteFile(filepath.Join(finder.proc, "self", "mountinfo"), []byte(mounts), 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, resume, err := finder.Pause(t.Context(), []Container{{ID: id, Name: "me"}})
	if err == nil || !strings.Contains(err.Error(), "this command runs in it") {
		t.Error(err)
	}
	if err := resume(); err != nil || len(f.calls) > 0 {
		t.Errorf("%q, %v", f.calls, err)
	}
}

// TestUsers: a workspace's users are those of its containers that run.
func TestUsers(t *testing.T) {
	all := []api.Workspace{{ID: "1", Volume: "src", Phase: "mounted"}, {ID: "2", Volume: "alone", Phase: "mounted"}}
	f := &Finder{engine: engine{1: with("web", 1, "src"), 2: with("api", 2, "alone"), 1000: with("stopped", 1000, "src")}, driver: driver, proc: t.TempDir()}
	users, err := f.Users(t.Context(), "1", all)
	if err != nil || len(users) != 1 || users[0].Name != "web" {
		t.Errorf("%+v, %v", users, err)
	}
	// If it is not known which of two it has, both may be paused.
	all = append(all, api.Workspace{ID: "3", Volume: "src", Phase: "mounted"})
	if users, err = f.Users(t.Context(), "3", all); err != nil || len(users) != 1 || users[0].Name != "web" {
		t.Errorf("%+v, %v", users, err)
	}
}
