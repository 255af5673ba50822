package tests

import (
	"errors"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// After a crash the engine handles the end of an earlier plugin process late, and under load it can
// unmount the mounts of the new process. Therefore these events have many rounds. If the plugin is
// killed too, nothing can be late.
const crashRounds, crashRoundsWithPlugin = 50, 20

func TestEventPluginKilled(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.killPlugin(t)
		s.e.pluginPID(t, 0)
		s.wantUntouched(t)
		s.checkCopies(t)
		s.runNew(t)
		s.restart(t)
	}}.run(t)
}

// The engine is killed with its containerd, as if dockerd had started containerd.
func TestEventEngineKilled(t *testing.T) {
	event{rounds: crashRounds, happen: crash}.run(t)
}

// The engine is killed and its containerd survives, as if both were services.
func TestEventEngineKilledContainerdApart(t *testing.T) {
	event{rounds: crashRounds, start: dockerd.NewWithContainerd, happen: crash}.run(t)
}

func TestEventEngineAndPluginKilled(t *testing.T) {
	event{rounds: crashRoundsWithPlugin, happen: crashWithPlugin}.run(t)
}

func TestEventEngineAndPluginKilledContainerdApart(t *testing.T) {
	event{rounds: crashRoundsWithPlugin, start: dockerd.NewWithContainerd, happen: crashWithPlugin}.run(t)
}

func crashWithPlugin(t *testing.T, s *stage) {
	s.endAndStart(t, func() error {
		s.e.killAll(t)
		return nil
	})
}

// crash kills the engine without live-restore. The engine starts the containers again when it comes
// back.
func crash(t *testing.T, s *stage) {
	s.endAndStart(t, s.e.Kill)
}

// endAndStart ends the engine and starts it again, which starts the steady containers.
func (s *stage) endAndStart(t *testing.T, end func() error) {
	t.Helper()
	if err := errors.Join(end(), s.start(t)); err != nil {
		t.Fatal(err)
	}
	s.runNew(t)
	s.awaitStarted(t, modes...)
}

// start starts the engine. The engine handles the end of an earlier plugin process late, which can
// make its start fail in two ways. If the engine panics, start starts it again, as a service
// manager does. If the engine could not enable the plugin, start enables it, as docs/runtimes.md
// says. It counts both.
func (s *stage) start(t *testing.T) error {
	t.Helper()
	err := s.e.Start()
	for range 2 {
		if err == nil || !s.e.Panicked() {
			break
		}
		s.panics++
		err = s.e.Start()
	}
	if err == nil && s.e.docker(t, "plugin", "inspect", "--format", "{{.Enabled}}", pluginName) == "false" {
		s.disabled++
		s.e.enable(t)
	}
	return err
}

// With live-restore the containers outlive the engine, whether it is stopped or killed.
func TestEventLiveRestore(t *testing.T) {
	odd := false
	event{rounds: 10, flags: []string{"--live-restore"}, happen: func(t *testing.T, s *stage) {
		end := s.e.Kill
		if odd = !odd; odd {
			end = s.e.Stop
		}
		if err := errors.Join(end(), s.start(t)); err != nil {
			t.Fatal(err)
		}
		s.wantUntouched(t)
		s.checkCopies(t)
		s.runNew(t)
		s.wantUntouched(t)
		s.restart(t)
	}}.run(t)
}

// The engine is stopped in order, as by a service manager, such as before a reboot.
func TestEventEngineRestarted(t *testing.T) {
	event{rounds: 10, happen: func(t *testing.T, s *stage) {
		s.endAndStart(t, func() error {
			err := s.e.Stop()
			if mounts, listErr := dockerd.MountsBelow(s.e.Path("data")); listErr != nil || len(mounts) > 0 {
				t.Errorf("mounts of a stopped engine: %q, %v", mounts, listErr)
			}
			return err
		})
	}}.run(t)
}

func TestEventPowerLost(t *testing.T) {
	event{rounds: 10, happen: func(t *testing.T, s *stage) { s.endAndStart(t, s.e.PowerOff) }}.run(t)
}
