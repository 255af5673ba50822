package tests

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// installDisk has room for three versions of the plugin and some clones.
const installDisk = 2 << 30

// unfinished is a version that the engine never gets, so it needs no program.
const unfinished = "1.2.0"

// TestToursInstall replays docs/tours/install.md as a new user types it: in an engine without the plugin, with a registry
// that has two versions of it, and without any file of this project.
func TestToursInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	r, server := newRegistry(t), testgit.Serve(t)
	for _, version := range []string{"1.0.0", "1.1.0"} {
		r.publish(t, shared(t), version, filepath.Join(pluginDir(), "rootfs"))
	}
	r.publish(t, shared(t), unfinished, t.TempDir())
	testgit.Generate(t, server, "app", gitserver.Spec{Seed: 1, Files: 40, Commits: 3, Changes: 5})
	e, err := setUp(t, func(l wait.Limit, dir string, flags ...string) (*dockerd.Engine, error) {
		if err := testdisk.Ext4(filepath.Join(dir, "data"), installDisk); err != nil {
			return nil, err
		}
		return dockerd.New(l, dir, flags...)
	}, nil, (*engine).importImage)
	if err != nil {
		t.Fatal(err)
	}
	e.closeAfter(t)
	e.docker(t, "tag", image, "debian")
	env := append(os.Environ(), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+e.Path("config"))
	replay(t, filepath.Join(tours, "install.md"), t.TempDir(), env, map[string]string{
		"registry.example.com":    r.address,
		"https://git.example.com": strings.TrimSuffix(server.URL(""), "/"),
	})
	wantClones(t, server, 1)
	if err := e.SetPluginID(); err != nil {
		t.Fatal(err)
	}
	u := &user{e, t, r, server}
	u.wantCheckpoint()
	u.upgradeInUse()
	u.upgradeInterrupted()
	u.installAnew()
}

// user is a user of an engine that has the plugin from a registry, with a clone of "app", the volume "work" and a checkpoint.
type user struct {
	*engine
	t      *testing.T
	r      *registry
	server *gitserver.Server
}

func (u *user) want(what, got, want string) {
	u.t.Helper()
	if got = strings.TrimSpace(got); got != want {
		u.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func wantClones(t *testing.T, server *gitserver.Server, want int) {
	t.Helper()
	if got := server.Stats("app").Clones; got != want {
		t.Errorf("the server saw %d clones, want %d", got, want)
	}
}

// wantCheckpoint checks that what a container wrote before the upgrade can still be restored.
func (u *user) wantCheckpoint() {
	u.t.Helper()
	list, err := u.admin(u.t).Checkpoints(u.t.Context(), api.Filter{})
	if err != nil || len(list) != 1 {
		u.t.Fatalf("checkpoints: %+v, %v", list, err)
	}
	u.docker(u.t, "volume", "create", "--driver", pluginName, "--opt", "repo="+u.server.URL("app"), "--opt", "from="+list[0].ID, "rescued")
	u.want("the restored checkpoint", u.sh(u.t, mount("rescued"), "cat /w/result.txt"), "done")
}

// wantVersion checks which version is installed.
func (u *user) wantVersion(version string) {
	u.t.Helper()
	u.want("the installed version", u.docker(u.t, "plugin", "inspect", "--format", "{{.Config.Description}}", pluginName),
		"Private, warm git checkouts as volumes ("+version+")")
}

// wantWarm checks that a container finds the clone, the kept workspace and the setting.
func (u *user) wantWarm() {
	u.t.Helper()
	u.want("reused", u.sh(u.t, mount("", "repo="+u.server.URL("app")), "grep reused /w/.git/helmdeck.json"), `"reused": true,`)
	u.want("the kept workspace", u.sh(u.t, mount("work"), "cat /w/notes.txt"), "call the customer")
	if env := u.docker(u.t, "plugin", "inspect", "--format", "{{.Settings.Env}}", pluginName); !strings.Contains(env, " MAX_SIZE=1GiB ") {
		u.t.Errorf("settings: %s", env)
	}
	wantClones(u.t, u.server, 1)
}

// upgrade returns the arguments of docker that upgrade to a version.
func (u *user) upgrade(version string) []string {
	return []string{"plugin", "upgrade", "--grant-all-permissions", "--skip-remote-check", pluginName, u.r.name(version)}
}

// upgradeInUse goes back to the first version while a container runs. The engine refuses that, but not after a disable by
// force; the container goes on.
func (u *user) upgradeInUse() {
	u.t.Helper()
	c := u.sleeper(u.t, mount("", "repo="+u.server.URL("app")))
	c.sh(u.t, "echo mine >/w/mine")
	for want, args := range map[string][]string{
		"plugin must be disabled before upgrading": u.upgrade("1.0.0"),
		"is in use": {"plugin", "disable", pluginName},
	} {
		if got := u.wantError(u.t, args...); !strings.Contains(got, want) {
			u.t.Errorf("docker %q: %s, want %q", args, got, want)
		}
	}
	u.disable(u.t)
	u.docker(u.t, u.upgrade("1.0.0")...)
	u.enable(u.t)
	u.wantVersion("1.0.0")
	u.want("the container that ran during the upgrade", c.sh(u.t, "cat /w/mine"), "mine")
	c.remove(u.t)
	u.wantWarm()
}

// upgradeInterrupted interrupts the download of a version, by the end of the command and by the end of the engine. Both times
// the old version is still installed, and can be enabled.
func (u *user) upgradeInterrupted() {
	u.t.Helper()
	for what, interrupt := range map[string]func(command *os.Process) error{
		"Ctrl-C": func(command *os.Process) error { return command.Signal(os.Interrupt) },
		"the engine's end": func(*os.Process) error {
			return errors.Join(u.Kill(), u.Start())
		},
	} {
		asked, resume := u.r.stall()
		u.disable(u.t)
		cmd := u.Command(u.upgrade(unfinished)...)
		if err := cmd.Start(); err != nil {
			u.t.Fatal(err)
		}
		select {
		case <-asked:
		case <-time.After(wait.Most(u.t)):
			u.t.Fatal("the engine did not ask for the new version's files")
		}
		if err := interrupt(cmd.Process); err != nil {
			u.t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			u.t.Errorf("%s: the upgrade succeeded", what)
		}
		resume()
		u.enable(u.t)
		u.wantVersion("1.0.0")
		u.wantWarm()
	}
	u.disable(u.t)
	u.docker(u.t, u.upgrade("1.1.0")...)
	u.enable(u.t)
	u.wantVersion("1.1.0")
	u.wantWarm()
}

// installAnew removes the plugin, which deletes all of its data, and installs it again.
func (u *user) installAnew() {
	u.t.Helper()
	data := u.Data()
	u.docker(u.t, "volume", "rm", "work", "rescued")
	u.disable(u.t)
	u.docker(u.t, "plugin", "rm", pluginName)
	if _, err := os.Stat(data); !errors.Is(err, os.ErrNotExist) {
		u.t.Errorf("after docker plugin rm: %v", err)
	}
	u.docker(u.t, "plugin", "install", "--alias", pluginName, "--grant-all-permissions", u.r.name("1.1.0"))
	if err := u.SetPluginID(); err != nil {
		u.t.Fatal(err)
	}
	u.want("reused", u.sh(u.t, mount("", "repo="+u.server.URL("app")), "grep reused /w/.git/helmdeck.json"), `"reused": false,`)
	wantClones(u.t, u.server, 2)
}
