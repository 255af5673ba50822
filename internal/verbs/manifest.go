package verbs

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

	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/meta"
)

func (v *Volumes) manifestDir() string { return filepath.Join(v.config.Root, "volumes") }

// manifestPath contains a hash of the name, because the name of a volume may be too long for a
// file.
func (v *Volumes) manifestPath(name string) string {
	sum := sha256.Sum256([]byte(name))
	return filepath.Join(v.manifestDir(), hex.EncodeToString(sum[:16])+".json")
}

// writeManifest writes a volume's record to a file, from which a lost database is rebuilt.
func (v *Volumes) writeManifest(rec meta.Volume) error {
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(v.manifestPath(rec.Name), append(data, '\n'), 0o600)
}

func (v *Volumes) removeManifest(name string) error {
	err := os.Remove(v.manifestPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// Sweep makes the manifests of volumes agree with the records.
func (v *Volumes) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(v.manifestDir())
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if !durable.IsTemp(e.Name()) { // files of running Creates
			errs = append(errs, v.sweepManifest(ctx, filepath.Join(v.manifestDir(), e.Name())))
		}
	}
	v.mu.Lock()
	names := slices.Collect(maps.Keys(v.volumes))
	v.mu.Unlock()
	for _, name := range names {
		errs = append(errs, v.restoreManifest(ctx, name))
	}
	return errors.Join(errs...)
}

// removeTemps removes the temporary files that a crash has left. No Create may be running.
func (v *Volumes) removeTemps() error {
	temps, err := filepath.Glob(filepath.Join(v.manifestDir(), durable.TempPrefix+"*"))
	for _, path := range temps {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// sweepManifest removes a manifest that has no volume, because a Create or Remove was
// interrupted.
func (v *Volumes) sweepManifest(ctx context.Context, path string) error {
	rec, err := readManifest(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed with its volume
	}
	if err != nil {
		return err // the manifest stays, because it may be all that is left of a volume
	}
	unlock, err := v.names.Lock(ctx, rec.Name)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := v.find(rec.Name); err == nil {
		return nil
	}
	return v.removeManifest(rec.Name)
}

// restoreManifest writes the manifest of a volume if it is missing.
func (v *Volumes) restoreManifest(ctx context.Context, name string) error {
	unlock, err := v.names.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer unlock()
	h, err := v.find(name)
	if err != nil {
		return nil // removed meanwhile
	}
	if _, err := os.Lstat(v.manifestPath(name)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return v.writeManifest(h.record())
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

// Rebuild returns the records in the manifests below root, by the volume's name, to replace
// a lost database. The error is about manifests that can't be read; the records of the
// others are returned with it.
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
