package tests

import (
	"flag"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// maxRounds is set by `make test-engines`. On all engines the events take hours, and `make test`
// skips them.
var maxRounds = flag.Int("rounds", 1, "the most rounds of an event: a fifth of them on a quiet machine, the others under load")

// event is something that happens to an engine, or to the plugin in it, while containers use
// volumes of all modes.
//
// After each round of any event this holds: every container that started has seen the right files,
// and the workspace that its mode promises; containers that survived have the same files as before;
// and the leases are those of the running containers. At the end no lease, mount, volume, workspace
// or process is left.
type event struct {
	// rounds is how often the event happens.
	rounds int
	// start starts the engine; nil stands for dockerd.New.
	start starter
	// flags are flags of dockerd.
	flags []string
	// happen makes the event happen once, and checks everything that is special about it.
	happen func(t *testing.T, s *stage)
}

// run runs the event on a quiet machine and under load. After a failed round it takes a new engine.
// It stops after three failures, because more would show nothing new.
func (ev event) run(t *testing.T) {
	if ev.start == nil {
		ev.start = dockerd.New
	}
	rounds := min(ev.rounds, *maxRounds)
	quiet := (rounds + 4) / 5
	t.Run("quiet", func(t *testing.T) { ev.repeat(t, quiet) })
	t.Run("loaded", func(t *testing.T) {
		busy(t)
		ev.repeat(t, max(rounds-quiet, 1))
	})
}

func (ev event) repeat(t *testing.T, rounds int) {
	done, failed, panics, disabled := 0, 0, 0, 0
	var refused []string
	for done < rounds && failed < 3 {
		t.Run("engine", func(t *testing.T) {
			s := newStage(t, ev)
			for done < rounds {
				done++
				ok := t.Run(fmt.Sprintf("round%d", done), func(t *testing.T) {
					defer s.judge(t) // also checks the containers that started before a step failed
					ev.happen(t, s)
					s.awaitSteadyLeases(t)
				})
				if !ok {
					failed++
					return
				}
			}
			s.finish(t)
			refused, panics, disabled = append(refused, s.refused...), panics+s.panics, disabled+s.disabled
		})
	}
	t.Logf("%d rounds of %d held; %d starts were refused first and succeeded later; the engine panicked: %d times, left the plugin disabled: %d times",
		done-failed, done, len(refused), panics, disabled)
	if len(refused) > 0 {
		t.Logf("the last refusal: %s", refused[len(refused)-1])
	}
}

// busy keeps two processors busy until the test or its process ends.
func busy(t *testing.T) {
	stop := make(chan struct{})
	var loops sync.WaitGroup
	for range 2 {
		loops.Go(func() {
			runtime.LockOSThread() // Pdeathsig fires at the end of the thread
			defer runtime.UnlockOSThread()
			cmd := exec.Command("sh", "-c", "while :; do :; done")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				t.Error(err)
				return
			}
			<-stop
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
	t.Cleanup(func() {
		close(stop)
		loops.Wait()
	})
}
