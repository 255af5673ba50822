package bundle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/spdx/tools-golang/spdx"

	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/release/sbom"
)

// layoutOf returns the name of the OCI layout of the plugin for an architecture.
func layoutOf(arch string) string { return "plugin-" + arch }

// plugin makes the plugin for an architecture, and its bill of materials.
func (r *release) plugin(ctx context.Context, arch string) error {
	target := []string{"rootfs", "ARCH=" + arch}
	if r.Strict {
		target = append(target, "STRICT=1")
	}
	if err := r.make(ctx, nil, target...); err != nil {
		return err
	}
	program, err := r.compile(ctx, System{"linux", arch}, "PROGRAM", "build")
	if err != nil {
		return err
	}
	plugin, err := assemble(r, r.rootfs(arch)+".tar", program)
	if err != nil {
		return err
	}
	if err := image.Save(filepath.Join(r.dir, layoutOf(arch)), plugin); err != nil {
		return err
	}
	document, err := r.describe(plugin, "helmdeck-repos-"+arch, arch)
	if err != nil {
		return err
	}
	if err := r.write(layoutOf(arch)+".spdx.json", document); err != nil {
		return err
	}
	digest, err := plugin.Digest()
	if err != nil {
		return err
	}
	r.logf("%s is %s", layoutOf(arch), digest)
	return nil
}

// rootfs returns the path of what make rootfs has made for an architecture, without the ends .tar and .files.
func (r *release) rootfs(arch string) string { return filepath.Join(r.Root, "build/rootfs-"+arch) }

func assemble(r *release, rootfs string, program []byte) (v1.Image, error) {
	config, err := os.ReadFile(filepath.Join(r.Root, "config.json"))
	if err != nil {
		return nil, err
	}
	archive, err := os.Open(rootfs)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	return image.Make(image.Source{Version: r.Version, Config: config, Rootfs: archive, Program: program, Time: r.time})
}

// describe writes down what is in a plugin, or in an image for containers.
func (r *release) describe(plugin v1.Image, name, arch string) (*spdx.Document, error) {
	list := r.rootfs(arch) + ".files"
	file, err := os.Open(list)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	origins, err := sbom.Origins(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", list, err)
	}
	files, err := image.Files(plugin)
	if err != nil {
		return nil, err
	}
	return sbom.Image(r.about(name), arch, files, origins)
}

func (r *release) about(name string) sbom.About {
	return sbom.About{Name: name, Version: r.Version, Comment: r.comment, Time: r.time}
}

// write writes a bill of materials into the release.
func (r *release) write(name string, d *spdx.Document) error {
	file, err := os.Create(filepath.Join(r.dir, name))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := sbom.Write(file, d); err != nil {
		return err
	}
	return file.Close()
}
