package csi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/built"
)

// TestCommand checks that the operator's command finds the driver in whose container it runs: there is no engine, and the
// driver's environment is the command's.
func TestCommand(t *testing.T) {
	t.Parallel()
	if err := built.Check(built.Command); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.publish(aPod)
	// In the cluster the driver serves no engine, and has its admin socket there.
	w.ok(os.Symlink(filepath.Join(filepath.Dir(w.config.Socket()), "admin.sock"), filepath.Join(w.kubelet, "admin.sock")))
	cmd := exec.CommandContext(t.Context(), "../../build/docker-repos", "leases", "ls")
	cmd.Env = []string{"HOME=" + t.TempDir(), "DOCKER_HOST=unix://" + filepath.Join(t.TempDir(), "none.sock"), "CSI_ENDPOINT=unix://" + w.endpoint()}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), aPod.namespace+"/"+aPod.name) {
		t.Errorf("got %s, %v; want the lease of the pod", out, err)
	}
	w.unpublish(aPod)
}
