package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// mount returns the value of docker's --mount for a volume of the plugin at /w. An empty name
// stands for an anonymous volume.
func mount(name string, options ...string) string {
	var b strings.Builder
	b.WriteString("type=volume,volume-driver=" + pluginName + ",dst=/w")
	if name != "" {
		b.WriteString(",src=" + name)
	}
	for _, option := range options {
		b.WriteString(",volume-opt=" + option)
	}
	return b.String()
}

// create creates a volume, which the end of the test removes. The volume asks the remote at every mount, because tests
// change the remote right after its creation.
func (e *engine) create(t *testing.T, name string, options ...string) {
	t.Helper()
	options = append([]string{"refresh=always"}, options...)
	e.docker(t, append([]string{"volume", "create"}, createArgs(name, options...)...)...)
	t.Cleanup(func() { e.Try("volume", "rm", "--force", name) })
}

func createArgs(name string, options ...string) []string {
	args := []string{"--driver", pluginName}
	for _, option := range options {
		args = append(args, "--opt", option)
	}
	return append(args, name)
}

// status returns the Status of a volume from `docker volume inspect`.
func (e *engine) status(t *testing.T, volume string) map[string]any {
	t.Helper()
	var status map[string]any
	out := e.docker(t, "volume", "inspect", "--format", "{{json .Status}}", volume)
	if err := json.Unmarshal([]byte(out), &status); err != nil {
		t.Fatalf("status of %s: %v: %s", volume, err, out)
	}
	return status
}

// volumes returns the names of the plugin's volumes from `docker volume ls`.
func (e *engine) volumes(t *testing.T) []string {
	t.Helper()
	return strings.Fields(e.docker(t, "volume", "ls", "--quiet", "--filter", "driver="+pluginName+":latest"))
}

// sh runs a script in a new container with the mount at /w, and returns its output.
func (e *engine) sh(t *testing.T, mount, script string, flags ...string) string {
	t.Helper()
	return e.docker(t, shArgs(mount, script, flags...)...)
}

func shArgs(mount, script string, flags ...string) []string {
	args := append([]string{"run", "--rm", "--network", "host", "--mount", mount}, flags...)
	return append(args, image, "sh", "-euc", inCheckout(script))
}

// inCheckout makes a script run in /w. The working directory of the image or a flag could do the
// same, but then the engine mounts the volume once more before the start, to copy the image's files
// to it.
func inCheckout(script string) string { return "cd /w; " + script }

// container is a container of an engine.
type container struct {
	engine *engine
	id     string
}

// sleeper starts a container that sleeps, so that scripts can run in it. The end of the test
// removes it.
func (e *engine) sleeper(t *testing.T, mount string, flags ...string) container {
	t.Helper()
	args := append([]string{"run", "--detach", "--network", "host", "--stop-signal", "KILL", "--mount", mount}, flags...)
	c := container{e, e.docker(t, append(args, image, "sleep", "1000000")...)}
	t.Cleanup(func() { e.Try("rm", "--force", "--volumes", c.id) })
	return c
}

// sh runs a script in the container, in /w, and returns its output.
func (c container) sh(t *testing.T, script string, flags ...string) string {
	t.Helper()
	args := append([]string{"exec"}, flags...)
	return c.engine.docker(t, append(args, c.id, "sh", "-euc", inCheckout(script))...)
}

// remove kills and removes the container, with its anonymous volumes.
func (c container) remove(t *testing.T) {
	t.Helper()
	c.engine.docker(t, "rm", "--force", "--volumes", c.id)
}

// running reports whether the container is running.
func (c container) running(t *testing.T) bool {
	t.Helper()
	return c.engine.docker(t, "inspect", "--format", "{{.State.Running}}", c.id) == "true"
}
