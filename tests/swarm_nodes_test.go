package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/invariant"
)

// swarm is three engines in a network of their own, none with the plugin at first. The manager, nodes[0], takes no tasks at
// first; the others are workers.
type swarm struct {
	nodes   []*engine
	manager *engine
	r       remote
	url     string // r's repository as the nodes reach it
	plain   string // the portrait of a right tree
}

func newSwarm(t *testing.T) *swarm {
	t.Helper()
	l, r := newLAN(t, 3), newRemote(t)
	l.serve(t, r)
	s := &swarm{nodes: make([]*engine, len(l.nodes)), r: r, url: "http://" + hubAddress + "/" + app}
	s.plain = strings.ReplaceAll(plain(t, r.url, "main"), r.url, s.url)
	r.Reset()

	errs := make([]error, len(l.nodes))
	var starts sync.WaitGroup
	for i, network := range l.nodes {
		starts.Go(func() {
			start := func(dir string, flags ...string) (*dockerd.Engine, error) {
				return dockerd.NewIn(network, dir, flags...)
			}
			s.nodes[i], errs[i] = begin(start, []string{"--insecure-registry", lanRange}, (*engine).importImage)
		})
	}
	starts.Wait()
	for i, e := range s.nodes {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		e.leavesNothing(t)
		e.closeAfter(t)
	}
	if t.Failed() {
		t.FailNow()
	}
	s.manager = s.nodes[0]
	s.manager.initSwarm(t, "--advertise-addr", nodeAddress(0), "--availability", "drain")
	token := s.manager.docker(t, "swarm", "join-token", "--quiet", "worker")
	for i, e := range s.nodes[1:] {
		e.docker(t, "swarm", "join", "--advertise-addr", nodeAddress(i+1), "--token", token, nodeAddress(0)+":2377")
	}
	return s
}

// install installs the plugin on all nodes: by the commands of docs/runtimes.md, from a registry that the manager runs, and on
// the last one as make install does.
func (s *swarm) install(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		program = abs(t, "../build/tools/usr/bin/docker-registry") // where make needs puts it
	}
	address := nodeAddress(0) + ":5000"
	config := filepath.Join(t.TempDir(), "registry.yml")
	text := "version: 0.1\nstorage: {filesystem: {rootdirectory: /registry}}\nhttp: {addr: \"" + address + "\"}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	registry := s.manager.docker(t, "run", "--detach", "--network", "host", "--stop-signal", "KILL",
		"--mount", "type=bind,readonly,dst=/bin/registry,src="+program,
		"--mount", "type=bind,readonly,dst=/registry.yml,src="+config, image, "/bin/registry", "serve", "/registry.yml")

	line := func(begin string) string {
		text := lineOf(t, "../docs/runtimes.md", begin)
		return strings.NewReplacer("registry.example.com", address, "build/plugin", pluginDir()).Replace(text)
	}
	s.manager.shell(t, line("docker plugin create "))
	eventually(t, "the registry", func() error {
		_, err := s.manager.Try("plugin", "push", address+"/"+pluginName)
		return err
	})
	s.manager.docker(t, "plugin", "rm", address+"/"+pluginName)
	for _, e := range s.nodes[:2] {
		e.shell(t, line("docker plugin install ")+" MIN_FREE=0")
		if err := e.Installed(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.nodes[2].Install(pluginDir()); err != nil {
		t.Fatal(err)
	}
	s.manager.docker(t, "rm", "--force", "--volumes", registry)
}

// availability sets whether the manager takes tasks: active, or drain.
func (s *swarm) availability(t *testing.T, value string) {
	t.Helper()
	s.manager.docker(t, "node", "update", "--availability", value, s.manager.node(t))
}

// node is the engine's ID in its swarm.
func (e *engine) node(t *testing.T) string {
	t.Helper()
	return e.docker(t, "info", "--format", "{{.Swarm.NodeID}}")
}

// ready waits until the swarm gives tasks to a node: it is there, and has told the manager that it has the plugin.
func (s *swarm) ready(t *testing.T, e *engine) {
	t.Helper()
	id := e.node(t)
	eventually(t, "the swarm to know of a node with the plugin", func() error {
		got := s.manager.docker(t, "node", "inspect", "--format", "{{.Status.State}} {{.Description.Engine.Plugins}}", id)
		if !strings.HasPrefix(got, "ready ") || !strings.Contains(got, pluginName+":latest") {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}

// idle waits until nothing is leased on a node on which no task runs any more, and nothing mounted but so many workspaces that
// volumes keep.
func (e *engine) idle(t *testing.T, kept int) {
	t.Helper()
	eventually(t, "the tasks of an idle node", func() error {
		if out := e.docker(t, "ps", "--quiet"); out != "" {
			return fmt.Errorf("%q", strings.Fields(out))
		}
		return nil
	})
	for _, v := range e.volumes(t) {
		eventually(t, "the leases of "+v, func() error {
			if list := e.leases(t, v); len(list) > 0 {
				return fmt.Errorf("%v", list)
			}
			return nil
		})
	}
	eventually(t, "the mounts of an idle node", func() error {
		points, err := dockerd.MountsBelow(e.Data("mnt"))
		mounted := map[string]bool{}
		for _, point := range points {
			if below, ok := strings.CutPrefix(point, e.Data("mnt")+"/"); ok {
				id, _, _ := strings.Cut(below, "/")
				mounted[id] = true
			}
		}
		if err == nil && len(mounted) != kept {
			err = fmt.Errorf("%v, want %d", mounted, kept)
		}
		return err
	})
}

// Services with volumes on several nodes, of which one loses its power and comes back, and one is drained: each task has a
// right tree and a workspace of its own, a node clones once, what a slot keeps is found on the node that has it, and in the
// end nothing is left anywhere.
func TestSwarmOfThree(t *testing.T) {
	t.Parallel()
	s := newSwarm(t)
	serve := func(name, source, mode string, replicas int) {
		t.Helper()
		s.manager.docker(t, "service", "create", "--detach", "--quiet", "--name", name, "--network", "host", "--replicas", fmt.Sprint(replicas),
			"--stop-signal", "KILL", "--restart-delay", "0s",
			"--mount", mount(source, "repo="+s.url, "ref=main", "subject=swarm", "mode="+mode), image, "sleep", "1000000")
	}
	serve("early", "early", "private", 1)
	eventually(t, "what the swarm says of nodes without the plugin", func() error {
		said := s.manager.docker(t, "service", "ps", "--no-trunc", "--format", "{{.Error}}", "early")
		if !strings.Contains(said, "missing plugin on 2 nodes") {
			return fmt.Errorf("%q", said)
		}
		return nil
	})
	s.manager.docker(t, "service", "rm", "early")
	s.install(t)
	for _, e := range s.nodes {
		s.ready(t, e)
	}
	serve("one", "one", "private", 4)
	serve("slots", "slots-{{.Task.Slot}}", "keep", 2)

	// worked checks that the tasks of a node find a right tree, and changes those of a private volume's first one and of the
	// kept volume.
	worked := func(e *engine) (private, kept container) {
		t.Helper()
		ones, slot := e.tasks(t, "one", 2), e.tasks(t, "slots", 1)[0]
		for _, c := range append(ones, slot) {
			same(t, "a task", c.sh(t, portrait), s.plain)
		}
		ones[0].sh(t, work)
		slot.sh(t, work)
		same(t, "a task beside one that has worked", ones[1].sh(t, portrait), s.plain)
		return ones[0], slot
	}
	has := func(what string, c container) {
		t.Helper()
		if got := c.sh(t, proof); got != shown {
			t.Errorf("%s: got %q, want %q", what, got, shown)
		}
	}
	clones := func(want int) {
		t.Helper()
		if got := s.r.Stats(app).Clones; got != want {
			t.Errorf("the server saw %d clones, want %d", got, want)
		}
	}
	living, lost := s.nodes[1], s.nodes[2]
	private, kept := worked(living)
	worked(lost)
	clones(2)

	s.availability(t, "active")
	if err := lost.PowerOff(); err != nil {
		t.Fatal(err)
	}
	worked(s.manager)
	has("a task of the node that lives", private)
	has("the kept volume of the node that lives", kept)
	clones(3)

	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	s.ready(t, lost)
	lost.idle(t, 0)
	s.availability(t, "drain")
	for _, c := range lost.tasks(t, "one", 2) {
		same(t, "a task that came back", c.sh(t, portrait), s.plain)
	}
	has("the kept volume of the slot that came back", lost.tasks(t, "slots", 1)[0])
	s.manager.idle(t, 1)

	s.availability(t, "active")
	s.manager.docker(t, "service", "scale", "--detach", "one=6", "slots=3")
	worked(s.manager)
	has("a task of the node that lives, in the end", private)
	has("the kept volume of the node that lives, in the end", kept)
	clones(3)

	s.manager.docker(t, "service", "rm", "one", "slots")
	for _, e := range s.nodes {
		e.tasks(t, "one", 0)
		e.tasks(t, "slots", 0)
		kept := 1
		if e == s.manager {
			kept = 2 // it has run two of the slots
		}
		e.idle(t, kept)
		for _, v := range e.volumes(t) {
			e.docker(t, "volume", "rm", v)
		}
	}
	for _, e := range slices.Backward(s.nodes) {
		e.docker(t, "swarm", "leave", "--force")
		e.reclaimed(t, "swarm")
		e.unmounted(t)
		e.emptied(t, "trash")
		e.alone(t)
		eventually(t, "the plugin's data", func() error { return invariant.Structure(e.Data()) })
	}
}
