package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/meta"
)

func (d *Driver) manifestDir() string { return filepath.Join(d.Root, "volumes") }

// manifestPath is by hash, for a volume's name may be longer than a file's.
func (d *Driver) manifestPath(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(d.manifestDir(), hex.EncodeToString(sum[:16])+".json")
}

// writeManifest writes a volume's record beside the database, so that it can be
// rebuilt.
func (d *Driver) writeManifest(rec meta.Volume) error {
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(d.manifestPath(rec.Name), append(data, '\n'), 0o600)
}

func (d *Driver) removeManifest(name string) error {
	err := os.Remove(d.manifestPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep makes the manifests of volumes agree with the records.
func (d *Driver) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(d.manifestDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !durable.IsTemp(e.Name()) { // of a Create that is at work
			errs = append(errs, d.sweepManifest(ctx, filepath.Join(d.manifestDir(), e.Name())))
		}
	}
	d.mu.Lock()
	names := slices.Collect(maps.Keys(d.volumes))
	d.mu.Unlock()
	for _, name := range names {
		errs = append(errs, d.restoreManifest(ctx, name))
	}
	return errors.Join(errs...)
}

// removeTemps removes what a crash has left of manifests, before there are others.
func (d *Driver) removeTemps() error {
	temps, err := filepath.Glob(filepath.Join(d.manifestDir(), durable.TempPrefix+"*"))
	for _, path := range temps {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// sweepManifest removes a manifest without a volume: a Create did not come to
// its end, or a Remove.
func (d *Driver) sweepManifest(ctx context.Context, path string) error {
	rec, err := readManifest(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed with its volume
	}
	if err != nil {
		return err // not ours to delete: it may be all that is left of a volume
	}
	unlock, err := d.names.Lock(ctx, rec.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := d.find(rec.Name); err == nil {
		return nil
	}
	return d.removeManifest(rec.Name)
}

// restoreManifest writes the manifest of a volume that has none.
func (d *Driver) restoreManifest(ctx context.Context, name string) error {
	unlock, err := d.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := d.find(name)
	if err != nil {
		return nil // removed meanwhile
	}
	if _, err := os.Lstat(d.manifestPath(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return d.writeManifest(h.rec)
}

func readManifest(path string) (rec meta.Volume, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%s: %w", path, err)
	}
	if rec.Name == "" {
		return rec, fmt.Errorf("%s: no name", path)
	}
	return rec, nil
}

// Rebuild returns the records of the volumes, by name, that the manifests below root
// hold, for a database that was lost. The error is about those that can't be read; the
// others are returned all the same.
func Rebuild(root string) (map[string]meta.Volume, error) {
	paths, err := filepath.Glob(filepath.Join(root, "volumes", "*.json"))
	if err != nil {
		return nil, err
	}
	recs := make(map[string]meta.Volume)
	var errs []error
	for _, path := range paths {
		rec, err := readManifest(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		recs[rec.Name] = rec
	}
	return recs, errors.Join(errs...)
}
