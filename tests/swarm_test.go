package tests

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A swarm of one node: a volume with a name is found again by the next task and leaves nothing behind; one without a name
// stays, and the README's line removes it.
func TestSwarm(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	e.initSwarm(t, "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1:"+freePort(t))
	for _, c := range []struct {
		name, source string
		volumes      []string
	}{
		{"one", "one", []string{"one"}},
		{"slots", "slots-{{.Task.Slot}}", []string{"slots-1", "slots-2"}},
	} {
		m := mount(c.source, "repo="+r.url, "subject=swarm")
		e.docker(t, "service", "create", "--detach", "--quiet", "--name", c.name, "--network", "host", "--replicas", "2",
			"--stop-signal", "KILL", "--restart-delay", "0s", "--mount", m, image, "sh", "-c", "touch /w/mine; exec sleep 1000000")
		e.tasks(t, c.name, 2)
		ended := strings.Fields(e.docker(t, "ps", "--quiet", "--filter", "label=com.docker.swarm.service.name="+c.name))[0]
		e.docker(t, "rm", "--force", ended) // another task takes its slot
		e.tasks(t, c.name, 2)
		e.docker(t, "service", "rm", c.name)
		e.tasks(t, c.name, 0)
		got := e.volumes(t)
		slices.Sort(got)
		if !slices.Equal(got, c.volumes) {
			t.Errorf("%s: volumes %q, want %q", c.name, got, c.volumes)
		}
		for _, v := range got {
			e.removed(t, v)
		}
	}

	e.docker(t, "service", "create", "--detach", "--quiet", "--name", "anonymous", "--network", "host", "--stop-signal", "KILL",
		"--mount", mount("", "repo="+r.url, "subject=swarm"), image, "sleep", "1000000")
	e.tasks(t, "anonymous", 1)
	e.docker(t, "service", "rm", "anonymous")
	e.tasks(t, "anonymous", 0)
	if len(e.volumes(t)) == 0 {
		t.Error("a mount without a name left no volume: docs/runtimes.md says that it does")
	}
	eventually(t, "the anonymous volumes to go", func() error {
		e.shell(t, readmeLine(t, "docker volume ls --quiet --filter driver="))
		if left := e.volumes(t); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})

	// The example as it is. Only the network is the test's: its engine has none of its own.
	override := filepath.Join(t.TempDir(), "network.yaml")
	text := "version: \"3.8\"\nservices:\n  work:\n    networks: [hostnet]\nnetworks:\n  hostnet: {external: true, name: host}\n"
	if err := os.WriteFile(override, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := e.Command("stack", "deploy", "--compose-file", "../examples/stack.yaml", "--compose-file", override, "stack")
	cmd.Env = append(cmd.Env, "REPO="+r.url, "REF=main", "IMAGE="+image, "SUBJECT=swarm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker stack deploy: %v\n%s", err, out)
	}
	e.tasks(t, "stack_work", 2)
	e.docker(t, "stack", "rm", "stack")
	e.tasks(t, "stack_work", 0)
	got := e.volumes(t)
	slices.Sort(got)
	if !slices.Equal(got, []string{"work-1", "work-2"}) {
		t.Errorf("the stack: volumes %q, want one for each slot", got)
	}
	for _, v := range got {
		e.removed(t, v)
	}
	e.docker(t, "swarm", "leave", "--force")
	e.reclaimed(t, "swarm")
}

// initSwarm makes the engine the manager of a swarm, and shows its tasks when the test has failed.
func (e *engine) initSwarm(t *testing.T, flags ...string) {
	t.Helper()
	e.docker(t, append([]string{"swarm", "init"}, flags...)...)
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		if services, err := e.Try("service", "ls", "--quiet"); err == nil && services != "" {
			out, err := e.Try(append([]string{"service", "ps", "--no-trunc", "--format", "{{.Name}} on {{.Node}}: {{.CurrentState}} {{.Error}}"}, strings.Fields(services)...)...)
			t.Logf("the swarm's tasks (%v):\n%s", err, out)
		}
	})
}

// tasks waits until a service has so many containers on this node: running ones, or, for none, any.
func (e *engine) tasks(t *testing.T, service string, n int) []container {
	t.Helper()
	var list []container
	args := []string{"ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=" + service}
	if n == 0 {
		args = append(args, "--all")
	}
	eventually(t, "the tasks of "+service, func() error {
		list = nil
		for _, id := range strings.Fields(e.docker(t, args...)) {
			list = append(list, container{e, id})
		}
		if len(list) != n {
			return fmt.Errorf("%d containers, want %d", len(list), n)
		}
		return nil
	})
	return list
}

// removed removes a volume as soon as nobody uses it.
func (e *engine) removed(t *testing.T, volume string) {
	t.Helper()
	eventually(t, "the volume "+volume+" to be free", func() error {
		_, err := e.Try("volume", "rm", volume)
		return err
	})
}

// freePort is a port of 127.0.0.1 on which nobody listens.
func freePort(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(closedPort(t))
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}
