package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/overlay"
)

const (
	// markerFile says that a directory is a data directory: nothing is deleted in
	// one without.
	markerFile = ".helmdeck-repos"
	markerText = "Everything in this directory belongs to the volume plugin helmdeck/repos, which deletes what it has no use for.\n"
	// featuresFile has what the last probe of overlayfs found.
	featuresFile = ".overlay-features"
	// reserveFile holds blocks for what has to be written to free others.
	reserveFile = "reserve"
)

// claim makes the data directory, and marks it as ours if it is empty, or has what
// versions without the mark have left. Any other directory is an error.
func claim(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	marker := filepath.Join(dir, markerFile)
	switch info, err := os.Lstat(marker); {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return fmt.Errorf("data directory %q: %s is no file: remove it", dir, markerFile)
	case !errors.Is(err, os.ErrNotExist):
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var foreign []string
	known := false
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains([]string{"meta.db", "clones"}, name):
			known = true
		case name != "lost+found" && !durable.IsTemp(name): // the mark of a start that died
			foreign = append(foreign, name)
		}
	}
	if len(foreign) > 0 && !known {
		return fmt.Errorf("data directory %q has things that are not the plugin's, like %q: give it an empty directory, "+
			"or make the file %s there if all of it may be deleted", dir, foreign[0], marker)
	}
	err = durable.WriteFile(marker, []byte(markerText), 0o644)
	if known && errors.Is(err, unix.ENOSPC) {
		return nil // a full disk has to start; the next start marks it
	}
	return err
}

// probe says what overlayfs can do in the data directory. On a full disk that has
// no room to try it, that is what the last start has found.
func probe(dir string, reserve *disk.Reserve) (f overlay.Features, err error) {
	path := filepath.Join(dir, featuresFile)
	known, _ := os.ReadFile(path)
	err = reserve.Retry(func() (err error) { f, err = overlay.Probe(dir); return err })
	if errors.Is(err, unix.ENOSPC) && json.Unmarshal(known, &f) == nil {
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
	if errors.Is(err, unix.ENOSPC) {
		err = nil
	}
	return f, err
}
