package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/overlay"
)

const (
	// markerFile marks a data directory: nothing is deleted in a directory without it.
	markerFile = ".helmdeck-repos"
	markerText = "Everything in this directory belongs to the volume plugin helmdeck/repos, which deletes what it has no use for.\n"
	// featuresFile has the result of the last probe of overlayfs.
	featuresFile = ".overlay-features"
	// reserveFile is the disk.Reserve, which holds blocks for removals.
	reserveFile = "reserve"
	// databaseFile is the meta.DB, which has a reserve of its own.
	databaseFile = "meta.db"
)

// replaceWait is how long lock waits for another process: a plugin that is being replaced ends much
// sooner.
const replaceWait = 5 * time.Second

// lock makes the data directory, and keeps other instances out of it until unlock, or until this
// process ends. All other locks are this process's own. The lock is on the directory itself, so it
// needs no room on a full disk. BoltDB's lock would not be enough: a database that is set aside or
// rebuilt is another file, and an instance probes the directory before it opens that.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, replaceWait)
	defer cancel()
	l := flock.New(dir, flock.SetFlag(os.O_RDONLY))
	switch _, err := l.TryLockContext(ctx, 50*time.Millisecond); {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("data directory %q: another instance is using it: end that one first", dir)
	case err != nil:
		return nil, err
	}
	return func() { _ = l.Close() }, nil
}

// claim marks the data directory as the plugin's if it is empty. Any other directory without the
// marker is an error.
func claim(dir string) error {
	marker := filepath.Join(dir, markerFile)
	switch info, err := os.Lstat(marker); {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return fmt.Errorf("data directory %q: %s is not a file: remove it", dir, markerFile)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name != "lost+found" && !durable.IsTemp(name) { // an interrupted start's marker
			return fmt.Errorf("data directory %q has files that are not the plugin's, such as %q: give it an empty directory, "+
				"or make the file %s there if all of it may be deleted", dir, name, marker)
		}
	}
	return durable.WriteFile(marker, []byte(markerText), 0o644)
}

// probe returns what overlayfs can do in the data directory. If the disk is too full to
// try, it returns the result of the last start.
func probe(dir string, reserve *disk.Reserve) (f overlay.Features, err error) {
	path := filepath.Join(dir, featuresFile)
	known, _ := os.ReadFile(path)
	err = reserve.Retry(func() (err error) { f, err = overlay.Probe(dir); return err })
	if disk.NoRoom(err) && json.Unmarshal(known, &f) == nil {
		return f, nil
	}
	if err != nil {
		return overlay.Features{}, err
	}
	found, err := json.Marshal(f)
	if err != nil || bytes.Equal(found, known) {
		return f, err
	}
	err = durable.WriteFile(path, found, 0o644)
	if disk.NoRoom(err) {
		err = nil
	}
	return f, err
}
