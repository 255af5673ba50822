package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/lfs"
)

// TestLFSHooks: git-lfs's hooks are in the repository of a checkout, also in that of a submodule, and can be run.
func TestLFSHooks(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, dir := range []string{".git", "modules/m"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	owner := checkout.Spec{Dir: top, UID: uint32(os.Getuid()), GID: uint32(os.Getgid())}
	module := owner
	module.GitDir = filepath.Join(top, "modules/m")
	for gitDir, co := range map[string]checkout.Spec{".git": owner, "modules/m": module} {
		if err := writeLFSHooks(co); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"pre-push", "post-checkout", "post-commit", "post-merge"} {
			path := filepath.Join(top, gitDir, "hooks", name)
			data, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(data, lfs.Hook()) {
				t.Errorf("%s: %v", path, err)
				continue
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}
