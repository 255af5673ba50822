package tests

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// In a swarm of one node the next task finds a volume with a name again. Anonymous volumes stay,
// and the command of docs/how-to/remove.md removes them.
func TestSwarm(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
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
		e.awaitTasks(t, c.name, 2)
		ended := strings.Fields(e.docker(t, "ps", "--quiet", "--filter", "label=com.docker.swarm.service.name="+c.name))[0]
		e.docker(t, "rm", "--force", ended) // another task takes its slot
		e.awaitTasks(t, c.name, 2)
		e.docker(t, "service", "rm", c.name)
		e.awaitTasks(t, c.name, 0)
		got := e.volumes(t)
		slices.Sort(got)
		if !slices.Equal(got, c.volumes) {
			t.Errorf("%s: volumes %q, want %q", c.name, got, c.volumes)
		}
		for _, v := range got {
			e.removeWhenFree(t, v)
		}
	}
	e.docker(t, "service", "create", "--detach", "--quiet", "--name", "anonymous", "--network", "host", "--stop-signal", "KILL",
		"--mount", mount("", "repo="+r.url, "subject=swarm"), image, "sleep", "1000000")
	e.awaitTasks(t, "anonymous", 1)
	e.docker(t, "service", "rm", "anonymous")
	e.awaitTasks(t, "anonymous", 0)
	if len(e.volumes(t)) == 0 {
		t.Error("a mount without a name left no volume: docs/runtimes.md says that it does")
	}
	wait.For(t, "the anonymous volumes to go", func() error {
		e.shell(t, removeLine(t, "docker volume ls --quiet --filter driver="))
		if left := e.volumes(t); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		return nil
	})

	// The example works unchanged. The test changes only the network, because its engine has no
	// network.
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
	e.awaitTasks(t, "stack_work", 2)
	e.docker(t, "stack", "rm", "stack")
	e.awaitTasks(t, "stack_work", 0)
	got := e.volumes(t)
	slices.Sort(got)
	if !slices.Equal(got, []string{"work-1", "work-2"}) {
		t.Errorf("the stack: volumes %q, want one for each slot", got)
	}
	for _, v := range got {
		e.removeWhenFree(t, v)
	}
	e.docker(t, "swarm", "leave", "--force")
	e.awaitReclaimed(t, "swarm")
}

// initSwarm makes the engine the manager of a swarm. If the test fails, it logs the swarm's tasks.
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

// awaitTasks waits until a service has n running containers on this node, and returns them. If n is
// 0, it waits until no container of the service is left, not even a stopped one.
func (e *engine) awaitTasks(t *testing.T, service string, n int) []container {
	t.Helper()
	var list []container
	args := []string{"ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=" + service}
	if n == 0 {
		args = append(args, "--all")
	}
	wait.For(t, "the tasks of "+service, func() error {
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

// removeWhenFree removes a volume as soon as no container uses it.
func (e *engine) removeWhenFree(t *testing.T, volume string) {
	t.Helper()
	wait.For(t, "the volume "+volume+" to be free", func() error {
		_, err := e.Try("volume", "rm", volume)
		return err
	})
}

// freePort returns a port of 127.0.0.1 on which nothing listens. A swarm can't choose one itself.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}
