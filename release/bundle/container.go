package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1"

	"github.com/helmdeck/repos/release/image"
)

// ContainerImage says which image for containers to make.
type ContainerImage struct {
	Arch             string
	Program, Command string // the files of the plugin's program and the operator's command
	Name             string // of the image, without a tag: that is the version
	Archive          string // the file to write
}

// Make makes an image for containers of two programs and what `make rootfs` has made.
func (c ContainerImage) Make(ctx context.Context, o Options) error {
	if c.Name == "" || c.Archive == "" {
		return errors.New("an image needs a name and a file for its archive")
	}
	r := &release{Options: o}
	r.Dirty = true // an image is made of what is in build/, as the plugin of make install is
	if err := r.identify(ctx); err != nil {
		return err
	}
	program, programErr := os.ReadFile(c.Program)
	command, commandErr := os.ReadFile(c.Command)
	if err := errors.Join(programErr, commandErr); err != nil {
		return err
	}
	made, err := containerOf(r.rootfs(c.Arch)+".tar", image.Source{Version: o.Version, Program: program, Command: command, Time: r.time}, c.Arch)
	if err != nil {
		return err
	}
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	if err := writeContainer(c.Archive, c.Name+":"+o.Version, made); err != nil {
		return err
	}
	_, err = fmt.Fprintf(o.Log, "image: %s is %s:%s, %s\n", c.Archive, c.Name, o.Version, digest)
	return err
}

// writeContainer writes the archive of an image, which appears when it is complete. name is NAME:TAG.
func writeContainer(archive, name string, made v1.Image) error {
	dir := filepath.Dir(archive)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	out, err := os.CreateTemp(dir, ".image-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	if err := image.WriteArchive(out, name, made); err != nil {
		return err
	}
	if err := errors.Join(out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), archive)
}
