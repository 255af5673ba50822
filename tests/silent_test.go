package tests

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// stall makes the server accept requests and answer none until release is called.
func stall(t *testing.T, r remote) (release func()) {
	t.Helper()
	wait := make(chan struct{})
	release = sync.OnceFunc(func() {
		r.Wrap(nil)
		close(wait)
	})
	t.Cleanup(release)
	r.Wrap(gitserver.Stall(wait))
	return release
}

// The server never answers. The volume exists, Mount fails within MOUNT_WAIT and says what it waits
// for, and works when the server is back. Mounts of other repositories do not wait.
func TestSilentServer(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, []string{"MOUNT_WAIT=5s"}), newRemote(t)
	want := plain(t, r.url, "main")
	release := stall(t, r)

	e.create(t, "silent", "repo="+r.url, "ref=main", "subject=silent")
	if got := e.volumes(t); !slices.Equal(got, []string{"silent"}) {
		t.Fatalf("volumes: got %q, want only silent", got)
	}
	said := e.wantError(t, shArgs(mount("silent"), "true")...)
	for _, want := range []string{r.url, "background", "again"} {
		if !strings.Contains(said, want) {
			t.Errorf("the message does not contain %q: %s", want, said)
		}
	}
	if got := e.volumes(t); !slices.Equal(got, []string{"silent"}) {
		t.Errorf("volumes after the mount: got %q, want only silent", got)
	}

	other := newRemote(t)
	var out string
	wait.For(t, "another repository meanwhile", func() (err error) { // its first clone may take longer than MOUNT_WAIT
		out, err = e.Try(shArgs(mount("", "repo="+other.url), portrait)...)
		return err
	})
	same(t, "another repository meanwhile", out, plain(t, other.url, ""))

	release()
	wait.For(t, "the mount after the server is back", func() (err error) {
		out, err = e.Try(shArgs(mount("silent"), portrait)...)
		return err
	})
	same(t, "the mount after the server is back", out, want)
}

// If a server falls silent after the first fetch, a Mount waits for it no longer than MOUNT_WAIT.
func TestServerFallsSilent(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, []string{"MOUNT_WAIT=5s"}), newRemote(t)
	e.create(t, "warm", "repo="+r.url, "ref=main", "subject=silent")
	wait.For(t, "the first clone", func() error { // it may take longer than MOUNT_WAIT
		_, err := e.Try(shArgs(mount("warm"), "true")...)
		return err
	})
	running := e.sleeper(t, mount("warm"))
	release := stall(t, r)

	if said := e.wantError(t, shArgs(mount("warm"), "true")...); !strings.Contains(said, r.url) {
		t.Errorf("the message does not name the repository: %s", said)
	}
	if got := running.sh(t, "git status --porcelain"); got != "" {
		t.Errorf("the running container: git status prints %q", got)
	}
	running.remove(t)
	release()
	if got := e.sh(t, mount("warm"), "git rev-parse HEAD"); got != r.head {
		t.Errorf("after the release: got %s, want %s", got, r.head)
	}
	e.awaitReclaimed(t, "silent")
	e.awaitNoChildren(t)
}
