package tests

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// The crash tests all follow one course: a container works, something dies, and then whatever of the container lives
// finds its work untouched, a second container gets a clean tree, no volume is forgotten, and in the end nothing is left.

// work is what the container has done before the crash; proof prints what shows that it is all there.
const (
	work  = `echo changed >README.md; git commit -qam mine; echo dirty >dirty; echo cached >.hdcache/marker`
	proof = `cat README.md dirty; git log -1 --format=%s; git status --porcelain; git fsck --no-progress --no-dangling`
	shown = "changed\ndirty\nmine\n?? dirty"
)

// scene is an engine with a worked-in container and another volume that no container uses.
type scene struct {
	e      *engine
	r      remote
	worker container
	plain  string
}

func newScene(t *testing.T, flags ...string) scene {
	t.Helper()
	s := scene{e: own(t, nil, flags...), r: newRemote(t)}
	s.plain = plain(t, s.r.url, "main")
	s.e.create(t, "busy", "repo="+s.r.url, "ref=main", "subject=crash")
	s.e.create(t, "idle", "repo="+s.r.url, "ref=feature/x", "subject=crash")
	s.worker = s.e.sleeper(t, mount("busy"))
	s.worker.sh(t, work)
	return s
}

// livesOn starts an engine with live-restore anew: its containers have outlived it.
func (s scene) livesOn(t *testing.T) {
	t.Helper()
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, 0)
	if !s.worker.running(t) {
		t.Fatal("the container did not live on")
	}
	s.untouched(t)
}

// whole checks the volume list and that a second container gets a clean tree, with the cache of the first.
func (s scene) whole(t *testing.T) {
	t.Helper()
	if got, want := s.e.volumes(t), []string{"busy", "idle"}; !slices.Equal(got, want) {
		t.Errorf("volumes: got %q, want %q", got, want)
	}
	for name, ref := range map[string]string{"busy": "main", "idle": "feature/x"} {
		if got := s.e.status(t, name)["ref"]; got != ref {
			t.Errorf("status of %s: got ref %v, want %s", name, got, ref)
		}
	}
	same(t, "the second container", s.e.sh(t, mount("busy"), portrait), s.plain)
	if got := s.e.sh(t, mount("busy"), "cat .hdcache/marker"); got != "cached" {
		t.Errorf("the cache holds %q", got)
	}
}

// untouched checks that the worker still finds its work.
func (s scene) untouched(t *testing.T) {
	t.Helper()
	if got := s.worker.sh(t, proof); got != shown {
		t.Errorf("the running container: got %q, want %q", got, shown)
	}
}

// clean removes everything and checks that nothing is left.
func (s scene) clean(t *testing.T) {
	t.Helper()
	s.worker.remove(t)
	s.e.docker(t, "volume", "rm", "busy", "idle")
	if got := s.e.volumes(t); len(got) != 0 {
		t.Errorf("volumes: got %q, want none", got)
	}
	s.e.reclaimed(t, "crash")
	s.e.unmounted(t)
	s.e.emptied(t, "trash")
	s.e.alone(t)
	if got := s.r.Stats(app).Clones; got != 2 { // the plugin's and the host's
		t.Errorf("the server saw %d clones, want 2", got)
	}
}

func TestKillPlugin(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	// Once: an engine whose plugin dies again within half a second of its start gives it up for good.
	pid := s.e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, pid)
	s.untouched(t)
	s.whole(t)
	for range 2 {
		out := filepath.Join(t.TempDir(), "out")
		s.e.docker(t, "cp", s.worker.id+":/w/dirty", out)
		wantFile(t, out, "dirty\n")
	}
	s.untouched(t)
	s.clean(t)
}

// The plugin dies in the middle of a fetch: the next Mount carries on from whatever is there.
func TestKillPluginWhileCloning(t *testing.T) {
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	release := stalled(t, r)
	e.create(t, "cold", "repo="+r.url, "ref=main", "subject=crash")
	pid := e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.pluginPID(t, pid)
	release()
	same(t, "after the crash", e.sh(t, mount("cold"), portrait), want)
	e.docker(t, "volume", "rm", "cold")
	e.reclaimed(t, "crash")
	e.emptied(t, "trash")
	e.alone(t)
}

func TestDisablePlugin(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.e.disable(t)
	s.untouched(t)
	s.e.enable(t)
	s.untouched(t)
	s.whole(t)
	s.untouched(t)
	s.clean(t)
}

func TestKillEngine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := s.e.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, 0)
	// The engine may have unmounted the plugin's mounts under it: then the first mounts say so.
	s.e.right(t, "after the start", mount("busy"), portrait, s.plain)
	// This engine ends the containers that it finds; where one lives on, its work must be there.
	if s.worker.running(t) {
		s.untouched(t)
	}
	s.whole(t)
	s.e.docker(t, "start", s.worker.id)
	same(t, "the restarted container", s.worker.sh(t, portrait), s.plain)
	s.clean(t)
}

// With live-restore the containers outlive the engine.
func TestKillEngineLiveRestore(t *testing.T) {
	t.Parallel()
	s := newScene(t, "--live-restore")
	if err := s.e.Kill(); err != nil {
		t.Fatal(err)
	}
	s.livesOn(t)
	s.whole(t)
	s.untouched(t)
	s.clean(t)
}

// A stop in order and a start: containers end, and the same again is clean.
func TestRestartEngine(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	if err := s.e.Stop(); err != nil {
		t.Fatal(err)
	}
	if mounts, err := dockerd.MountsBelow(s.e.Path("data")); err != nil || len(mounts) > 0 {
		t.Errorf("mounts of a stopped engine: %q, %v", mounts, err)
	}
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.whole(t)
	s.e.docker(t, "start", s.worker.id)
	same(t, "the restarted container", s.worker.sh(t, portrait), s.plain)
	s.clean(t)
}
