package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/wait"
)

// scarce returns a Scheduler with one slot of each kind, and holds the slot of kind k until the
// test ends.
func scarce(t *testing.T, k work.Kind) *work.Scheduler {
	t.Helper()
	one := work.Limits{Slots: 1, PerSubject: 1}
	s := work.NewScheduler([3]work.Limits{one, one, one})
	slot, err := s.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: "another"}), k, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(slot.Release)
	return s
}

// fifo makes a FIFO that every user may write to, and opens it.
func fifo(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	if err := errors.Join(syscall.Mkfifo(path, 0o666), os.Chmod(path, 0o666)); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestStoppedBeforeItsTurn checks that no process is left of a command whose context ends while
// the command is stopped and waits for a slot.
func TestStoppedBeforeItsTurn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		cause      error
		want       giterror.Kind
	}{
		{"cancelled", "sleep 1000", context.Canceled, giterror.KindCanceled},
		{"out of time", "sleep 1000 & wait", &work.LimitError{Setting: "FETCH_TIMEOUT", Limit: time.Hour}, giterror.KindLimit},
		{"all ignore TERM", "trap '' TERM; sleep 1000 & sleep 1000; sleep 1000", context.Canceled, giterror.KindCanceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := owned(t, fetcher)
			alive := filepath.Join(dir, "alive")
			group := fifo(t, alive, os.O_RDONLY|syscall.O_NONBLOCK)
			g, scriptDir := script(t, fmt.Sprintf("exec 9> %s\necho 'Resolving deltas:   0%% (0/9)' >&2\n%s\n", alive, tt.text))
			g.config.Scheduler = scarce(t, work.CPU)
			ctx, cancel := context.WithCancelCause(work.WithOwner(t.Context(), work.Owner{Subject: "test"}))
			job := work.JobOf(ctx)
			defer cancel(nil)
			ended := make(chan error, 1)
			go func() {
				_, err := g.Run(ctx, Command{
					Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{scriptDir}, Write: []string{dir},
					remote: true, fetches: true, silence: time.Hour,
				})
				ended <- err
			}()
			for !job.Queued() {
				if len(ended) > 0 {
					t.Fatalf("the command does not wait: %v", <-ended)
				}
				time.Sleep(time.Millisecond)
			}
			cancel(tt.cause)
			if err := <-ended; giterror.KindOf(err) != tt.want {
				t.Errorf("run: %v, want the kind %q", err, tt.want)
			}
			if _, err := group.Read(make([]byte, 1)); err == nil || err.Error() != "EOF" {
				t.Errorf("wait for the group: %v, want EOF", err)
			}
			if job.Queued() {
				t.Error("the job still waits")
			}
		})
	}
}

// TestGateOfACommandThatHasEnded checks that the gate does not wait for a slot if it reads the
// command's last line after the command has ended.
func TestGateOfACommandThatHasEnded(t *testing.T) {
	t.Parallel()
	g, dir := script(t, `setsid sh -c "while [ -d /proc/$$ ]; do :; done; echo 'Resolving deltas: 100% (9/9)' >&2" & exit 0`)
	g.config.Scheduler = scarce(t, work.CPU)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t)) // a gate that waits does so for ever
	defer cancel()
	if _, err := g.Run(ctx, Command{
		Op: "try", Dir: "/", UID: g.config.UID, GID: g.config.GID, Read: []string{dir, "/proc"}, remote: true, fetches: true,
	}); err != nil {
		t.Errorf("a command that succeeded: %v", err)
	}
}

// TestAlarmPauses checks that a paused alarm does not ring, even if a line is written to it in
// the pause.
func TestAlarmPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rung := false
		a := &alarm{timer: time.AfterFunc(time.Minute, func() { rung = true }), after: time.Minute}
		a.pause()
		if _, err := a.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // of the fake clock
		synctest.Wait()
		if rung {
			t.Error("the alarm rang in the pause")
		}
		a.resume()
		time.Sleep(time.Minute)
		synctest.Wait()
		if !rung {
			t.Error("the alarm did not ring after the pause")
		}
	})
}
