package bundle

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1"

	"github.com/helmdeck/repos/release/chart"
	"github.com/helmdeck/repos/release/image"
)

// Manifest is the file for kubectl in a release.
const Manifest = "kubernetes.yaml"

// unpublished is the name of the image that is in no registry: that in deploy/kubernetes and deploy/helm.
const unpublished = "localhost/helmdeck/repos-csi"

// containerName returns the name of the image for containers that is published with the plugin in a repository.
func containerName(repository string) (string, error) {
	if repository == "" {
		return unpublished, nil
	}
	r, err := image.Repository(repository)
	if err != nil {
		return "", err
	}
	return r.Name() + "-csi", nil
}

// archiveOf returns the name of the file with the image for containers of an architecture.
func archiveOf(version, arch string) string {
	return fmt.Sprintf("helmdeck-repos-csi_%s_%s.tar", version, arch)
}

// kubernetes makes the images of the driver with their bills of materials, the Helm chart, and the file for kubectl.
func (r *release) kubernetes(ctx context.Context) error {
	name, err := containerName(r.Repository)
	if err != nil {
		return err
	}
	for _, arch := range Architectures {
		if err := r.container(ctx, name, arch); err != nil {
			return err
		}
	}
	c, err := chart.Load(filepath.Join(r.Root, "deploy/helm"))
	if err != nil {
		return err
	}
	if c, err = c.Released(r.Version, name); err != nil {
		return err
	}
	manifest, err := c.Manifest()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(r.dir, Manifest), manifest, 0o644); err != nil {
		return err
	}
	packed, err := os.Create(filepath.Join(r.dir, chart.Name+"-"+r.Version+".tgz"))
	if err != nil {
		return err
	}
	defer packed.Close()
	if err := c.Pack(packed, r.time); err != nil {
		return err
	}
	return packed.Close()
}

// container makes the image of an architecture.
func (r *release) container(ctx context.Context, name, arch string) error {
	program, err := r.compile(ctx, System{"linux", arch}, "PROGRAM", "build-csi")
	if err != nil {
		return err
	}
	if r.commands[arch] == nil {
		code, err := r.compileCommand(ctx, System{"linux", arch})
		if err != nil {
			return err
		}
		r.commands[arch] = code
	}
	made, err := containerOf(r.rootfs(arch)+".tar", image.Source{Version: r.Version, Program: program, Command: r.commands[arch], Time: r.time}, arch)
	if err != nil {
		return err
	}
	if err := writeContainer(filepath.Join(r.dir, archiveOf(r.Version, arch)), name+":"+r.Version, made); err != nil {
		return err
	}
	document, err := r.describe(made, "helmdeck-repos-csi-"+arch, arch)
	if err != nil {
		return err
	}
	return r.write("helmdeck-repos-csi_"+arch+".spdx.json", document)
}

// containerOf makes an image for containers of a root filesystem in a file and what s has.
func containerOf(rootfs string, s image.Source, arch string) (v1.Image, error) {
	file, err := os.Open(rootfs)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s.Rootfs = file
	return image.Container(s, arch)
}
