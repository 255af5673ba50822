package podman

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repos runs docker-repos against the service, on whose machine no engine is, and returns its standard output.
func (h *host) repos(args ...string) string {
	h.t.Helper()
	cmd := exec.Command("../../build/docker-repos", append([]string{"--socket", filepath.Join(filepath.Dir(h.Socket()), "admin.sock")}, args...)...)
	cmd.Env = []string{"DOCKER_HOST=unix:///nonexistent", "DOCKER_CONFIG=/nonexistent"}
	out, err := cmd.Output()
	if err != nil {
		if ended, ok := err.(*exec.ExitError); ok {
			out = append(out, ended.Stderr...)
		}
		h.t.Fatalf("docker-repos %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// The operator's command works on a Podman host: it sees the volumes of real containers, and makes, lists, looks at and
// removes checkpoints of them.
func TestCommand(t *testing.T) {
	h := start(t)
	h.create("v")
	h.ok(inContainer("v", "echo new >/w/mine; sleep 1000000", "--detach", "--name", "first")...)
	h.ok("exec", "first", "sh", "-c", "until [ -e /w/mine ]; do sleep 0.1; done")
	for _, c := range []struct{ command, want string }{
		{"ls --format {{.Subject}}", "v"},
		{"leases ls --format {{.Volume}}", "v"},
		{"ps --format {{.Volume}}", "v"},
		{"status --format {{.Volume}} v", "v"},
		{"export --output - v", "mine"},
		{"df --format {{.Subject}}", "v"},
		{"doctor --remotes=false --format {{.Name}}", "overlay"},
	} {
		if got := h.repos(strings.Fields(c.command)...); !strings.Contains(got, c.want) {
			t.Errorf("docker-repos %s: got %q, want %q in it", c.command, got, c.want)
		}
	}
	id := h.repos("checkpoint", "--no-pause", "v", "good")
	if got := h.repos("checkpoints", "ls", "--format", "{{.ID}} {{.Name}} {{.Made}}"); got != id+" good user" {
		t.Errorf("the checkpoints are %q, want %s", got, id)
	}
	h.ok("rm", "--force", "--time", "0", "first")
	h.awaitUnmount("v")
	h.ok("volume", "create", "--driver", "repos", "--opt", "repo="+h.remote.URL("app"), "--opt", "subject=v", "--opt", "from="+id, "again")
	if got := h.ok(inContainer("again", "cat /w/mine", "--rm")...); got != "new" {
		t.Errorf("a container that begins with the checkpoint has %q", got)
	}
	h.awaitUnmount("again")
	h.ok("volume", "rm", "again")
	h.repos("checkpoints", "rm", id)
}
