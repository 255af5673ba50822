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
	// markerFile marks a data directory: nothing is deleted in a directory without it.
	markerFile = ".helmdeck-repos"
	markerText = "Everything in this directory belongs to the volume plugin helmdeck/repos, which deletes what it has no use for.\n"
	// featuresFile has the result of the last probe of overlayfs.
	featuresFile = ".overlay-features"
	// reserveFile is the disk.Reserve, which holds blocks for removals.
	reserveFile = "reserve"
)

// claim makes the data directory, and marks it as the plugin's if it is empty, or was made by a
// version without the marker. Any other directory is an error.
func claim(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
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
	var foreign []string
	known := false
	for _, e := range entries {
		switch name := e.Name(); {
		case slices.Contains([]string{"meta.db", "clones"}, name):
			known = true
		case name != "lost+found" && !durable.IsTemp(name): // an interrupted start's marker
			foreign = append(foreign, name)
		}
	}
	if len(foreign) > 0 && !known {
		return fmt.Errorf("data directory %q has files that are not the plugin's, such as %q: give it an empty directory, "+
			"or make the file %s there if all of it may be deleted", dir, foreign[0], marker)
	}
	err = durable.WriteFile(marker, []byte(markerText), 0o644)
	if known && errors.Is(err, unix.ENOSPC) {
		return nil // start on a full disk too; a later start marks it
	}
	return err
}

// probe returns what overlayfs can do in the data directory. If the disk is too full to
// try, it returns the result of the last start.
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
