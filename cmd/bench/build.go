package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
	"github.com/helmdeck/repos/tests/dockerd"
)

// build is one build of the plugin, compiled from one commit.
type build struct {
	name     string
	program  string   // the plugin's program
	plugin   string   // the plugin's directory, as make plugin makes it
	settings []string // names of the settings that config.json declares
}

// checkSettings returns an error unless the build has all of these settings (NAME=value).
func (b build) checkSettings(settings []string) error {
	for _, s := range settings {
		name, _, _ := strings.Cut(s, "=")
		if !slices.Contains(b.settings, name) {
			return fmt.Errorf("%s has no setting %s", b.name, name)
		}
	}
	return nil
}

// builds returns the two builds of a comparison: this one, and that of the other commit. It
// compiles below dir, outside of the repository, so that an interrupted run leaves no second module
// in the repository.
func builds(ctx context.Context, c config, commit, dir string) ([]build, error) {
	out, err := git(ctx, ".", "-c", "safe.directory=*", "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, err
	}
	top, source := strings.TrimSpace(out), filepath.Join(dir, "source")
	if err := export(ctx, top, commit, source); err != nil {
		return nil, err
	}
	this := build{name: "this build", program: c.program, plugin: c.plugin}
	other := build{name: "the build of " + c.against, program: filepath.Join(dir, "other")}
	if this.settings, err = settings(filepath.Join(top, "config.json")); err != nil {
		return nil, err
	}
	if other.settings, err = settings(filepath.Join(source, "config.json")); err != nil {
		return nil, err
	}
	if err := compile(ctx, source, other.program, "plugin"); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(c.chosen(column{files: slices.Max(c.sizes)}), func(g group) bool { return g.container }) {
		other.plugin = filepath.Join(dir, "plugin-other")
		if err := assemble(ctx, c.plugin, other, filepath.Join(source, "config.json")); err != nil {
			return nil, err
		}
	}
	return []build{this, other}, os.RemoveAll(source)
}

// export creates dir and writes the files of a commit of the repository at top into it.
func export(ctx context.Context, top, commit, dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	tar := dir + ".tar"
	if _, err := git(ctx, top, "-c", "safe.directory=*", "archive", "--format=tar", "-o", tar, commit); err != nil {
		return err
	}
	_, err := loopdisk.Tool(ctx, "tar", "-C", dir, "-xf", tar)
	return errors.Join(err, os.Remove(tar))
}

// resolve returns the full ID of a commit of the repository in the working
// directory.
func resolve(ctx context.Context, name string) (string, error) {
	out, err := git(ctx, ".", "-c", "safe.directory=*", "rev-parse", "--verify", "--end-of-options", name+"^{commit}")
	return strings.TrimSpace(out), err
}

// compile builds a program of the module in dir as make build does.
func compile(ctx context.Context, dir, out, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./"+path)
	if err := dockerd.Outside(cmd); err != nil { // modules of that commit may have to be downloaded
		return err
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's SIGINT must not reach it
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", path, dir, err, output)
	}
	return nil
}

// assemble makes the plugin's directory of a build: the root filesystem of from
// with the build's program and the config.json of its commit.
func assemble(ctx context.Context, from string, b build, config string) error {
	for _, args := range [][]string{
		{"cp", "-a", from, b.plugin},
		{"install", "-m", "755", b.program, filepath.Join(b.plugin, "rootfs/usr/bin/helmdeck-repos")},
		{"install", "-m", "644", config, filepath.Join(b.plugin, "config.json")},
	} {
		if _, err := loopdisk.Tool(ctx, args[0], args[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// settings returns the names of the settings in a config.json.
func settings(path string) (names []string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var declared struct {
		Env []struct{ Name string }
	}
	if err := json.Unmarshal(data, &declared); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, e := range declared.Env {
		names = append(names, e.Name)
	}
	return names, nil
}
