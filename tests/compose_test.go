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

// The example that users copy works as it is, given a repository and an image. Only the network is the test's: its
// engine has none of its own.
func TestComposeExample(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	const example = "../examples/compose.yaml"
	project := strings.ReplaceAll(subject(t), "-", "")
	env := []string{"REPO=" + r.url, "REF=main", "IMAGE=" + image, "SUBJECT=" + subject(t)}
	compose := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("docker-compose", append([]string{"--project-name", project, "--file", example}, args...)...)
		cmd.Env = append(e.Command().Env, env...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("docker-compose %q: %v\n%s%s", args, err, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	if text, err := os.ReadFile(example); err != nil || strings.Contains(string(text), "\nversion:") {
		t.Errorf("%v; the example has a version, which compose 2 warns about at every command", err)
	}
	services := strings.Fields(compose("config", "--services"))
	if len(services) == 0 {
		t.Fatal("the example has no services")
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

	// Every service has mounted the repository at some place, and finds a clean checkout there.
	for _, service := range services {
		id := strings.TrimSpace(compose("--file", override, "ps", "--quiet", service))
		mounts := strings.Fields(e.docker(t, "inspect", "--format",
			`{{range .Mounts}}{{if eq .Driver "`+pluginName+`:latest"}}{{.Destination}} {{end}}{{end}}`, id))
		if len(mounts) == 0 {
			t.Errorf("service %s has no volume of the plugin", service)
		}
	}
	if got := r.Stats(app).Clones; got != 1 {
		t.Errorf("the server saw %d clones, want 1", got)
	}
	compose("--file", override, "down", "--volumes", "--timeout", "0")
	if got := strings.Join(e.volumes(t), " "); strings.Contains(got, project) {
		t.Errorf("volumes: got %q, want none of the project", got)
	}
}
