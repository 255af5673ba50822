package tests

import (
	"errors"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// The engine treats the end of an earlier plugin's process late after a crash, and under load it can unmount what the
// new one has mounted: this is why these happen so often. When the plugin is killed too, nothing is left to be late.
const crashRounds, crashRoundsWithPlugin = 50, 20

func TestEventPluginKilled(t *testing.T) {
	event{rounds: 5, happen: func(t *testing.T, s *stage) {
		s.killPlugin(t)
		s.e.pluginPID(t, 0)
		s.untouched(t)
		s.copies(t)
		s.visit(t)
		s.restart(t)
	}}.run(t)
}

// Its containerd dies with it, as where dockerd has started it.
func TestEventEngineKilled(t *testing.T) {
	event{rounds: crashRounds, happen: crash}.run(t)
}

// Its containerd lives on, as where both are services.
func TestEventEngineKilledContainerdApart(t *testing.T) {
	event{rounds: crashRounds, start: dockerd.NewApart, happen: crash}.run(t)
}

func TestEventEngineAndPluginKilled(t *testing.T) {
	event{rounds: crashRoundsWithPlugin, happen: crashWithPlugin}.run(t)
}

func TestEventEngineAndPluginKilledContainerdApart(t *testing.T) {
	event{rounds: crashRoundsWithPlugin, start: dockerd.NewApart, happen: crashWithPlugin}.run(t)
}

func crashWithPlugin(t *testing.T, s *stage) {
	s.again(t, func() error {
		s.e.killAll(t)
		return nil
	})
}

// crash ends the engine without live-restore: the containers are started again when it comes back.
func crash(t *testing.T, s *stage) {
	s.again(t, s.e.Kill)
}

// again ends the engine and starts it: containers that are to be restarted always are there again.
func (s *stage) again(t *testing.T, end func() error) {
	t.Helper()
	if err := errors.Join(end(), s.start(t)); err != nil {
		t.Fatal(err)
	}
	s.visit(t)
	s.started(t, modes...)
}

// start starts the engine, and repairs what an engine's late handling of an earlier process of a plugin can do to its own
// start of the plugin. One that ends in a panic is started again, as a service manager does, and a plugin that it could not
// enable is enabled, as docs/runtimes.md says. Both are counted.
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

// With live-restore the containers outlive the engine's end, whichever it is.
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
		s.untouched(t)
		s.copies(t)
		s.visit(t)
		s.untouched(t)
		s.restart(t)
	}}.run(t)
}

// A stop in order, as by a service manager, before a reboot too.
func TestEventEngineRestarted(t *testing.T) {
	event{rounds: 10, happen: func(t *testing.T, s *stage) {
		s.again(t, func() error {
			err := s.e.Stop()
			if mounts, listErr := dockerd.MountsBelow(s.e.Path("data")); listErr != nil || len(mounts) > 0 {
				t.Errorf("mounts of a stopped engine: %q, %v", mounts, listErr)
			}
			return err
		})
	}}.run(t)
}

func TestEventPowerLost(t *testing.T) {
	event{rounds: 10, happen: func(t *testing.T, s *stage) { s.again(t, s.e.PowerOff) }}.run(t)
}
