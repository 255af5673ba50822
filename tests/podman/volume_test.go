package podman

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// A container finds a checkout. Concurrent containers share it. After the last one has ended it is
// clean again.
func TestSharedByDefault(t *testing.T) {
	h := start(t)
	h.create("v")
	if got := h.ok(inContainer("v", "cat /w/.git/helmdeck.json; ls /w /w/.git/hdcache/npm", "--rm")...); !strings.Contains(got, h.remote.URL("app")) || !strings.Contains(got, "README.md") {
		t.Errorf("the container sees %s, want the repository's URL and its files", got)
	}
	h.awaitUnmount("v")

	h.ok(inContainer("v", "touch /w/mine; sleep 1000000", "--detach", "--name", "first")...)
	status := h.inspect("v").Status
	if got, _ := status["runtime"].(string); !strings.Contains(got, "Podman") || status["mode"] != "shared" {
		t.Errorf("status: mode %v, runtime %q", status["mode"], got)
	}
	h.ok(inContainer("v", "until [ -e /w/mine ]; do sleep 0.1; done", "--rm")...)
	h.ok("cp", h.dir+"/containers.conf", "first:/w/copied")
	h.ok("exec", "first", "ls", "/w/mine", "/w/copied")
	h.ok("rm", "--force", "--time", "0", "first")
	h.awaitUnmount("v")
	if got := strings.Fields(h.ok(inContainer("v", "ls /w", "--rm")...)); slices.Contains(got, "mine") || !slices.Contains(got, "README.md") {
		t.Errorf("after the last container: %q", got)
	}
	h.awaitUnmount("v")
	h.ok("volume", "rm", "v")
}

// Podman cannot keep a private volume private, so the plugin refuses it.
func TestPrivateIsRefused(t *testing.T) {
	h := start(t)
	h.create("v", "mode=private")
	h.wantError(inContainer("v", "true", "--rm"), "mode=private", "mode=shared", "ALLOW_SHARED_PRIVATE")
	if got := h.inspect("v"); got.MountCount != 0 || len(got.Status["leases"].([]any)) > 0 {
		t.Errorf("after the refusal: %+v", got)
	}
	h.ok("volume", "rm", "v")
}

// With the setting the plugin accepts a private volume, and its status and the log say that the
// containers share it.
func TestPrivateIsAllowed(t *testing.T) {
	h := start(t, "ALLOW_SHARED_PRIVATE=true")
	h.create("v", "mode=private")
	h.ok(inContainer("v", "sleep 1000000", "--detach", "--name", "first")...)
	if got, _ := h.inspect("v").Status["runtime"].(string); !strings.Contains(got, "share one workspace") {
		t.Errorf("runtime: %q", got)
	}
	if got := h.Log(); !strings.Contains(got, "share one workspace") {
		t.Error("the log does not say that the containers share one workspace")
	}
	h.ok("rm", "--force", "--time", "0", "first")
	h.awaitUnmount("v")
}

// Podman waits 5 s. The mount of a clone that takes longer fails before that, with an error that
// says so, and the clone continues.
func TestSlowClone(t *testing.T) {
	h := start(t)
	wait := make(chan struct{})
	release := sync.OnceFunc(func() { h.remote.Wrap(nil); close(wait) })
	t.Cleanup(release)
	h.remote.Wrap(gitserver.On(gitserver.Fetch, gitserver.Stall(wait)))
	h.create("v")
	h.wantError(inContainer("v", "true", "--rm"), "not done after 4s, continues in the background: run it again")
	release()
	h.ok(inContainer("v", "ls /w/README.md", "--rm")...)
	h.awaitUnmount("v")
}

// The option timeout is Podman's own, and does not reach the plugin.
func TestTimeoutOption(t *testing.T) {
	h := start(t)
	h.create("v", "o=timeout=60")
	if got := h.inspect("v").Timeout; got != 60 {
		t.Errorf("Podman's timeout is %d, want 60", got)
	}
}
