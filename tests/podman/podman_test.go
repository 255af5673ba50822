package podman

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// files is the directory with the files that the Debian package installs.
const files = "../../packaging/deb/helmdeck-repos"

var hosts int

// host is a Podman with the service, and a remote with the repository "app".
type host struct {
	*daemon.Daemon
	t      *testing.T
	dir    string
	remote *gitserver.Server
}

// start starts a host with the unit file's settings and more (NAME=value).
func start(t *testing.T, more ...string) *host {
	t.Helper()
	hosts++
	dir := filepath.Join(scratch, strconv.Itoa(hosts)) // short because Podman's runroot may have 50 bytes at most
	remote := testgit.Remote(t, "app", gitserver.Spec{Seed: 1, Files: 40, Commits: 3, Changes: 5})
	if err := os.MkdirAll(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testdir.Unmount(t, dir) })
	service, err := daemon.Start(t, daemon.Config{Program: program, Dir: dir, Env: append(unitSettings(t), more...)})
	if err != nil {
		t.Fatal(err)
	}
	h := &host{service, t, dir, remote}
	t.Cleanup(func() {
		h.podman("rm", "--all", "--force", "--time", "0")
		h.podman("volume", "rm", "--all", "--force")
		if err := service.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the service's log:\n%s", h.Log())
		}
	})
	h.configure()
	return h
}

// unitSettings returns the settings in the unit file.
func unitSettings(t *testing.T) (env []string) {
	t.Helper()
	for line := range strings.Lines(read(t, filepath.Join(files, "helmdeck-repos.service"))) {
		if setting, ok := strings.CutPrefix(strings.TrimSpace(line), "Environment="); ok {
			env = append(env, setting)
		}
	}
	if len(env) == 0 {
		t.Fatal("the unit file has no settings")
	}
	return env
}

// configure writes Podman's configuration, with the lines that the package installs, and imports the image
// "test".
func (h *host) configure() {
	h.t.Helper()
	conmon := programPath(h.t, "conmon")
	text := fmt.Sprintf("[containers]\ndefault_ulimits = []\n[engine]\nevents_logger = \"file\"\nconmon_path = [%q]\n", conmon)
	text += "[network]\nnetwork_backend = \"cni\"\ncni_plugin_dirs = [\"" + h.dir + "\"]\nnetwork_config_dir = \"" + h.dir + "/cni\"\n"
	text += strings.ReplaceAll(read(h.t, filepath.Join(files, "podman.conf")), "/run/helmdeck-repos/repos.sock", h.Socket())
	for path, text := range map[string]string{
		"containers.conf": text,
		// Podman may trust every image, because the only image is ours.
		"home/.config/containers/policy.json": `{"default": [{"type": "insecureAcceptAnything"}]}`,
	} {
		path = filepath.Join(h.dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			h.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
	script := `
		set -eu
		mkdir -p "$1/bin"
		cp "$(command -v busybox)" "$1/bin/busybox"
		for applet in sh ls cat touch sleep; do ln -s busybox "$1/bin/$applet"; done
		tar -C "$1" -cf "$1.tar" .`
	if out, err := exec.Command("sh", "-c", script, "sh", filepath.Join(h.dir, "image")).CombinedOutput(); err != nil {
		h.t.Fatalf("make the image: %v: %s", err, out)
	}
	h.ok("import", filepath.Join(h.dir, "image.tar"), "test")
}

// programPath returns the path of a program of the machine, or else of build/tools.
func programPath(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	path, err := filepath.Abs(filepath.Join("../../build/tools/usr/bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%s is missing: run make needs: %v", name, err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// podman runs a Podman command as a user types it, and returns its output. The error contains the
// command's output.
func (h *host) podman(args ...string) (string, error) {
	h.t.Helper()
	in := func(name string) string { return filepath.Join(h.dir, name) }
	runc, err := exec.LookPath("runc")
	if err != nil {
		h.t.Fatal(err)
	}
	cmd := exec.Command(programPath(h.t, "podman"), append([]string{
		"--root", in("storage"), "--runroot", in("r"), "--tmpdir", in("tmp"), "--runtime", runc,
		"--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
	}, args...)...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME=" + in("home"), "CONTAINERS_CONF=" + in("containers.conf"),
		"PODMAN_IGNORE_CGROUPSV1_WARNING=1",
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	out := strings.TrimRight(stdout.String(), "\n")
	if err != nil {
		return out, fmt.Errorf("podman %s: %w\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return out, nil
}

func (h *host) ok(args ...string) string {
	h.t.Helper()
	out, err := h.podman(args...)
	if err != nil {
		h.t.Fatal(err)
	}
	return out
}

// wantError runs a command that must fail, and checks that the error contains the words.
func (h *host) wantError(args []string, words ...string) {
	h.t.Helper()
	_, err := h.podman(args...)
	if err == nil {
		h.t.Fatalf("podman %q succeeded", args)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			h.t.Errorf("%v, want %q in it", err, word)
		}
	}
}

// create creates a volume of the repository.
func (h *host) create(name string, options ...string) {
	h.t.Helper()
	args := []string{"volume", "create", "--driver", "repos", "--opt", "repo=" + h.remote.URL("app"), "--opt", "subject=" + name}
	for _, o := range options {
		args = append(args, "--opt", o)
	}
	h.ok(append(args, name)...)
}

// inContainer returns the arguments that run a script in a container with a volume at /w.
func inContainer(volume, script string, flags ...string) []string {
	args := append([]string{"run", "--network", "none", "--volume", volume + ":/w"}, flags...)
	return append(args, "test", "sh", "-euc", script)
}

// volume is a part of Podman's description of a volume.
type volume struct {
	MountCount, Timeout int
	Status              map[string]any
}

func (h *host) inspect(name string) volume {
	h.t.Helper()
	out := h.ok("volume", "inspect", name)
	var list []volume
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 1 {
		h.t.Fatalf("%v: %s", err, out)
	}
	return list[0]
}

// awaitUnmount waits until Podman has unmounted a volume, which it does after a container has
// ended.
func (h *host) awaitUnmount(name string) {
	h.t.Helper()
	if err := wait.Until(h.t, func() error {
		if v := h.inspect(name); v.MountCount > 0 || len(v.Status["leases"].([]any)) > 0 {
			return fmt.Errorf("mounted %d times, leases %v", v.MountCount, v.Status["leases"])
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
}
