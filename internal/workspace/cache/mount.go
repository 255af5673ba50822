package cache

import (
	_ "embed"
	"errors"
	"os"
	"path/filepath"
)

// Mount is where a workspace has its cache, and Link the name of the link to it at the top of the work tree, which only
// volumes with cache_link=true have.
const (
	Mount = ".git/hdcache"
	Link  = ".hdcache"
)

// Env is the file env of a cache: a POSIX shell script that points the tools at their directories.
//
//go:embed cache.env
var Env []byte

// Tag is the file CACHEDIR.TAG of a cache, by which programs that make archives and backups know it.
const Tag = `Signature: 8a477f597d28d172789f06886806bc55
# This directory has downloads that a container can get again. helmdeck/repos made this file.
# For information about cache directory tags see https://bford.info/cachedir/
`

// topFiles are the files at the top of each cache, by name. None that a container writes there is published.
var topFiles = map[string][]byte{"env": Env, "CACHEDIR.TAG": []byte(Tag)}

// Base makes dir, the cache of a base layer: an empty directory for each tool, and topFiles.
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
	for name, text := range topFiles {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, text, 0o644), os.Chmod(path, 0o644), os.Lchown(path, uid, gid)); err != nil {
			return err
		}
	}
	return nil
}
