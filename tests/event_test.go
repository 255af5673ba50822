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

// maxRounds is what `make test-engines` gives: the events take hours on all engines, and `make test` leaves them out.
var maxRounds = flag.Int("rounds", 1, "how often an event happens at most: a fifth of them on a quiet machine, the others under load")

// event is something that happens to an engine, or to the plugin in it, while containers use volumes of all modes.
//
// After each round of any event this holds: every container that started has seen the right tree, by content, and the
// workspace that its mode promises; containers that lived on have what they had; the leases are those of the running
// containers; and in the end there is no lease, mount, volume, workspace or process left.
type event struct {
	// rounds is how often it happens.
	rounds int
	// start starts the engine; nil is dockerd.New.
	start starter
	// flags are dockerd's.
	flags []string
	// happen makes it happen once, and checks what is its own about it.
	happen func(t *testing.T, s *stage)
}

// run has the event happen on a quiet machine and under load. An engine on which a round failed is not used again; after
// three of them the others would tell nothing new.
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
					defer s.judge(t) // also what containers saw before a step that failed
					ev.happen(t, s)
					s.leases(t)
				})
				if !ok {
					failed++
					return
				}
			}
			s.clean(t)
			refused, panics, disabled = append(refused, s.refused...), panics+s.panics, disabled+s.disabled
		})
	}
	t.Logf("%d rounds of %d held; refused and then right: %d starts; the engine panicked: %d times, left the plugin disabled: %d times",
		done-failed, done, len(refused), panics, disabled)
	if len(refused) > 0 {
		t.Logf("the last refusal: %s", refused[len(refused)-1])
	}
}

// busy keeps two processors busy until the test ends, or its process.
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
