package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/wait"
)

// swarm is three engines in their own network. At first none has the plugin, and the manager,
// nodes[0], takes no tasks. The other nodes are workers.
type swarm struct {
	nodes   []*engine
	manager *engine
	r       remote
	url     string // the URL of r's repository for the nodes
	plain   string // the portrait of the right tree
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
			start := func(l wait.Limit, dir string, flags ...string) (*dockerd.Engine, error) {
				return dockerd.NewIn(l, network, dir, flags...)
			}
			s.nodes[i], errs[i] = setUp(t, start, []string{"--insecure-registry", lanRange}, (*engine).importImage)
		})
	}
	starts.Wait()
	for i, e := range s.nodes {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		e.wantNothingLeftAfter(t)
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

// install installs the plugin on all nodes: on the last one as make install does, on the others
// with the commands of docs/runtimes.md, from a registry that the manager runs.
func (s *swarm) install(t *testing.T) {
	t.Helper()
	program := registryProgram(t)
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
	wait.For(t, "the registry", func() error {
		_, err := s.manager.Try("plugin", "push", address+"/"+pluginName)
		return err
	})
	s.manager.docker(t, "plugin", "rm", address+"/"+pluginName)
	for _, e := range s.nodes[:2] {
		e.shell(t, line("docker plugin install ")+" MIN_FREE=0")
		if err := e.SetPluginID(); err != nil {
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

// node returns the engine's ID in its swarm.
func (e *engine) node(t *testing.T) string {
	t.Helper()
	return e.docker(t, "info", "--format", "{{.Swarm.NodeID}}")
}

// awaitReady waits until the manager knows that a node is ready and has the plugin, so that it gets
// tasks.
func (s *swarm) awaitReady(t *testing.T, e *engine) {
	t.Helper()
	id := e.node(t)
	wait.For(t, "a node that is ready and has the plugin", func() error {
		got := s.manager.docker(t, "node", "inspect", "--format", "{{.Status.State}} {{.Description.Engine.Plugins}}", id)
		if !strings.HasPrefix(got, "ready ") || !strings.Contains(got, pluginName+":latest") {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
}

// awaitIdle waits until a node has no running containers and no leases, and mounts only so many
// kept workspaces.
func (e *engine) awaitIdle(t *testing.T, kept int) {
	t.Helper()
	wait.For(t, "the tasks of an idle node", func() error {
		if out := e.docker(t, "ps", "--quiet"); out != "" {
			return fmt.Errorf("%q", strings.Fields(out))
		}
		return nil
	})
	for _, v := range e.volumes(t) {
		wait.For(t, "the leases of "+v, func() error {
			if list := e.leases(t, v); len(list) > 0 {
				return fmt.Errorf("%v", list)
			}
			return nil
		})
	}
	wait.For(t, "the mounts of an idle node", func() error {
		points, err := dockerd.MountsBelow(e.Data("mnt"))
		mounted := map[string]bool{}
		for _, point := range points {
			if below, ok := strings.CutPrefix(point, e.Data("mnt")+"/"); ok {
				id, _, _ := strings.Cut(below, "/")
				mounted[id] = true
			}
		}
		if err == nil && len(mounted) != kept {
			err = fmt.Errorf("%v, want %d kept workspaces", mounted, kept)
		}
		return err
	})
}

// Services have volumes on several nodes. One node loses its power and comes back, and one is
// drained. Each task has the right files and its own workspace, each node clones once, the task of
// a slot finds the slot's kept workspace on its node, and at the end nothing is left on any node.
func TestSwarmOfThree(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newSwarm(t)
	serve := func(name, source, mode string, replicas int) {
		t.Helper()
		s.manager.docker(t, "service", "create", "--detach", "--quiet", "--name", name, "--network", "host", "--replicas", fmt.Sprint(replicas),
			"--stop-signal", "KILL", "--restart-delay", "0s",
			"--mount", mount(source, "repo="+s.url, "ref=main", "subject=swarm", "mode="+mode), image, "sleep", "1000000")
	}
	serve("early", "early", "private", 1)
	wait.For(t, "the swarm's error about nodes without the plugin", func() error {
		said := s.manager.docker(t, "service", "ps", "--no-trunc", "--format", "{{.Error}}", "early")
		if !strings.Contains(said, "missing plugin on 2 nodes") {
			return fmt.Errorf("%q", said)
		}
		return nil
	})
	s.manager.docker(t, "service", "rm", "early")
	s.install(t)
	for _, e := range s.nodes {
		s.awaitReady(t, e)
	}
	serve("one", "one", "private", 4)
	serve("slots", "slots-{{.Task.Slot}}", "keep", 2)

	// checkAndWork checks that the tasks of a node find the right files. Then it works in the first
	// one with a private volume and in the one with a kept volume, and returns both.
	checkAndWork := func(e *engine) (private, kept container) {
		t.Helper()
		ones, slot := e.awaitTasks(t, "one", 2), e.awaitTasks(t, "slots", 1)[0]
		for _, c := range append(ones, slot) {
			same(t, "a task", c.sh(t, portrait), s.plain)
		}
		ones[0].sh(t, work)
		slot.sh(t, work)
		same(t, "a task beside one with changes", ones[1].sh(t, portrait), s.plain)
		return ones[0], slot
	}
	wantWork := func(what string, c container) {
		t.Helper()
		if got := c.sh(t, proof); got != proofOutput {
			t.Errorf("%s: got %q, want %q", what, got, proofOutput)
		}
	}
	wantClones := func(want int) {
		t.Helper()
		if got := s.r.Stats(app).Clones; got != want {
			t.Errorf("the server saw %d clones, want %d", got, want)
		}
	}
	living, lost := s.nodes[1], s.nodes[2]
	private, kept := checkAndWork(living)
	checkAndWork(lost)
	wantClones(2)

	s.availability(t, "active")
	if err := lost.PowerOff(); err != nil {
		t.Fatal(err)
	}
	checkAndWork(s.manager)
	wantWork("a task of the surviving node", private)
	wantWork("the kept volume of the surviving node", kept)
	wantClones(3)

	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitReady(t, lost)
	lost.awaitIdle(t, 0)
	s.availability(t, "drain")
	for _, c := range lost.awaitTasks(t, "one", 2) {
		same(t, "a task that came back", c.sh(t, portrait), s.plain)
	}
	wantWork("the kept volume of the slot that came back", lost.awaitTasks(t, "slots", 1)[0])
	s.manager.awaitIdle(t, 1)

	s.availability(t, "active")
	s.manager.docker(t, "service", "scale", "--detach", "one=6", "slots=3")
	checkAndWork(s.manager)
	wantWork("a task of the surviving node, at the end", private)
	wantWork("the kept volume of the surviving node, at the end", kept)
	wantClones(3)

	s.manager.docker(t, "service", "rm", "one", "slots")
	for _, e := range s.nodes {
		e.awaitTasks(t, "one", 0)
		e.awaitTasks(t, "slots", 0)
		kept := 1
		if e == s.manager {
			kept = 2 // the manager has run two of the slots
		}
		e.awaitIdle(t, kept)
		for _, v := range e.volumes(t) {
			e.docker(t, "volume", "rm", v)
		}
	}
	for _, e := range slices.Backward(s.nodes) {
		e.docker(t, "swarm", "leave", "--force")
		e.awaitReclaimed(t, "swarm")
		e.awaitUnmounted(t)
		e.awaitEmpty(t, "trash")
		e.awaitNoChildren(t)
		wait.For(t, "the plugin's data", func() error { return invariant.Structure(e.Data()) })
	}
}
