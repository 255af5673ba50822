package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// With mode=shared two containers have one workspace, which is reset when the last one ends.
func TestSharedVolume(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	e.create(t, subject(t), "repo="+r.url, "ref=main", "mode=shared", "subject="+subject(t))
	first, second := e.sleeper(t, mount(subject(t))), e.sleeper(t, mount(subject(t)))
	first.sh(t, "echo mine >mine")
	if got := second.sh(t, "cat mine"); got != "mine" {
		t.Errorf("the second container sees %q, want the first one's file", got)
	}
	e.docker(t, "restart", "--time", "0", first.id)
	if got := first.sh(t, "cat mine"); got != "mine" {
		t.Errorf("the first container, restarted while the second one runs, sees %q, want its file", got)
	}
	first.remove(t)
	e.docker(t, "restart", "--time", "0", second.id)
	same(t, "the only container, after a restart", second.sh(t, portrait), plain(t, r.url, "main"))
	second.remove(t)
	e.awaitReclaimed(t, subject(t))
}

// TestVolumesFrom checks what a container with --volumes-from sees of the files of the other container: all with
// mode=shared and keep, nothing in the default mode, which the volume's status says if it has no name.
func TestVolumesFrom(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	for mode, want := range map[string]string{"private": "none", "shared": "built", "keep": "built"} {
		agent := e.sleeper(t, mount("", "repo="+r.url, "ref=main", "subject="+subject(t), "mode="+mode))
		agent.sh(t, "echo built >artifact")
		step := container{e, e.docker(t, "run", "--detach", "--network", "none", "--stop-signal", "KILL", "--volumes-from", agent.id, image, "sleep", "1000000")}
		t.Cleanup(func() { e.Try("rm", "--force", step.id) })
		if got := step.sh(t, "cat artifact 2>/dev/null || echo none"); got != want {
			t.Errorf("%s: the step sees %q, want %q", mode, got, want)
		}
		name := e.docker(t, "inspect", "--format", "{{(index .Mounts 0).Name}}", agent.id)
		warnings := e.docker(t, "volume", "inspect", "--format", "{{json .Status.warnings}}", name)
		if got := strings.Contains(warnings, "--volumes-from"); got != (mode == "private") {
			t.Errorf("%s: warnings are %s", mode, warnings)
		}
		e.docker(t, "rm", "--force", step.id) // without the volume, which is the agent's
		agent.remove(t)
	}
	e.awaitReclaimed(t, subject(t))
}

// A kept workspace survives docker restart, docker cp, a push to the remote, and disabling the
// plugin by force. After the volume is removed it is a checkpoint, from which another volume is
// restored.
func TestKeptVolume(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	name := subject(t)
	e.create(t, name, "repo="+r.url, "ref=main", "mode=keep", "subject="+name)
	c := e.sleeper(t, mount(name))
	c.sh(t, "echo mine >mine; git add mine; git commit -qm mine; echo more >untracked; rm -rf src")
	want := c.sh(t, "git rev-parse HEAD; git status --porcelain")
	wantKept := func(when string) {
		t.Helper()
		if got := c.sh(t, "git rev-parse HEAD; git status --porcelain"); got != want {
			t.Errorf("%s: got %q, want %q", when, got, want)
		}
	}

	r.commit(t, "main", gitserver.Change{Path: "new", Content: "new\n"})
	e.docker(t, "restart", "--time", "0", c.id)
	wantKept("after docker restart")
	wait.For(t, "the number of commits behind in the status", func() error {
		got := e.docker(t, "volume", "inspect", "--format", "{{.Status.behind}} {{.Status.mode}}", name)
		if strings.TrimSpace(got) != "1 keep" {
			return fmt.Errorf("%q", got)
		}
		return nil
	})
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	if err := os.WriteFile(in, []byte("given\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e.docker(t, "stop", "--time", "0", c.id)
	e.docker(t, "cp", in, c.id+":/w/given")
	e.docker(t, "cp", c.id+":/w/untracked", filepath.Join(dir, "out"))
	wantFile(t, filepath.Join(dir, "out"), "more\n")
	e.docker(t, "start", c.id)
	if got := c.sh(t, "cat given; rm given"); got != "given" {
		t.Errorf("the file that was copied to the stopped container: %q", got)
	}
	wantKept("after docker cp")

	// The container keeps its workspace, and no other container can mount it meanwhile.
	e.disable(t)
	e.enable(t)
	if said := e.wantError(t, "run", "--rm", "--network", "none", "--mount", mount(name), image, "true"); !strings.Contains(said, "a container that outlived a disabled plugin") {
		t.Errorf("a second container beside one that outlived the plugin: %s", said)
	}
	e.docker(t, "restart", "--time", "0", c.id)
	wantKept("after the plugin was disabled by force")
	c.remove(t)

	e.docker(t, "volume", "rm", name)
	var checkpoints []api.Checkpoint
	wait.For(t, "the checkpoint", func() error {
		var err error
		checkpoints, err = e.admin(t).Checkpoints(t.Context(), api.Filter{})
		if err == nil && (len(checkpoints) != 1 || checkpoints[0].Changed == nil) {
			err = fmt.Errorf("%+v", checkpoints)
		}
		return err
	})
	d := checkpoints[0]
	if d.Volume != name || d.Subject != name || d.Repo != r.url || d.Bytes == nil || *d.Changed < 3 {
		t.Errorf("%+v", d)
	}
	e.create(t, name+"-again", "repo="+r.url, "subject="+name, "from="+d.ID, "mode=keep")
	c = e.sleeper(t, mount(name+"-again"))
	wantKept("restored")
	c.remove(t)
	e.docker(t, "volume", "rm", name+"-again")
	e.awaitReclaimed(t, name)
}
