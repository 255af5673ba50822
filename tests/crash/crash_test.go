package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/failpoint"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
)

func TestCrash(t *testing.T) {
	n := 0
	for _, s := range scenarios {
		for i, point := range s.points {
			n++
			t.Run(s.name+"/"+point, func(t *testing.T) {
				t.Parallel()
				// Recovery is killed too where the case is the scenario's first.
				crash(t, s, point, i == 0)
			})
		}
	}
	if n < 30 {
		t.Errorf("%d cases, want 30 at least", n)
	}
}

// TestEveryPointIsHit keeps the scenarios complete.
func TestEveryPointIsHit(t *testing.T) {
	var hit []string
	for _, s := range scenarios {
		for _, point := range s.points {
			name, _, _ := strings.Cut(point, ":")
			hit = append(hit, name)
		}
	}
	for _, name := range failpoint.Names {
		if !slices.Contains(hit, name) {
			t.Errorf("no scenario is killed at %q", name)
		}
	}
}

func crash(t *testing.T, s scenario, point string, again bool) {
	began := time.Now()
	w := newWorld(t)
	w.config.Env = append(w.config.Env, s.settings...)
	w.forgets = slices.Contains(s.settings, "DISCARD_TTL=0")
	w.start()
	w.populate(s.bare)
	if s.prepare != nil {
		s.prepare(w)
	}
	w.kill()
	if s.between != nil {
		s.between(w)
	}

	w.die(s, point)
	if s.powerLoss {
		w.losePower()
	}
	restarts := 0
	for ; again && w.dieRepairing(restarts+1); restarts++ {
	}
	w.start()
	w.settle()
	if err := w.promises(); err != nil {
		t.Errorf("after the crash: %v", err)
	}
	if s.do != nil {
		w.round++
		if err := s.do(w); err != nil {
			t.Errorf("done again: %v", err)
		}
		w.settle()
		if err := w.promises(); err != nil {
			t.Errorf("done again: %v", err)
		}
	}
	if err := invariant.Content(w.config.DataDir()); err != nil {
		t.Errorf("the content: %v", err)
	}
	w.finish()
	outcome := "holds"
	if t.Failed() {
		outcome = "FAILS"
	}
	if again {
		outcome += fmt.Sprintf(", also with %d crashes of its repair", restarts)
	}
	told(point, s.name, fmt.Sprintf("%s (%.1fs)", outcome, time.Since(began).Seconds()))
}

// die does what leads to a point, and asserts that the process has killed itself there.
func (w *world) die(s scenario, point string) {
	w.Helper()
	d, err := daemon.Run(w.with(point))
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
	if s.do != nil {
		err := daemon.Poll(func() error {
			select {
			case <-d.Ended():
				return nil
			default:
				return d.Call(w.Context(), "Plugin.Activate", nil, nil)
			}
		})
		if err != nil {
			w.Fatal(err)
		}
		w.round++
		if err := s.do(w); err != nil && daemon.IsRefused(err) {
			w.Errorf("before the crash: %v", err)
		}
	}
	select {
	case <-d.Ended():
	case <-time.After(daemon.Patience):
		w.Fatalf("%s was not hit; these were:\n%s", point, w.hits())
	}
	w.d = nil
	var exit *exec.ExitError
	if !errors.As(d.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.Fatalf("the plugin ended with %v, want its own SIGKILL", d.Err())
	}
	name, _, _ := strings.Cut(point, ":")
	if hits := strings.Fields(w.hits()); len(hits) == 0 || hits[len(hits)-1] != name {
		w.Fatalf("the last point was not %s:\n%s", name, w.hits())
	}
}

// hits are the names of the points that were hit, in order.
func (w *world) hits() string {
	data, err := os.ReadFile(w.points())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// dieRepairing starts the plugin, which kills itself at the n-th point that it comes to, and says whether it did
// before all was repaired.
func (w *world) dieRepairing(n int) bool {
	w.Helper()
	d, err := daemon.Run(w.with(fmt.Sprintf("*:%d", n)))
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
	died := false
	err = daemon.Poll(func() error {
		select {
		case <-d.Ended():
			died = true
			return nil
		default:
		}
		if err := d.Call(w.Context(), "Plugin.Activate", nil, nil); err != nil {
			return err
		}
		return invariant.Structure(w.config.DataDir())
	})
	if err != nil {
		w.Fatalf("start and die at the point number %d: %v", n, err)
	}
	if !died {
		_ = d.Kill() // it may have died after all
	}
	w.d = nil
	return died
}
