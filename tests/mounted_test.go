package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/wait"
)

// A container has a file and another volume mounted into its checkout. The runtime makes a file and a directory there to mount
// them on, which are no changes: nothing is left of a container that writes nothing.
func TestMountedIntoCheckout(t *testing.T) {
	t.Parallel()
	e, r, s := shared(t), newRemote(t), subject(t)
	env := filepath.Join(t.TempDir(), "env")
	if err := os.WriteFile(env, []byte("secret\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	modules := s + "-modules"
	e.docker(t, "volume", "create", modules)
	t.Cleanup(func() { e.Try("volume", "rm", "--force", modules) })
	e.create(t, s, "repo="+r.url, "subject="+s, "uid=1000", "gid=1000")
	left := func() (checkpoints int) {
		t.Helper()
		wait.For(t, "the end of the workspace", func() error {
			checkpoints = 0
			list, err := e.admin(t).Workspaces(t.Context(), api.Filter{Subject: s})
			for _, w := range list {
				if w.Phase != "checkpoint" {
					return fmt.Errorf("there is still %+v", w)
				}
				checkpoints++
			}
			return err
		})
		return checkpoints
	}
	flags := []string{
		"--user", "1000", "--volume", modules + ":/w/node_modules", "--volume", env + ":/w/.env:ro", "--volume", env + ":/w/new/deep/.env",
	}
	if got := e.sh(t, mount(s), "cat .env new/deep/.env; ls -d node_modules", flags...); got != "secret\nsecret\nnode_modules" {
		t.Errorf("the container sees %q", got)
	}
	if n := left(); n != 0 {
		t.Errorf("a container that wrote nothing left %d checkpoints", n)
	}
	e.sh(t, mount(s), "echo written >file", flags...)
	if n := left(); n != 1 {
		t.Errorf("a container that wrote a file left %d checkpoints, want one", n)
	}
	e.docker(t, "volume", "rm", s)
	e.awaitReclaimed(t, s)
}
