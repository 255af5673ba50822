package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/helmdeck/repos/tests/dockerd"
)

// image is the name of the containers' image, which has only busybox.
const image = "bench"

// newEngine starts an engine with its data below dir, and installs the image and
// the plugin.
func newEngine(dir, plugin string, settings []string) (*dockerd.Engine, error) {
	archive, err := imageTar()
	if err != nil {
		return nil, err
	}
	e, err := dockerd.New(filepath.Join(dir, "engine"))
	if err != nil {
		return nil, err
	}
	file := e.Path("image.tar")
	err = os.WriteFile(file, archive, 0o600)
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

// imageTar returns the content of the image: busybox, under the names of the commands that run.
func imageTar() ([]byte, error) {
	path, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("%w (on Debian: busybox-static)", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755, Size: int64(len(program))},
		{Typeflag: tar.TypeSymlink, Name: "bin/true", Linkname: "busybox"},
		{Typeflag: tar.TypeSymlink, Name: "bin/cat", Linkname: "busybox"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if h.Size > 0 {
			if _, err := w.Write(program); err != nil {
				return nil, err
			}
		}
	}
	return archive.Bytes(), w.Close()
}

// container runs a command in a container with a volume at /w, as a user does. It returns how
// many milliseconds that took, and the command's output.
func (s *scene) container(ctx context.Context, volume string, command ...string) (took float64, out string, err error) {
	return s.run(ctx, []string{"--volume", volume + ":/w"}, command...)
}

// run is container with flags of docker run instead of the volume.
func (s *scene) run(ctx context.Context, flags []string, command ...string) (took float64, out string, err error) {
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	args := slices.Concat([]string{"run", "--rm", "--network", "none"}, flags, []string{image}, command)
	took, err = clock(func() error {
		out, err = s.engine.Try(args...)
		return err
	})
	return took, out, err
}

// volume makes a volume of the repository's main branch.
func (s *scene) volume(name, subject string) error {
	_, err := s.engine.Try("volume", "create", "--driver", dockerd.PluginName,
		"--opt", "repo="+s.url(), "--opt", "ref=main", "--opt", "subject="+subject, "--opt", "refresh=always", name)
	return err
}
