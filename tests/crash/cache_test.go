package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/helmdeck/repos/tests/wait"
)

// sweepCache makes the janitor sweep until it has evicted what was published in the cache of the cold clone. A workspace
// publishes before its directory goes.
func (w *world) sweepCache() error {
	return wait.Until(w, func() error {
		for _, pattern := range []string{"clones/cold/*/workspaces/*", "clones/cold/*/warm/*/files/.git/hdcache/npm/_cacache"} {
			if _, err := w.d.Admin.Sweep(context.Background()); err != nil {
				return final(err)
			}
			if paths, err := filepath.Glob(w.path(pattern)); err != nil || len(paths) > 0 {
				return fmt.Errorf("%q still exists: %w", paths, err)
			}
		}
		return nil
	})
}

// fillCache writes a file of so many bytes to the cache of a mounted volume.
func (w *world) fillCache(volume, id string, bytes int) error {
	return writeCached(w.leases[lease{volume, id}].dir, id, bytes)
}

// publishNow writes a file of that name to the cache of a mounted volume, which has no other workspace, and publishes it.
func (w *world) publishNow(volume, id, name string) error {
	if err := writeCached(w.leases[lease{volume, id}].dir, name, 1<<10); err != nil {
		return err
	}
	of, err := w.workspace(volume)
	if err != nil {
		return err
	}
	published, err := w.d.Admin.PublishCache(context.Background(), of)
	if err == nil && (published.Files < moduleFiles+1 || published.Left != nil) {
		err = fmt.Errorf("published %+v, want the files of %s", published, name)
	}
	return err
}

// mountAndFetch mounts a volume, writes a file of so many bytes to its cache, and unmounts it.
func (w *world) mountAndFetch(volume, id string, bytes int) error {
	if err := w.mountUnchanged(volume, id); err != nil {
		return err
	}
	return errors.Join(w.fillCache(volume, id, bytes), w.unmount(volume, id))
}

// module is the directory of an unzipped Go module, which is published as a whole or not at all, and has so many files.
func module(dir, version string) string {
	return filepath.Join(dir, ".git/hdcache/go-mod/example.com/m@v1.0.0-"+strings.ReplaceAll(version, "'", "r"))
}

const moduleFiles = 5

// inCache is a directory of a workspace with files that npm names by their content.
const inCache = ".git/hdcache/npm/_cacache/content-v2"

// writeCached writes a file to the cache of a workspace, with its name in each line.
func writeCached(dir, name string, bytes int) error {
	line := name + "\n"
	err := errors.Join(
		os.MkdirAll(filepath.Join(dir, inCache), 0o755), os.MkdirAll(module(dir, name), 0o755),
		os.WriteFile(filepath.Join(dir, inCache, name), []byte(strings.Repeat(line, 1+bytes/len(line))), 0o644),
	)
	for n := range moduleFiles {
		err = errors.Join(err, os.WriteFile(filepath.Join(module(dir, name), fmt.Sprint(n)), nil, 0o644))
	}
	return err
}

// checkCache checks that the files in the cache of a workspace are whole.
func checkCache(dir string) error {
	modules, err := filepath.Glob(module(dir, "*"))
	for _, m := range modules {
		if files, readErr := os.ReadDir(m); readErr != nil || len(files) != moduleFiles {
			err = errors.Join(err, readErr, fmt.Errorf("%s has %d files, want %d", m, len(files), moduleFiles))
		}
	}
	if err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(dir, inCache))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		data, readErr := os.ReadFile(filepath.Join(dir, inCache, f.Name()))
		line := f.Name() + "\n"
		if n := len(data) / len(line); n == 0 || string(data) != strings.Repeat(line, n) {
			readErr = errors.Join(readErr, fmt.Errorf("%s has %d bytes, which are not its own", f.Name(), len(data)))
		}
		err = errors.Join(err, readErr)
	}
	return err
}
