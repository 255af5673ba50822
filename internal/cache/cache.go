// Package cache makes the dependency caches of clones: one directory for each uid, with a
// directory for each tool and a script that points the tools at them.
//
// Containers write there at any time, so nothing in a cache is trusted, executed or followed.
package cache

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/helmdeck/repos/internal/durable"
)

// tools are the directories of the cache, one for each tool.
var tools = []string{
	"go-mod", "go-build", "npm", "pnpm", "yarn", "pip", "uv", "cargo", "maven",
	"gradle", "bundler", "composer", "nuget", "ccache",
}

// env is a POSIX shell script that points the tools at their directories.
//
//go:embed cache.env
var env []byte

// Ensure makes the cache of a uid below dir, and makes again the entries that a
// container has removed. Containers write there, so os.Root is used: it never leaves the
// directory, whatever they have put in place of the entries. An entry that exists under
// one of the names stays as it is.
func Ensure(dir string, uid, gid int) (path string, err error) {
	path = filepath.Join(dir, strconv.Itoa(uid))
	err = os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrNotExist) { // dir was removed by hand, or by an earlier version
		if err = durable.MkdirAll(dir, 0o755); err == nil {
			err = os.Mkdir(path, 0o755)
		}
	}
	switch {
	case err == nil:
		if err := os.Lchown(path, uid, gid); err != nil {
			return "", err
		}
	case !errors.Is(err, fs.ErrExist):
		return "", err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return "", err
	}
	defer root.Close()
	for _, name := range tools {
		switch err := root.Mkdir(name, 0o755); {
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			return "", err
		}
		// A container that replaces the entry first becomes the owner of its own
		// entry, which it is already.
		if err := root.Lchown(name, uid, gid); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	f, err := root.OpenFile("env", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	_, err = f.Write(env)
	return path, errors.Join(err, f.Chown(uid, gid), f.Close())
}
