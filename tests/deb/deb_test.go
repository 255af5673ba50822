package deb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestReproducible checks that a second build is equal, and as a control that another time stamp makes another package.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, c := range []struct {
		epoch string
		same  bool
	}{{"", true}, {"SOURCE_DATE_EPOCH=1700000000", false}} {
		again := t.TempDir()
		if err := makePackages(again, c.epoch); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"docker-repos", "helmdeck-repos"} {
			first := packageFile(t, name)
			if got := hash(t, first) == hash(t, filepath.Join(again, filepath.Base(first))); got != c.same {
				t.Errorf("%s, built with %q: same is %t", name, c.epoch, got)
			}
		}
	}
}

func hash(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// TestContents checks which files the packages have, with modes and owners.
func TestContents(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for name, want := range map[string]string{
		"docker-repos": `
lrwxrwxrwx root/root ./usr/bin/docker-repos -> ../libexec/docker/cli-plugins/docker-repos
-rwxr-xr-x root/root ./usr/libexec/docker/cli-plugins/docker-repos
-rw-r--r-- root/root ./usr/share/doc/docker-repos/changelog.gz
-rw-r--r-- root/root ./usr/share/doc/docker-repos/copyright
-rw-r--r-- root/root ./usr/share/lintian/overrides/docker-repos`,
		"helmdeck-repos": `
-rw-r--r-- root/root ./etc/containers/containers.conf.d/helmdeck-repos.conf
-rw-r--r-- root/root ./etc/helmdeck-repos/settings.env
-rwxr-xr-x root/root ./usr/lib/helmdeck-repos/helmdeck-repos
-rw-r--r-- root/root ./usr/lib/systemd/system/helmdeck-repos.service
-rw-r--r-- root/root ./usr/lib/systemd/system/helmdeck-repos.socket
-rw-r--r-- root/root ./usr/share/doc/helmdeck-repos/changelog.gz
-rw-r--r-- root/root ./usr/share/doc/helmdeck-repos/copyright
-rw-r--r-- root/root ./usr/share/lintian/overrides/helmdeck-repos`,
	} {
		out, err := exec.Command("sh", "-c", `dpkg-deb --contents "$1" | awk '!/\/$/ { $3 = $4 = $5 = ""; print }' | tr -s ' ' | sort -k3`, "sh", packageFile(t, name)).CombinedOutput()
		if got, want := strings.TrimSpace(string(out)), strings.TrimSpace(want); err != nil || got != want {
			t.Errorf("%s has\n%s\nwant\n%s\n%v", name, got, want, err)
		}
	}
}

const (
	service = "helmdeck-repos.service"
	socket  = "helmdeck-repos.socket"
)

// TestService leads through the life of the service: it is installed and serves a mount, systemd hands its sockets from
// process to process, and a removal keeps what a purge deletes.
func TestService(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	m := boot(t)
	remote := testgit.Remote(t, "app", gitserver.Spec{Seed: 1, Files: 40, Commits: 3, Changes: 5})
	m.install(packageFile(t, "helmdeck-repos"))
	m.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/"+service, "/usr/lib/systemd/system/"+socket)
	m.wantActive(service, socket)
	if got := m.run("systemctl", "is-enabled", service, socket); got != "enabled\nenabled" {
		t.Errorf("is-enabled: %q", got)
	}

	dir := m.mount(remote, "v", "one")
	if _, err := os.Stat(m.path(filepath.Join(dir, "README.md"))); err != nil {
		t.Errorf("the mounted checkout: %v", err)
	}
	m.install(packageFile(t, "docker-repos"))
	// Without an engine that has the plugin, the command finds the service.
	if out, err := m.try("docker-repos", "ls", "--format", "{{.Subject}}"); err != nil || out != "default" {
		t.Errorf("docker-repos ls: got %s, %v; want the clone of the subject default", out, err)
	}
	if out, err := m.try("docker-repos", "doctor", "--remotes=false", "--format", "{{.Name}}"); err != nil || strings.Contains(out, "engine") {
		t.Errorf("docker-repos doctor: got %s, %v; want no check of an engine", out, err)
	}
	m.wantSettings()
	m.wantNewGit()

	// A crash: a client that calls before the next process runs waits for it.
	first := m.mainPID()
	m.run("systemctl", "kill", "--signal=KILL", service)
	if err := wait.Until(t, func() error {
		if m.mainPID() == first {
			return errors.New("it still runs")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.caller().Get(t.Context(), "v"); err != nil {
		t.Errorf("a call after a crash: %v", err)
	}
	if _, err := os.Stat(m.path(filepath.Join(dir, "README.md"))); err != nil {
		t.Errorf("the checkout after a crash: %v", err)
	}

	// Only a call starts a stopped service whose sockets listen.
	m.run("systemctl", "stop", service)
	if got, err := m.try("systemctl", "is-active", service); err == nil {
		t.Errorf("after stop: %s", got)
	}
	if _, err := m.caller().Get(t.Context(), "v"); err != nil {
		t.Errorf("a call while the service is stopped: %v", err)
	}

	m.upgrade()
	m.wantActive(service, socket)
	if got, err := m.caller().Get(t.Context(), "v"); err != nil || got.Mountpoint != dir {
		t.Errorf("after an upgrade: %+v, %v; want it mounted at %s", got, err, dir)
	}

	m.run("dpkg", "--remove", "helmdeck-repos")
	if got, err := m.try("systemctl", "is-active", service, socket); err == nil {
		t.Errorf("after the removal: %s", got)
	}
	if _, err := net.Dial("unix", m.path("/run/helmdeck-repos/repos.sock")); err == nil {
		t.Error("after the removal somebody listens")
	}
	if _, err := os.Stat(m.path("/var/lib/helmdeck-repos/meta.db")); err != nil {
		t.Errorf("a removal keeps the data: %v", err)
	}

	// Somebody else's account has the uid of the fetches.
	m.run("usermod", "--login", "somebody", "helmdeck-git")
	if out, err := m.try("dpkg", "--install", "--force-confdef", "/debs/package.deb"); err == nil || !strings.Contains(out, "the account somebody has the uid 65532") {
		t.Errorf("an installation while somebody has the uid: %v, %s", err, out)
	}
	m.run("usermod", "--login", "helmdeck-git", "somebody")

	m.install(packageFile(t, "helmdeck-repos"))
	if _, err := m.caller().Get(t.Context(), "v"); err != nil {
		t.Errorf("after a new installation: %v", err)
	}
	m.purge()
}

// purge checks that a purge is refused while another mount namespace has a workspace, as that of a container, and then deletes everything.
func (m *machine) purge() {
	m.t.Helper()
	user := exec.Command("nsenter", "--target", fmt.Sprint(m.pid), "--mount", "--pid", "--root", "--wd", "unshare", "--mount", "cat")
	stdin, err := user.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	stdout, err := user.StdoutPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := user.Start(); err != nil {
		m.t.Fatal(err)
	}
	fmt.Fprintln(stdin)
	stdout.Read(make([]byte, 1)) // it is in its own mount namespace now
	if out, err := m.try("dpkg", "--purge", "helmdeck-repos"); err == nil || !strings.Contains(out, "in use: end the containers") {
		m.t.Errorf("a purge while a container has a volume: %v, %s", err, out)
	}
	if _, err := os.Stat(m.path("/var/lib/helmdeck-repos/meta.db")); err != nil {
		m.t.Errorf("a refused purge deletes nothing: %v", err)
	}
	stdin.Close()
	user.Wait()

	m.run("dpkg", "--purge", "helmdeck-repos")
	left, _ := m.try("sh", "-c", `
		cd /etc && ls -d helmdeck-repos containers/containers.conf.d/helmdeck* systemd/system/*/helmdeck* 2>/dev/null
		ls -d /run/helmdeck-repos /usr/lib/helmdeck-repos /usr/lib/systemd/system/helmdeck* /var/lib/helmdeck-repos/.* 2>/dev/null | grep -v '/\.*$'`)
	if left != "" {
		m.t.Errorf("left after the purge: %s", left)
	}
	if out, err := m.try("getent", "passwd", "helmdeck-git"); err == nil {
		m.t.Errorf("left after the purge: %s", out)
	}
}

// upgrade installs the same package with a later version, and checks that no socket was closed.
func (m *machine) upgrade() {
	m.t.Helper()
	work := m.t.TempDir()
	script := `dpkg-deb -R "$1" "$2/root" && sed -i 's/^Version: .*/Version: 0.0.2/' "$2/root/DEBIAN/control" && dpkg-deb -Znone -b "$2/root" "$2/next.deb"`
	if out, err := exec.Command("sh", "-c", script, "sh", packageFile(m.t, "helmdeck-repos"), work).CombinedOutput(); err != nil {
		m.t.Fatalf("%v: %s", err, out)
	}
	since := m.run("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", socket)
	before := m.mainPID()
	m.install(filepath.Join(work, "next.deb"))
	if m.mainPID() == before {
		m.t.Error("the upgrade did not restart the service")
	}
	if now := m.run("systemctl", "show", "--property=ActiveEnterTimestampMonotonic", socket); now != since {
		m.t.Errorf("the sockets: %s, before the upgrade %s", now, since)
	}
}

// wantSettings checks that the file of settings counts, and that a wrong one is an error that the log shows.
func (m *machine) wantSettings() {
	m.t.Helper()
	const file = "/etc/helmdeck-repos/settings.env"
	before, err := os.ReadFile(m.path(file))
	if err != nil {
		m.t.Fatal(err)
	}
	write := func(more string) {
		if err := os.WriteFile(m.path(file), append(before[:len(before):len(before)], more...), 0o644); err != nil {
			m.t.Fatal(err)
		}
	}
	write("LOG_FORMAT=nonsense\n")
	if out, err := m.try("systemctl", "restart", service); err == nil {
		m.t.Errorf("restart with a wrong setting: %s", out)
	}
	if log := m.run("journalctl", "--no-pager", "-u", service); !strings.Contains(log, "LOG_FORMAT") {
		m.t.Errorf("the log does not name the setting:\n%s", log)
	}
	write("MIN_FREE=0\n")
	m.run("systemctl", "restart", service)
}

// wantNewGit checks that the service does not start with an old git, and that the log says why.
func (m *machine) wantNewGit() {
	m.t.Helper()
	m.run("mv", "/usr/bin/git", "/usr/bin/git.new")
	if err := os.WriteFile(m.path("/usr/bin/git"), []byte("#!/bin/sh\necho git version 2.30.2\n"), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if out, err := m.try("systemctl", "restart", service); err == nil {
		m.t.Errorf("restart with an old git: %s", out)
	}
	const want = "/usr/bin/git is git 2.30.2, and must be 2.39 or newer"
	if log := m.run("journalctl", "--no-pager", "-u", service); !strings.Contains(log, want) {
		m.t.Errorf("the log has no %q:\n%s", want, log)
	}
	m.run("mv", "/usr/bin/git.new", "/usr/bin/git")
	m.run("systemctl", "restart", service)
}

func (m *machine) wantActive(units ...string) {
	m.t.Helper()
	if out, err := m.try(append([]string{"systemctl", "is-active"}, units...)...); err != nil {
		m.t.Fatal(out, err)
	}
}

func (m *machine) mainPID() string {
	m.t.Helper()
	return m.run("systemctl", "show", "--property=MainPID", service)
}

// caller calls the service as Podman does.
func (m *machine) caller() *daemon.Caller {
	return daemon.Dial(m.path("/run/helmdeck-repos/repos.sock"))
}

// mount creates a volume of the repository "app" and mounts it.
func (m *machine) mount(remote *gitserver.Server, name, id string) (dir string) {
	m.t.Helper()
	c := m.caller()
	if err := c.Create(m.t.Context(), name, map[string]string{"repo": remote.URL("app")}); err != nil {
		m.t.Fatal(err)
	}
	dir, err := c.Mount(m.t.Context(), name, id)
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := api.Dial(m.path("/run/helmdeck-repos/admin.sock")).Subject(m.t.Context(), "default"); err != nil {
		m.t.Errorf("the admin socket: %v", err)
	}
	return dir
}
