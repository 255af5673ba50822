package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/helmdeck/repos/cmd/bench/loopdisk"
	"github.com/helmdeck/repos/tests/dockerd"
)

// image is the name of the containers' image.
const image = "bench"

// newEngine starts an engine with its data below dir, and installs the image and
// the plugin.
func newEngine(ctx context.Context, dir, plugin string, settings []string) (*dockerd.Engine, error) {
	e, err := dockerd.New(ctx, filepath.Join(dir, "engine"))
	if err != nil {
		return nil, err
	}
	file := e.Path("image.tar")
	err = writeImage(ctx, file)
	if err == nil {
		_, err = e.Try("import", file, image)
	}
	if err == nil {
		err = e.Install(plugin, settings...)
	}
	if err != nil {
		return nil, errors.Join(err, e.End())
	}
	return e, nil
}

// writeImage writes an archive with the machine's git for HTTP, cat and true, and their libraries.
func writeImage(ctx context.Context, archive string) error {
	core, err := loopdisk.Tool(ctx, "git", "--exec-path")
	if err != nil {
		return err
	}
	files := []string{filepath.Join(core, "git-remote-http")}
	for _, name := range []string{"git", "cat", "true"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		files = append(files, path)
	}
	libraries, err := loopdisk.Tool(ctx, "ldd", files...)
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(libraries) {
		if filepath.IsAbs(word) && !strings.HasSuffix(word, ":") { // not the name of a program above its libraries
			files = append(files, word)
		}
	}
	slices.Sort(files)
	_, err = loopdisk.Tool(ctx, "tar", append([]string{"--create", "--dereference", "--file", archive}, slices.Compact(files)...)...)
	return err
}

// container runs a command in a container with a volume at /w, as a user does. It returns how
// many milliseconds that took, and the command's output.
func (s *scene) container(ctx context.Context, volume string, command ...string) (took float64, out string, err error) {
	return s.run(ctx, []string{"--network", "none", "--volume", volume + ":/w"}, command...)
}

// run is container with other flags of docker run.
func (s *scene) run(ctx context.Context, flags []string, command ...string) (took float64, out string, err error) {
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	args := slices.Concat([]string{"run", "--rm"}, flags, []string{image}, command)
	took, err = clock(func() error {
		out, err = s.engine.Try(args...)
		return err
	})
	return took, out, err
}

// nameless returns the flag of docker run for a volume of the repository's main branch that is
// created and removed with the container.
func (s *scene) nameless(subject string) string {
	return fmt.Sprintf("--mount=type=volume,volume-driver=%s,volume-opt=repo=%s,volume-opt=ref=main,volume-opt=subject=%s,dst=/w",
		dockerd.PluginName, s.url(), subject)
}

// volume makes a volume of the repository's main branch.
func (s *scene) volume(name, subject string) error {
	_, err := s.engine.Try("volume", "create", "--driver", dockerd.PluginName,
		"--opt", "repo="+s.url(), "--opt", "ref=main", "--opt", "subject="+subject, "--opt", "refresh=always", name)
	return err
}
