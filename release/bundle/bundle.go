// Package bundle makes the directory of a release, and publishes the plugins and images in it.
//
// The directory appears under its name when it is complete, never before: a release that fails or is interrupted leaves
// the earlier one as it was. SHA256SUMS names every file except itself and its signature.
package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/semver"
)

// Options say what to release.
type Options struct {
	Root    string // the project's directory
	Version string // semantic, without "v" and without build metadata
	Key     string // the private ssh key that signs; empty: no signature
	// Repository is where the plugin will be published, HOST/NAME. The files for Kubernetes name the image that is
	// published beside it. Empty: they name the one that the archives of the release have.
	Repository string
	Dirty      bool // release a tree with changes that are not committed
	Strict     bool // passed to make rootfs
	Systems    []System
	Debs       bool
	Log        io.Writer
}

// Architectures are those of the plugin. The first is the one that the tags without an architecture have.
var Architectures = []string{"amd64", "arm64"}

// Path returns the directory of a release.
func (o *Options) Path() string { return filepath.Join(o.Root, "build/release", o.Version) }

// CheckVersion returns an error unless version may be released. Build metadata is refused, because a tag in a registry
// cannot have a plus sign.
func CheckVersion(version string) error {
	if semver.Canonical("v"+version) != "v"+version {
		return fmt.Errorf("VERSION=%q: want MAJOR.MINOR.PATCH or MAJOR.MINOR.PATCH-PRERELEASE as in semver.org, such as 1.2.3 or 1.2.3-rc.1", version)
	}
	return nil
}

// release is a release while it is made.
type release struct {
	Options
	dir      string // where it is made
	time     time.Time
	comment  string            // for the bills of materials
	commands map[string][]byte // the operator's command for Linux, by architecture
}

// Make makes a release.
func Make(ctx context.Context, o Options) error {
	if err := CheckVersion(o.Version); err != nil {
		return err
	}
	if err := checkKey(o.Key); err != nil {
		return err
	}
	if _, err := containerName(o.Repository); err != nil {
		return fmt.Errorf("REGISTRY: %w", err)
	}
	r := &release{Options: o, commands: make(map[string][]byte)}
	if err := r.identify(ctx); err != nil {
		return err
	}
	parent := filepath.Dir(o.Path())
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	var err error
	if r.dir, err = os.MkdirTemp(parent, ".new-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.dir)
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return err
	}
	if err := r.fill(ctx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := replace(o.Path(), r.dir); err != nil {
		return err
	}
	r.logf("%s is complete, %s", o.Path(), map[bool]string{true: "unsigned: KEY=path signs it", false: "signed"}[o.Key == ""])
	return nil
}

// replace gives the directory from the name path. It removes what had that name last, so that a crash loses neither.
func replace(path, from string) error {
	aside, err := os.MkdirTemp(filepath.Dir(path), ".old-")
	if err != nil {
		return err
	}
	before := filepath.Join(aside, filepath.Base(path))
	if err := os.Rename(path, before); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(aside))
	}
	if err := os.Rename(from, path); err != nil {
		return errors.Join(err, os.Rename(before, path), os.Remove(aside))
	}
	return os.RemoveAll(aside)
}

func (r *release) fill(ctx context.Context) error {
	for _, arch := range Architectures {
		if err := r.plugin(ctx, arch); err != nil {
			return fmt.Errorf("the plugin for %s: %w", arch, err)
		}
	}
	if err := r.command(ctx); err != nil {
		return fmt.Errorf("the command: %w", err)
	}
	if err := r.kubernetes(ctx); err != nil {
		return fmt.Errorf("the driver for Kubernetes: %w", err)
	}
	if r.Debs {
		if err := r.debs(ctx); err != nil {
			return fmt.Errorf("the Debian packages: %w", err)
		}
	}
	if err := copyFile(filepath.Join(r.dir, "LICENSE"), filepath.Join(r.Root, "LICENSE")); err != nil {
		return err
	}
	if err := writeSums(r.dir); err != nil {
		return err
	}
	if r.Key == "" {
		return nil
	}
	return sign(ctx, r.dir, r.Key)
}

func (r *release) logf(format string, args ...any) {
	fmt.Fprintf(r.Log, "release: "+format+"\n", args...)
}
