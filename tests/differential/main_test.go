// Package differential compares workspaces with plain clones of the same repositories at the same moment, after their
// first mount and after a push: HEAD, the index, every file, the refs, all objects, and what git fsck says.
//
// TestGenerated does so for 200 random repositories. A failure names the seed and the number of its repository:
//
//	go test ./tests/differential -run TestGenerated/17$ -args -seed 5
//
// The plugin runs with the git that ships, in the root filesystem that make plugin makes, and the plain clones are of this
// machine's git.
//
// TestRealRepositories does so for real ones, if the environment variable REPOS names a directory that contains bare
// repositories. It only reads them.
package differential

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/shipped"
)

var (
	plugin *shipped.Plugin
	server *gitserver.Server
)

// memory is what the plugin and its gits may take. It has room for the largest repositories of REPOS.
const memory = 8 << 30

func TestMain(m *testing.M) {
	daemon.Main("diff", nil, func(scratch, program string) (code int, err error) {
		if err := built.Check(built.Plugin); err != nil {
			return 1, err
		}
		if err := daemon.DoubleParallel(); err != nil {
			return 1, err
		}
		repositories := filepath.Join(scratch, "repos")
		if err := os.Mkdir(repositories, 0o755); err != nil {
			return 1, err
		}
		if server, err = gitserver.Start(repositories); err != nil {
			return 1, err
		}
		defer server.Close()
		if plugin, err = shipped.Start(context.Background(), shipped.Config{
			Program: program, Filesystem: "../../build/plugin/rootfs", Dir: filepath.Join(scratch, "plugin"), Memory: memory,
		}); err != nil {
			return 1, err
		}
		code = m.Run()
		return code, errors.Join(plugin.Stop(), plugin.Close())
	})
}
