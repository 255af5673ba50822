package tests

import (
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"maps"
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

// stage is an engine for events. It has one steady container for each mode, which stays, and which
// the engine restarts. New containers come and go. For the modes shared and keep they use other
// volumes than the steady container, because all containers on such a volume have the same
// workspace.
type stage struct {
	e     *engine
	r     remote
	plain string // the portrait of the right tree
	out   string // the directory on the host to which containers write what they see

	steady map[string]container
	// seen counts the looks that judge has checked, by the container's name.
	seen map[string]int
	// refused has the engine's errors at starts that were tried again.
	refused []string
	// panics counts the starts of the engine that ended in a panic.
	panics int
	// disabled counts the starts of the engine that left the plugin disabled.
	disabled int
}

// modes are the modes of volumes. A steady container and its volume have the mode as their name.
var modes = []string{"private", "shared", "keep"}

// newVolume returns the volume of the new containers of a mode, whose names end in "-new".
func newVolume(mode string) string {
	if mode == "private" {
		return mode
	}
	return mode + "-new"
}

// look is the script with which every container begins. It appends to /out/$NAME the checksum of
// the portrait, and the number of looks in this workspace, which is 1 unless the workspace is kept.
const look = `
	cd /w
	{ ` + portrait + ` } >/out/$NAME.portrait 2>&1 || true
	looks=$(($(cat .git/looks 2>/dev/null || echo 0) + 1))
	echo $looks 2>/dev/null >.git/looks || true
	echo $(sha1sum </out/$NAME.portrait | cut -c-40) $looks >>/out/$NAME
`

func newStage(t *testing.T, ev event) *stage {
	t.Helper()
	e, err := newEngine(t, ev.start, nil, ev.flags...)
	if err != nil {
		t.Fatal(err)
	}
	e.wantNothingLeftAfter(t)
	e.closeAfter(t)
	s := &stage{e: e, r: newRemote(t), out: t.TempDir(), steady: map[string]container{}, seen: map[string]int{}}
	s.plain = plain(t, s.r.url, "main")
	for _, mode := range modes {
		for _, name := range slices.Compact([]string{mode, newVolume(mode)}) {
			s.e.create(t, name, "repo="+s.r.url, "ref=main", "subject=event", "mode="+mode)
		}
		args := append([]string{"run", "--detach", "--restart", "always"}, s.args(mode, mode)...)
		s.steady[mode] = container{s.e, s.e.docker(t, append(args, look+"exec sleep 1000000")...)}
	}
	s.awaitStarted(t, modes...)
	s.runNew(t)
	s.judge(t)
	s.awaitSteadyLeases(t)
	return s
}

// args returns the arguments of docker run for every container, up to its script.
func (s *stage) args(name, volume string) []string {
	return []string{"--network", "host", "--stop-signal", "KILL", "--env", "NAME=" + name, "--volume", s.out + ":/out",
		"--mount", mount(volume), image, "sh", "-c"}
}

// looks returns the lines that the containers with a name have written.
func (s *stage) looks(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.out, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")[:strings.Count(string(text), "\n")]
}

// awaitStarted waits until each of the steady containers runs, and has written a look that judge
// has not yet checked.
func (s *stage) awaitStarted(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		wait.For(t, "the start of container "+name, func() error {
			state, err := s.e.Try("inspect", "--format", "{{.State.Status}} {{.State.Error}}", s.steady[name].id)
			if err != nil || strings.TrimSpace(state) != "running" || len(s.looks(t, name)) <= s.seen[name] {
				return fmt.Errorf("it is %s, %v, and has looked %d times, of which %d were checked; mounts: %s", state, err, len(s.looks(t, name)), s.seen[name], mountsEverywhere())
			}
			return nil
		})
	}
}

// runNew runs a new container of each mode.
func (s *stage) runNew(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		s.runNewOf(t, mode)
	}
}

// runNewOf runs a new container of a mode. It tries again as long as the engine refuses to start
// it, and checks that exactly one has started.
func (s *stage) runNewOf(t *testing.T, mode string) {
	t.Helper()
	name := mode + "-new"
	before := len(s.looks(t, name))
	wait.For(t, "the start of a new container on "+newVolume(mode), func() error {
		_, err := s.e.Try(append(append([]string{"run", "--rm"}, s.args(name, newVolume(mode))...), look)...)
		if err != nil {
			_, said, _ := strings.Cut(err.Error(), "\n")
			s.refused = append(s.refused, said[max(0, len(said)-400):])
			return fmt.Errorf("%s (mounts: %s)", said, mountsEverywhere())
		}
		return nil
	})
	if got := len(s.looks(t, name)); got != before+1 {
		t.Errorf("new containers on %s looked %d times, want once", newVolume(mode), got-before)
	}
}

// judge checks the looks of all containers that have started since the last call.
func (s *stage) judge(t *testing.T) {
	t.Helper()
	want := fmt.Sprintf("%x", sha1.Sum([]byte(s.plain+"\n")))
	for _, mode := range modes {
		for _, name := range []string{mode, mode + "-new"} {
			looks := s.looks(t, name)
			for i := s.seen[name]; i < len(looks); i++ {
				sum, number, _ := strings.Cut(looks[i], " ")
				first := "1"
				if mode == "keep" {
					first = fmt.Sprint(i + 1)
				}
				if sum != want {
					text, err := os.ReadFile(filepath.Join(s.out, name+".portrait"))
					t.Errorf("WRONG TREE: start %d of %s (%s; its last portrait: %v)", i+1, name, s.reach(t), err)
					same(t, name, strings.TrimSuffix(string(text), "\n"), s.plain)
				}
				if number != first {
					t.Errorf("WRONG WORKSPACE: start %d of %s is look %s at its workspace, want %s", i+1, name, number, first)
				}
			}
			s.seen[name] = len(looks)
		}
	}
}

// awaitSteadyLeases waits until only the steady containers have leases.
func (s *stage) awaitSteadyLeases(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		s.awaitLeases(t, mode, 1)
		if newVolume(mode) != mode {
			s.awaitLeases(t, newVolume(mode), 0)
		}
	}
}

// reach describes whether the plugin's mounts can reach the host.
func (s *stage) reach(t *testing.T) string {
	t.Helper()
	mounts, err := dockerd.MountsBelow(s.e.Data())
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(mounts, s.e.Data()) {
		return "the host has the propagated mount"
	}
	return "the host has lost the propagated mount"
}

// awaitLeases waits until a volume has so many leases, 0 or 1.
func (s *stage) awaitLeases(t *testing.T, volume string, want int) {
	t.Helper()
	wait.For(t, "the leases of "+volume, func() error {
		out, err := s.e.Try("volume", "inspect", "--format", "{{json .Status.leases}}", volume)
		if err != nil {
			return err
		}
		var leases []struct{ Mounts int }
		if err := json.Unmarshal([]byte(out), &leases); err != nil {
			return err
		}
		if len(leases) != want || want == 1 && leases[0].Mounts != 1 {
			return fmt.Errorf("%s, want %d", out, want)
		}
		return nil
	})
}

// wantUntouched checks that the steady containers still run in the same workspaces.
func (s *stage) wantUntouched(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		c := s.steady[mode]
		if got, want := len(s.looks(t, mode)), s.seen[mode]; got != want || !c.running(t) {
			t.Errorf("container %s: %d starts, want %d, running %v", mode, got, want, c.running(t))
			continue
		}
		want := "1"
		if mode == "keep" {
			want = fmt.Sprint(s.seen[mode])
		}
		if got := c.sh(t, "cat .git/looks"); got != want {
			t.Errorf("WRONG WORKSPACE: the surviving container %s sees %q, want %q", mode, got, want)
		}
		same(t, "the surviving container "+mode, c.sh(t, portrait), s.plain)
	}
}

// restart restarts the steady containers, such as after an event in which they lost the plugin's
// mounts.
func (s *stage) restart(t *testing.T) {
	t.Helper()
	for _, mode := range modes {
		s.e.docker(t, "restart", "--time", "0", s.steady[mode].id)
	}
	s.awaitStarted(t, modes...)
}

// checkCopies checks that docker cp on the steady containers reads and writes their own workspaces,
// or fails. The copies run in parallel, because a failure takes long after the plugin's start.
func (s *stage) checkCopies(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	var all sync.WaitGroup
	for _, mode := range modes {
		c, own, given := s.steady[mode], mode+"'s own\n", mode+"'s given\n"
		c.sh(t, "printf %s\\\\n \""+strings.TrimSpace(own)+"\" >.git/own")
		out, in := filepath.Join(dir, mode+"-out"), filepath.Join(dir, mode+"-in")
		if err := os.WriteFile(in, []byte(given), 0o644); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if _, err := s.e.Try("cp", c.id+":/w/.git/own", out); err != nil {
				t.Logf("docker cp from %s: %v", mode, err)
			} else if got, err := os.ReadFile(out); err != nil || string(got) != own {
				t.Errorf("WRONG WORKSPACE: docker cp from %s reads %q, %v, want %q", mode, got, err, own)
			}
			if _, err := s.e.Try("cp", in, c.id+":/w/.git/given"); err != nil {
				t.Logf("docker cp to %s: %v", mode, err)
			} else if got, err := s.e.Try("exec", c.id, "cat", "/w/.git/given"); err != nil || got+"\n" != given {
				t.Errorf("WRONG WORKSPACE: docker cp wrote to %s %q, %v, want %q", mode, got, err, given)
			}
		})
	}
	all.Wait()
}

// finish removes everything and checks that nothing is left.
func (s *stage) finish(t *testing.T) {
	t.Helper()
	for _, mode := range slices.Sorted(maps.Keys(s.steady)) {
		s.steady[mode].remove(t)
	}
	s.e.docker(t, append([]string{"volume", "rm"}, s.e.volumes(t)...)...)
	if got := s.e.volumes(t); len(got) != 0 {
		t.Errorf("volumes: got %q, want none", got)
	}
	s.e.awaitReclaimed(t, "event")
	s.e.awaitEmpty(t, "trash")
	s.e.awaitNoChildren(t)
	wait.For(t, "the plugin's data", func() error { return invariant.Structure(s.e.Data()) })
}
