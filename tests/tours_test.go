package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// tours is where the pages are that TestTours replays.
const tours = "../docs/tours"

// session is a page that TestTours replays, by its path from tours.
type session struct {
	page string
	// prepare makes the situation that the page describes.
	prepare func(t *testing.T, e *engine, server *gitserver.Server, dir string)
}

var sessions = []session{
	{"../../README.md", repository("octocat/Hello-World")},
	{"../how-to/checkpoints.md", repository("lab")},
	{"../how-to/first-clone.md", repository("ahead")},
	{"../how-to/after-a-push.md", repository("pushed")},
	{"disk-full.md", fullDisk},
	{"private-repository.md", privateRepository},
	{"mount-failed.md", failedMount},
	{"yesterday.md", yesterday},
	{"../how-to/push.md", agent}, // last, because its credential stays
}

// TestTours replays the terminal sessions of docs/tours, and of the README and pages like it, in an engine whose volumes
// are on a small disk of their own.
func TestTours(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	server := testgit.Serve(t)
	e := ownOf(t, onSmallDisk, []string{"MIN_FREE=5%"})
	bin := e.installCLI(t, "root")
	e.writeJournalctl(t, bin)
	for _, name := range []string{"debian", "my-image"} {
		e.docker(t, "tag", image, name)
	}
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+bin)
	names := map[string]string{
		"https://git.example.com":    strings.TrimSuffix(server.URL(""), "/"),
		"git.example.com":            server.Addr(),
		"/var/lib/docker":            e.Path("data"),
		"https://github.com/octocat": server.URL("octocat"),
	}

	for _, tour := range sessions {
		t.Run(strings.TrimSuffix(filepath.Base(tour.page), ".md"), func(t *testing.T) {
			dir := t.TempDir()
			tour.prepare(t, e, server, dir)
			replay(t, filepath.Join(tours, tour.page), dir, env, names)
		})
	}
}

// repository makes the repository of a page that needs nothing else.
func repository(name string) func(*testing.T, *engine, *gitserver.Server, string) {
	return func(t *testing.T, _ *engine, server *gitserver.Server, _ string) {
		if err := os.MkdirAll(filepath.Dir(server.Path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		testgit.Generate(t, server, name, gitserver.Spec{Seed: 5, Files: 20, Commits: 2, Changes: 2})
	}
}

// agent makes a private repository, and an image whose containers commit on a branch.
func agent(t *testing.T, e *engine, server *gitserver.Server, dir string) {
	repository("my-org/app")(t, e, server, dir)
	server.Protect("my-org/app", gitserver.Login{User: "x-access-token", Password: "s3cret"})
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hostGit(t, dir, "clone", "-q", server.Path("my-org/app"), "elsewhere")
	id := e.docker(t, "create", image, "true")
	script := `CMD ["sh", "-c", "git switch -q -c fix-login && echo fixed >login && git add login && git commit -q -m login"]`
	e.docker(t, "commit", "--change", script, id, "my-agent")
	e.docker(t, "rm", id)
}

// diskSize has room for the plugin's root filesystem and some clones.
const diskSize = 500 << 20

// onSmallDisk is dockerd.New with a small filesystem for the engine's plugins and their data. The engine's end
// unmounts it.
func onSmallDisk(l wait.Limit, dir string, flags ...string) (*dockerd.Engine, error) {
	if err := testdisk.Ext4(filepath.Join(dir, "data"), diskSize); err != nil {
		return nil, err
	}
	return dockerd.New(l, dir, flags...)
}

// writeJournalctl makes a journalctl that shows the engine's log. Of the real one's flags it takes -u docker.
func (e *engine) writeJournalctl(t *testing.T, bin string) {
	t.Helper()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$*\" = '-u docker' ] || { echo \"journalctl: not in the test: $*\" >&2; exit 64; }\nexec sed 's/^/%s /' %s\n",
		"Jan 31 03:00:00 host dockerd[1]:", e.Path("log"))
	if err := os.WriteFile(filepath.Join(bin, "journalctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
}

// fullDisk makes a subject fill the disk: its container wrote into a workspace that its volume keeps.
func fullDisk(t *testing.T, e *engine, server *gitserver.Server, dir string) {
	testgit.Generate(t, server, "small", gitserver.Spec{Seed: 1, Files: 50, Commits: 3, Changes: 2})
	testgit.Generate(t, server, "app", gitserver.Spec{Seed: 2, Files: 8000})
	e.docker(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+server.URL("small"), "--opt", "subject=team-b", "--opt", "mode=keep", "nightly")
	// What is left is enough for the engine, but not for a clone.
	e.sh(t, mount("nightly"), "dd if=/dev/zero of=spare bs=1M count=6 2>/dev/null; dd if=/dev/zero of=disk.img bs=1M 2>/dev/null || true; rm spare")
	wait.For(t, "the size of what was written", func() error {
		s, err := e.admin(t).Subject(t.Context(), "team-b")
		if err == nil && s.Classes.Workspace.Bytes < 100<<20 {
			err = fmt.Errorf("%d bytes", s.Classes.Workspace.Bytes)
		}
		return err
	})
	// The warning is of the last sweep, which may not have known the size.
	if _, err := e.admin(t).Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// privateRepository makes a repository that asks for a password, which is in the file new-token.
func privateRepository(t *testing.T, e *engine, server *gitserver.Server, dir string) {
	testgit.Generate(t, server, "shop", gitserver.Spec{Seed: 2, Files: 20, Commits: 2, Changes: 2})
	server.Protect("shop", gitserver.Login{User: "x-access-token", Password: "s3cret"})
	for name, secret := range map[string]string{"token": "0ther\n", "new-token": "s3cret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// failedMount makes a volume whose mounts fail, because its repository's server no longer accepts the token.
func failedMount(t *testing.T, e *engine, server *gitserver.Server, dir string) {
	testgit.Generate(t, server, "site", gitserver.Spec{Seed: 3, Files: 20, Commits: 2, Changes: 2})
	server.Protect("site", gitserver.Login{User: "x-access-token", Password: "first"})
	put := api.PutCredential{Kind: api.HTTPS, Scope: server.URL("site"), User: "x-access-token", Secret: "first"}
	if err := e.admin(t).PutCredential(t.Context(), "site", put); err != nil {
		t.Fatal(err)
	}
	e.docker(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+server.URL("site"), "--opt", "subject=team-d", "--opt", "refresh=always", "web")
	e.docker(t, "run", "--name", "job", "--volume", "web:/w", "debian", "git", "-C", "/w", "log", "-1", "--format=%s")
	server.Protect("site", gitserver.Login{User: "x-access-token", Password: "second"})
	e.wantError(t, "start", "--attach", "job")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("second\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// yesterday lets a subject do what the page asks about. The page asks for an interval that contains it, because the
// plugin has no other clock than the machine's.
func yesterday(t *testing.T, e *engine, server *gitserver.Server, dir string) {
	testgit.Generate(t, server, "jobs", gitserver.Spec{Seed: 4, Files: 20, Commits: 2, Changes: 2})
	e.docker(t, "volume", "create", "--driver", pluginName, "--opt", "repo="+server.URL("jobs"), "--opt", "subject=team-e", "--opt", "ref=main", "batch")
	e.sh(t, mount("batch"), "echo result >result.txt")
	most := 20
	if err := e.admin(t).SetLimits(t.Context(), "team-e", api.OwnLimits{MaxLeases: &most}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the checkpoint", func() error {
		list, err := e.admin(t).Checkpoints(t.Context(), api.Filter{Subject: "team-e"})
		if err == nil && (len(list) != 1 || list[0].Changed == nil) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
}

// TestBackup replays docs/operations/backup.md: with a backup, the plugin is removed, installed under another ID and
// filled again.
func TestBackup(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, server := own(t, nil), testgit.Remote(t, "app", gitserver.Spec{Seed: 1, Files: 50, Commits: 3, Changes: 2})
	bin := e.installCLI(t, "root")
	e.docker(t, "tag", image, "debian")
	for name, mode := range map[string]string{"kept": "keep", "hello": "private"} {
		e.create(t, name, "repo="+server.URL("app"), "mode="+mode)
	}
	e.sh(t, mount("kept"), `echo changed >>README.md; git commit -qam "my commit"; echo again >>README.md; echo 42 >result`)
	e.sh(t, mount("hello"), "echo x >dropped")
	put := api.PutCredential{Kind: api.HTTPS, Scope: "https://git.example.com/private", User: "x", Secret: "s3cret"}
	if err := e.admin(t).PutCredential(t.Context(), "example", put); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the checkpoint", func() error {
		list, err := e.admin(t).Checkpoints(t.Context(), api.Filter{})
		if err == nil && (len(list) != 1 || list[0].Changed == nil) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})

	// On the page, the plugin is installed on another machine.
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nset -e\ndocker plugin rm --force %[1]s\ndocker plugin create %[1]s %[2]s\ndocker plugin enable --timeout 120 %[1]s\n",
		pluginName, abs(t, pluginDir()))
	if err := os.WriteFile(filepath.Join(dir, "make"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PATH="+dir+":"+bin+":"+os.Getenv("PATH"), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+bin)
	replay(t, "../docs/operations/backup.md", dir, env, map[string]string{"/var/lib/docker": e.Path("data")})
}
