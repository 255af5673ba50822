package tests

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/wait"
)

// scratchPrefix is the beginning of the scratch directory of every run. The run's pid follows.
const scratchPrefix = "/var/tmp/hd-e2e-"

// scratch is the directory for all files of this run. It is not below the checkout, because the
// path of a socket may have 107 bytes at most.
var scratch = scratchPrefix + strconv.Itoa(os.Getpid())

var engines atomic.Int32

// engine is a Docker engine with the plugin in it.
type engine struct{ *dockerd.Engine }

// lazyEngine is an engine that tests share. The first test that needs it starts it.
type lazyEngine struct {
	once   sync.Once
	engine *engine
	err    error
}

var sharedEngine lazyEngine

// shared returns the engine that tests share.
func shared(t *testing.T) *engine {
	t.Helper()
	sharedEngine.once.Do(func() { sharedEngine.engine, sharedEngine.err = newEngine(t, dockerd.New, nil) })
	if sharedEngine.err != nil {
		t.Fatal(sharedEngine.err)
	}
	return sharedEngine.engine
}

func (l *lazyEngine) close() error {
	if l.engine == nil {
		return nil
	}
	return l.engine.Close()
}

// own starts an engine for one test, with settings of the plugin (NAME=value) and flags of dockerd.
func own(t *testing.T, settings []string, flags ...string) *engine {
	t.Helper()
	return ownOf(t, dockerd.New, settings, flags...)
}

// starter is dockerd.New or another function that starts an engine.
type starter func(l wait.Limit, dir string, flags ...string) (*dockerd.Engine, error)

// ownOf is own with another starter.
func ownOf(t *testing.T, start starter, settings []string, flags ...string) *engine {
	t.Helper()
	e, err := newEngine(t, start, settings, flags...)
	if err != nil {
		t.Fatal(err)
	}
	e.closeAfter(t)
	return e
}

// closeAfter closes the engine at the end of the test.
func (e *engine) closeAfter(t *testing.T) {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the engine's log:\n%s", dockerd.Tail(e.Path("log"), 60, dockerd.Relevant))
		}
		if err := e.Close(); err != nil {
			t.Errorf("close the engine: %v", err)
		}
	})
}

// wantNothingLeftAfter checks at the end of the test that no process and no mount of the engine is
// left. Call it before closeAfter, so that the check comes after the engine's end.
func (e *engine) wantNothingLeftAfter(t *testing.T) {
	t.Cleanup(func() {
		wait.For(t, "the engine's processes", func() error { return invariant.Leaks(e.Path()) })
		if left, err := dockerd.MountsBelow(e.Path()); err != nil || len(left) > 0 {
			t.Errorf("mounts after the engine's end: %q, %v", left, err)
		}
	})
}

// newEngine starts an engine, and installs the test's image and the plugin.
func newEngine(l wait.Limit, start starter, settings []string, flags ...string) (*engine, error) {
	return setUp(l, start, flags, (*engine).importImage, func(e *engine) error { return e.Install(pluginDir(), settings...) })
}

// setUp starts an engine and calls steps with it. After an error nothing is left behind.
func setUp(l wait.Limit, start starter, flags []string, steps ...func(*engine) error) (*engine, error) {
	started, err := start(l, filepath.Join(scratch, strconv.Itoa(int(engines.Add(1)))), flags...)
	if err != nil {
		return nil, err
	}
	e := &engine{started}
	for _, step := range steps {
		if err := step(e); err != nil {
			log := dockerd.Tail(e.Path("log"), 30, dockerd.Relevant)
			return nil, errors.Join(err, fmt.Errorf("the engine's log: %s", log), e.Close())
		}
	}
	return e, nil
}

// docker runs the docker command against the engine as a user types it, and returns its output.
func (e *engine) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.Try(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// wantError runs a docker command that must fail, and returns its error message.
func (e *engine) wantError(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.Try(args...)
	if err == nil {
		t.Fatalf("docker %q succeeded: %s", args, out)
	}
	return err.Error()
}
