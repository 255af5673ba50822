package tests

import (
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/dockerd"
)

// All crash tests have the same course: a container works, and then the engine or the plugin is
// killed or stopped. After that a container that survived finds its work untouched, a second
// container gets a clean tree, and no volume is lost. At the end nothing is left.

// work is what the container does before the crash. proof prints proofOutput if all of the work
// still exists.
const (
	work        = `echo changed >README.md; git commit -qam mine; echo dirty >dirty; mkdir -p .git/hdcache/mine; echo cached >.git/hdcache/mine/marker`
	proof       = `cat README.md dirty; git log -1 --format=%s; git status --porcelain; git fsck --no-progress --no-dangling; cat .git/hdcache/mine/marker`
	proofOutput = "changed\ndirty\nmine\n?? dirty\ncached"
)

// scene is an engine with the volume "busy", in which a container has worked, and the volume
// "idle", which no container uses.
type scene struct {
	e      *engine
	r      remote
	worker container
	plain  string // the portrait of a clean checkout of busy
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

// startAgain starts an engine with live-restore again, and checks that the container outlived it.
func (s scene) startAgain(t *testing.T) {
	t.Helper()
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, 0)
	if !s.worker.running(t) {
		t.Fatal("the container has ended with the engine")
	}
	s.wantUntouched(t)
}

// wantWhole checks the list of volumes, and that a second container gets a clean tree.
func (s scene) wantWhole(t *testing.T) {
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
}

// wantUntouched checks that the container still finds its work.
func (s scene) wantUntouched(t *testing.T) {
	t.Helper()
	if got := s.worker.sh(t, proof); got != proofOutput {
		t.Errorf("the running container: got %q, want %q", got, proofOutput)
	}
}

// finish removes everything and checks that nothing is left.
func (s scene) finish(t *testing.T) {
	t.Helper()
	s.worker.remove(t)
	s.e.docker(t, "volume", "rm", "busy", "idle")
	if got := s.e.volumes(t); len(got) != 0 {
		t.Errorf("volumes: got %q, want none", got)
	}
	s.e.awaitReclaimed(t, "crash")
	s.e.awaitUnmounted(t)
	s.e.awaitEmpty(t, "trash")
	s.e.awaitNoChildren(t)
	if got := s.r.Stats(app).Clones; got != 2 { // one of the plugin, one of the host for s.plain
		t.Errorf("the server saw %d clones, want 2", got)
	}
}

func TestKillPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("TestMainJob has it in short")
	}
	t.Parallel()
	s := newScene(t)
	// Only once: the engine does not restart a plugin that ends again within half a second of its
	// start.
	pid := s.e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, pid)
	s.wantUntouched(t)
	s.wantWhole(t)
	for range 2 {
		out := filepath.Join(t.TempDir(), "out")
		s.e.docker(t, "cp", s.worker.id+":/w/dirty", out)
		wantFile(t, out, "dirty\n")
	}
	s.wantUntouched(t)
	s.finish(t)
}

// The plugin is killed in the middle of a fetch. The next Mount works, whatever the fetch left
// behind.
func TestKillPluginWhileCloning(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	want := plain(t, r.url, "main")
	release := stall(t, r)
	e.create(t, "cold", "repo="+r.url, "ref=main", "subject=crash")
	pid := e.pluginPID(t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e.pluginPID(t, pid)
	release()
	same(t, "after the crash", e.sh(t, mount("cold"), portrait), want)
	e.docker(t, "volume", "rm", "cold")
	e.awaitReclaimed(t, "crash")
	e.awaitEmpty(t, "trash")
	e.awaitNoChildren(t)
}

func TestDisablePlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t)
	s.e.disable(t)
	s.wantUntouched(t)
	s.e.enable(t)
	s.wantUntouched(t)
	s.wantWhole(t)
	s.wantUntouched(t)
	s.finish(t)
}

func TestKillEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t)
	if err := s.e.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.e.Start(); err != nil {
		t.Fatal(err)
	}
	s.e.pluginPID(t, 0)
	// The engine may have unmounted the plugin's mounts. Then the first mounts fail and say so.
	s.e.awaitOutput(t, "after the start", mount("busy"), portrait, s.plain)
	// The engine ends the containers that it finds. If one survives, it must still have its work.
	if s.worker.running(t) {
		s.wantUntouched(t)
	}
	s.wantWhole(t)
	s.e.docker(t, "start", s.worker.id)
	same(t, "the restarted container", s.worker.sh(t, portrait), s.plain)
	s.finish(t)
}

// With live-restore containers outlive the engine, and keep their work.
func TestKillEngineLiveRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := newScene(t, "--live-restore")
	if err := s.e.Kill(); err != nil {
		t.Fatal(err)
	}
	s.startAgain(t)
	s.wantWhole(t)
	s.wantUntouched(t)
	s.finish(t)
}

// The engine is stopped in order and started. The containers end, and find a clean checkout when
// they start again.
func TestRestartEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("TestMainJob has it in short")
	}
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
	s.wantWhole(t)
	s.e.docker(t, "start", s.worker.id)
	same(t, "the restarted container", s.worker.sh(t, portrait), s.plain)
	s.finish(t)
}
