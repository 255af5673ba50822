package tests

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/hostile"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestMainJob does on one engine what the plugin is for: it is installed from a registry, gives containers of two subjects
// clean checkouts of a private repository, and evicts the clones at the end. On the way a user pushes, the plugin is
// killed, the engine restarts, the remote fails, and a hostile repository is mounted.
func TestMainJob(t *testing.T) {
	t.Parallel()
	j := &job{engine: install(t), t: t, remote: newRemote(t), want: make(map[string]string)}
	j.want["main"] = plain(t, j.url, "main")
	j.Protect(app, gitserver.Login{User: "ada", Password: jobToken})
	for _, subject := range []string{"team-a", "team-b"} {
		if err := j.admin(t).PutCredential(t.Context(), subject, api.PutCredential{
			Kind: api.HTTPS, Scope: j.url, Subject: subject, User: "ada", Secret: jobToken,
		}); err != nil {
			t.Fatal(err)
		}
		j.create(t, subject, "repo="+j.url, "ref=main", "subject="+subject)
	}
	j.firstContainers()
	j.push()
	j.killPlugin()
	j.restartEngine()
	j.failRemote()
	j.mountHostile()
	j.evict()
	j.wantNoToken()
}

// jobToken is the password of the private repository. Nothing that the plugin writes may have it.
const jobToken = "t0ken-of-the-main-job"

type job struct {
	*engine
	remote
	t    *testing.T
	want map[string]string // portraits of plain clones
}

// install starts an engine, and installs the plugin from a registry.
func install(t *testing.T) *engine {
	t.Helper()
	r := newRegistry(t)
	e, err := setUp(t, dockerd.New, nil, (*engine).importImage)
	if err != nil {
		t.Fatal(err)
	}
	e.wantNothingLeftAfter(t)
	e.closeAfter(t)
	r.publish(t, e, "1.0.0", filepath.Join(pluginDir(), "rootfs"))
	e.docker(t, "plugin", "install", "--alias", pluginName, "--grant-all-permissions", r.name("1.0.0"))
	if err := e.SetPluginID(); err != nil {
		t.Fatal(err)
	}
	return e
}

// clean starts a container of a subject, checks that its tree is that of a plain clone, and makes changes of all kinds.
func (j *job) clean(when, subject string) {
	j.t.Helper()
	out := j.sh(j.t, mount(subject), portrait+`
		echo changed >README.md; git commit -qam mine; echo dirty >dirty; rm -rf src; git config user.name mallory; mkdir -p .git/hdcache/mine; echo cached >.git/hdcache/mine/`+subject)
	same(j.t, when+", a container of "+subject, out, j.want["main"])
}

// firstContainers gives each subject a clone of its own, and each container a clean tree.
func (j *job) firstContainers() {
	j.t.Helper()
	for range 2 {
		for _, subject := range []string{"team-a", "team-b"} {
			j.clean("at first", subject)
		}
	}
	for _, subject := range []string{"team-a", "team-b"} {
		j.awaitReclaimed(j.t, subject)
		if got := j.clones(j.t, subject); len(got) != 1 {
			j.t.Errorf("clones of %s: %q, want one", subject, got)
		}
		if got := j.sh(j.t, mount(subject), "ls .git/hdcache/mine"); got != subject {
			j.t.Errorf("the cache of %s has %q, want what its own containers wrote", subject, got)
		}
	}
}

// push adds a commit to the remote: the next container has it.
func (j *job) push() {
	j.t.Helper()
	j.commit(j.t, "main", gitserver.Change{Path: "pushed", Content: "pushed\n"})
	j.Protect(app)
	j.want["main"] = plain(j.t, j.url, "main")
	j.Protect(app, gitserver.Login{User: "ada", Password: jobToken})
	j.clean("after the push", "team-a")
}

// killPlugin kills the plugin below a running container, which keeps its work.
func (j *job) killPlugin() {
	j.t.Helper()
	c := j.sleeper(j.t, mount("team-a"))
	c.sh(j.t, work)
	pid := j.pluginPID(j.t, 0)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		j.t.Fatal(err)
	}
	j.pluginPID(j.t, pid)
	j.clean("after the kill", "team-a")
	j.clean("after the kill", "team-b")
	if got := c.sh(j.t, proof); got != proofOutput {
		j.t.Errorf("the container that outlived the plugin: got %q, want %q", got, proofOutput)
	}
	c.remove(j.t)
}

// restartEngine stops and starts the engine. A container that ran finds a clean tree when it starts again.
func (j *job) restartEngine() {
	j.t.Helper()
	c := j.sleeper(j.t, mount("team-b"))
	c.sh(j.t, work)
	if err := errors.Join(j.Stop(), j.Start()); err != nil {
		j.t.Fatal(err)
	}
	j.clean("after the restart", "team-a")
	j.docker(j.t, "start", c.id)
	same(j.t, "the restarted container", c.sh(j.t, portrait), j.want["main"])
	c.remove(j.t)
}

// failRemote lets the remote fail: a container does not start, the error names the repository, and a running container
// goes on. When the remote is back, all is as before.
func (j *job) failRemote() {
	j.t.Helper()
	c := j.sleeper(j.t, mount("team-a"))
	j.Wrap(gitserver.Fail(http.StatusInternalServerError))
	if said := j.wantError(j.t, shArgs(mount("team-b"), "true")...); !strings.Contains(said, j.url) || !strings.Contains(said, "500") {
		j.t.Errorf("the remote answers with status 500, and the error is %s", said)
	}
	j.Wrap(nil)
	same(j.t, "a container during the remote's fault", c.sh(j.t, portrait), j.want["main"])
	c.remove(j.t)
	j.clean("after the remote's fault", "team-b")
}

// mountHostile mounts repositories that try to run a command in the plugin, and to write outside of their tree. Others
// notice nothing.
func (j *job) mountHostile() {
	j.t.Helper()
	server := testgit.Serve(j.t)
	if err := os.Mkdir(j.Data("outside"), 0o777); err != nil {
		j.t.Fatal(err)
	}
	// The plugin has its data at /data.
	bait := hostile.Bait{Canary: "/data/canary", Outside: "/data/outside", URL: server.URL("bait")}
	attacks := map[string]bool{"module-update-command": false, "link-then-file": false, "link-then-hook": false}
	for _, c := range hostile.Cases() {
		if _, chosen := attacks[c.Name]; !chosen {
			continue
		}
		attacks[c.Name] = true
		if _, err := c.Build(filepath.Dir(server.Path("x")), c.Name, bait); err != nil {
			j.t.Fatal(err)
		}
		server.Route(c.Name, c.Faults(server.Path(c.Name), bait)...)
		out, err := j.Try(shArgs(mount("", "repo="+server.URL(c.Name), "subject=mallory", "submodules=recursive"), "git status --porcelain")...)
		j.t.Logf("%s: %q, %v", c.Name, out, err) // it may be mounted or refused
		if _, err := os.Lstat(j.Data("canary")); err == nil {
			j.t.Errorf("%s: a command ran in the plugin", c.Name)
		}
		if left, err := os.ReadDir(j.Data("outside")); err != nil || len(left) > 0 {
			j.t.Errorf("%s: outside of the tree is %v, %v", c.Name, left, err)
		}
	}
	for name, tried := range attacks {
		if !tried {
			j.t.Errorf("there is no hostile repository %s", name)
		}
	}
	if err := os.Remove(j.Data("outside")); err != nil {
		j.t.Error(err)
	}
	j.awaitReclaimed(j.t, "mallory")
	list, err := j.admin(j.t).Clones(j.t.Context(), api.Filter{Subject: "mallory"})
	for _, c := range list { // also those of submodules, which a prune leaves alone because no mount had them
		_, evicted := j.admin(j.t).EvictClone(j.t.Context(), c.Clone)
		err = errors.Join(err, evicted)
	}
	if left := j.clones(j.t, "mallory"); err != nil || len(left) > 0 {
		j.t.Errorf("the clones of mallory: %q are left, %v", left, err)
	}
	j.clean("after the hostile repositories", "team-a")
}

// evict evicts all clones but one that a container uses, and that one when the container has ended. The next mount clones
// again.
func (j *job) evict() {
	j.t.Helper()
	c := j.sleeper(j.t, mount("team-a"))
	c.sh(j.t, work)
	j.prune("team-b")
	if _, err := j.admin(j.t).Prune(j.t.Context(), api.Prune{All: true, Checkpoints: true}); err != nil {
		j.t.Error(err)
	}
	if got := c.sh(j.t, proof); got != proofOutput {
		j.t.Errorf("the container whose clone is in use: got %q, want %q", got, proofOutput)
	}
	c.remove(j.t)
	j.prune("team-a")
	j.awaitEmpty(j.t, "trash")
	j.awaitNoChildren(j.t)
	j.clean("after the eviction", "team-a")
	j.awaitReclaimed(j.t, "team-a")
	j.docker(j.t, "volume", "rm", "team-a", "team-b")
	if got := j.volumes(j.t); len(got) > 0 {
		j.t.Errorf("volumes: got %q, want none", got)
	}
}

// prune removes what a subject has, when the plugin no longer works on it.
func (j *job) prune(subject string) {
	j.t.Helper()
	j.awaitReclaimed(j.t, subject)
	wait.For(j.t, "the eviction of the clones of "+subject, func() error {
		r, err := j.admin(j.t).Prune(j.t.Context(), api.Prune{All: true, Checkpoints: true, Subject: subject})
		if left := j.clones(j.t, subject); err == nil && len(left) > 0 {
			err = fmt.Errorf("%q are left of %+v", left, r)
		}
		return err
	})
}

// wantNoToken checks that the token of the private repository is in no log and no file of the plugin.
func (j *job) wantNoToken() {
	j.t.Helper()
	if err := j.admin(j.t).Logs(j.t.Context(), api.LogFilter{}, func(line api.LogLine) error {
		if strings.Contains(fmt.Sprint(line), jobToken) {
			j.t.Errorf("the plugin's log has the token: %v", line)
		}
		return nil
	}); err != nil {
		j.t.Error(err)
	}
	if text, err := os.ReadFile(j.engine.Path("log")); err != nil || bytes.Contains(text, []byte(jobToken)) {
		j.t.Errorf("the engine's log has the token: %v", err)
	}
}
