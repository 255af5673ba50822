package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The example that users copy works unchanged, with a repository and an image. The test changes
// only the network, because its engine has no network.
func TestComposeExample(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := shared(t), newRemote(t)
	const example = "../examples/compose.yaml"
	project := strings.ReplaceAll(subject(t), "-", "")
	ref := "main"
	try := func(args ...string) (string, error) {
		cmd := exec.Command("docker-compose", append([]string{"--project-name", project, "--file", example}, args...)...)
		cmd.Env = append(e.Command().Env, "REPO="+r.url, "REF="+ref, "IMAGE="+image, "SUBJECT="+subject(t))
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("docker-compose %q: %w\n%s%s", args, err, stdout.String(), stderr.String())
		}
		return stdout.String(), nil
	}
	compose := func(args ...string) string {
		t.Helper()
		out, err := try(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if text, err := os.ReadFile(example); err != nil || strings.Contains(string(text), "\nversion:") {
		t.Errorf("%v; the example has a version, about which compose 2 prints a warning at every command", err)
	}
	services := strings.Fields(compose("config", "--services"))
	if len(services) != 2 {
		t.Fatalf("the example has the services %q, want two", services)
	}
	override := filepath.Join(t.TempDir(), "network.yaml")
	text := "services:\n"
	for _, service := range services {
		text += fmt.Sprintf("  %s:\n    network_mode: host\n", service)
	}
	if err := os.WriteFile(override, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { compose("--file", override, "down", "--volumes", "--timeout", "0") })
	compose("--file", override, "up", "--detach")
	compose("--file", override, "up", "--detach") // nothing has changed

	// Every service has mounted a volume of the plugin.
	container := func(service string) string {
		t.Helper()
		return strings.TrimSpace(compose("--file", override, "ps", "--quiet", service))
	}
	for _, service := range services {
		id := container(service)
		mounts := strings.Fields(e.docker(t, "inspect", "--format",
			`{{range .Mounts}}{{if eq .Driver "`+pluginName+`:latest"}}{{.Destination}} {{end}}{{end}}`, id))
		if len(mounts) == 0 {
			t.Errorf("service %s has no volume of the plugin", service)
		}
	}
	if got := r.Stats(app).Clones; got != 1 {
		t.Errorf("the server saw %d clones, want 1", got)
	}
	// The services have private checkouts, each with its own view of the cache.
	e.docker(t, "exec", container(services[0]), "touch", "mine", ".git/hdcache/npm/mine")
	if got := e.docker(t, "exec", container(services[1]), "sh", "-c", "ls mine 2>/dev/null; ls .git/hdcache/npm"); got != "" {
		t.Errorf("the second service sees %q of the first", got)
	}

	// Changed options in the file do not change an existing volume: some versions of compose
	// refuse, some ask, some do nothing. They take effect after "down" and "up".
	head := func() string {
		t.Helper()
		return e.docker(t, "exec", container(services[0]), "cat", ".git/HEAD")
	}
	before := head()
	ref = "feature/x"
	_, err := try("--file", override, "up", "--detach", "--timeout", "0")
	if got := head(); got != before {
		t.Errorf("changed options, %v: HEAD is %q, want %q as before", err, got, before)
	}
	if err != nil && !strings.Contains(err.Error(), "remove the existing volume") {
		t.Errorf("changed options: %v", err)
	}
	compose("--file", override, "down", "--volumes", "--timeout", "0")
	compose("--file", override, "up", "--detach")
	if got, want := head(), "ref: refs/heads/feature/x"; got != want {
		t.Errorf("down and up with changed options: HEAD is %q, want %q", got, want)
	}
	compose("--file", override, "down", "--volumes", "--timeout", "0")
	if got := strings.Join(e.volumes(t), " "); strings.Contains(got, project) {
		t.Errorf("volumes: got %q, want none of the project", got)
	}
}
