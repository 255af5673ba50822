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
	"github.com/helmdeck/repos/tests/short"
	"github.com/helmdeck/repos/tests/wait"
)

func TestCrash(t *testing.T) {
	n := 0
	for _, s := range scenarios {
		for i, point := range s.points {
			n++
			t.Run(s.name+"/"+point, func(t *testing.T) {
				short.OneOf(t, 10)
				t.Parallel()
				// In the scenario's first case the repair is killed too.
				crash(t, s, point, i == 0)
			})
		}
	}
	if n < 30 {
		t.Errorf("%d cases, want at least 30", n)
	}
}

// TestEveryPointIsHit checks that every failpoint is in a scenario.
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
			t.Errorf("no scenario has the failpoint %q", name)
		}
	}
}

// crash runs one case: the plugin is killed at point, and with killRepair during the repair too.
func crash(t *testing.T, s scenario, point string, killRepair bool) {
	began := time.Now()
	w := newWorld(t)
	w.config.Env = append(w.config.Env, s.settings...)
	w.noCheckpoints = slices.Contains(s.settings, "CHECKPOINT_TTL=0")
	w.start()
	w.populate(s.bare)
	if s.prepare != nil {
		s.prepare(w)
	}
	w.kill()
	if s.between != nil {
		s.between(w)
	}

	w.runToPoint(s, point)
	if s.powerLoss {
		w.losePower()
	}
	restarts := 0
	for ; killRepair && w.killDuringRepair(restarts+1); restarts++ {
	}
	w.start()
	w.settle()
	if err := w.checkPromises(); err != nil {
		t.Errorf("after the crash: %v", err)
	}
	if s.do != nil {
		w.round++
		if err := s.do(w); err != nil {
			t.Errorf("the second time: %v", err)
		}
		w.settle()
		if err := w.checkPromises(); err != nil {
			t.Errorf("after the second time: %v", err)
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
	if killRepair {
		outcome += fmt.Sprintf(", also with %d crashes of the repair", restarts)
	}
	addLine(point, s.name, fmt.Sprintf("%s (%.1fs)", outcome, time.Since(began).Seconds()))
}

// runToPoint runs the operation that leads to a point, and checks that the process killed itself
// there.
func (w *world) runToPoint(s scenario, point string) {
	w.Helper()
	d, err := daemon.Run(w, w.configFor(point))
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
	if s.do != nil {
		err := wait.Until(w, func() error {
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
	case <-time.After(wait.Most(w)):
		w.Fatalf("%s was not hit; the points that were hit:\n%s", point, w.hits())
	}
	w.d = nil
	var exit *exec.ExitError
	if !errors.As(d.Err(), &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		w.Fatalf("the plugin ended with %v, want its own SIGKILL", d.Err())
	}
	name, _, _ := strings.Cut(point, ":")
	if hits := strings.Fields(w.hits()); len(hits) == 0 || hits[len(hits)-1] != name {
		w.Fatalf("the last point that was hit is not %s:\n%s", name, w.hits())
	}
}

// hits returns the names of the points that were hit, in order, one in each line.
func (w *world) hits() string {
	data, err := os.ReadFile(w.pointLog())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// killDuringRepair starts the plugin, which kills itself at the n-th point that it reaches. It
// returns false if the repair was complete before that.
func (w *world) killDuringRepair(n int) bool {
	w.Helper()
	d, err := daemon.Run(w, w.configFor(fmt.Sprintf("*:%d", n)))
	if err != nil {
		w.Fatal(err)
	}
	w.d = d
	died := false
	err = wait.Until(w, func() error {
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
		w.Fatalf("start with a kill at point %d: %v", n, err)
	}
	if !died {
		_ = d.Kill() // it may have ended by now
	}
	w.d = nil
	return died
}
