package cache

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
)

// Mount is where a workspace has its cache, and Link the name of the link to it in the work tree.
const (
	Mount = ".git/hdcache"
	Link  = ".hdcache"
)

// Env is the file env of a cache: a POSIX shell script that points the tools at their directories.
//
//go:embed cache.env
var Env []byte

// Base makes dir, the cache of a base layer: an empty directory for each tool, and env.
func Base(dir string, uid, gid int) error {
	for _, name := range append([]string{"."}, tools...) {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return err
		}
		if err := errors.Join(os.Chmod(path, 0o755), os.Lchown(path, uid, gid)); err != nil {
			return err
		}
	}
	env := filepath.Join(dir, "env")
	return errors.Join(os.WriteFile(env, Env, 0o644), os.Chmod(env, 0o644), os.Lchown(env, uid, gid))
}
