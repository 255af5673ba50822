package prebuild

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/helmdeck/repos/cli/internal/relay"
)

const (
	// emptyImage is the value of the label of an image that only exists for containers that are never started.
	emptyImage = "empty"
	// maxDevcontainer bounds a devcontainer.json.
	maxDevcontainer = 64 << 10
)

// devcontainer returns the job with the image and the commands of a commit's devcontainer.json. It reads that
// through the engine, from a container that has the volume and is never started, so nothing of the repository runs.
func (p *Prebuilder) devcontainer(ctx context.Context, j Job, commit string) (Job, error) {
	path, data, err := p.read(ctx, j, commit, devcontainerPaths)
	if err != nil {
		return j, err
	}
	if j.Image, j.Setup, j.Update, err = parseDevcontainer(data); err != nil {
		return j, fmt.Errorf("%s of %s: %w", path, j.Repo, err)
	}
	return j, nil
}

// read returns the first of the files that a commit has.
func (p *Prebuilder) read(ctx context.Context, j Job, commit string, paths []string) (path string, data []byte, err error) {
	image, err := relay.Import(ctx, p.Engine, emptyRoot(), client.ImageImportOptions{Changes: []string{"LABEL " + label + "=" + emptyImage}})
	if err != nil {
		return "", nil, fmt.Errorf("import an empty image: %w", err)
	}
	defer func() { err = errors.Join(err, p.removeImage(ctx, image)) }()
	options := j.volume()
	options["ref"], options["publish"], options["cache"] = commit, "never", "off"
	for _, name := range []string{"warm", "warm_key", "warm_files", "warm_exact"} { // they would only take time
		delete(options, name)
	}
	name := newName()
	config := &container.Config{Image: image, Labels: map[string]string{label: name}, Cmd: []string{"never-started"}}
	made, err := p.Engine.ContainerCreate(ctx, client.ContainerCreateOptions{Name: name, Config: config, HostConfig: p.host(name, DefaultTarget, options)})
	defer func() { err = errors.Join(err, p.remove(ctx, made.ID, name)) }()
	if err != nil {
		return "", nil, err
	}
	for _, path := range paths {
		data, err := p.file(ctx, made.ID, DefaultTarget+"/"+path)
		if err == nil || !errdefs.IsNotFound(err) {
			return path, data, err
		}
	}
	if _, err := p.Engine.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{}); err != nil { // it was not found, rather than the files
		return "", nil, fmt.Errorf("read %s: %w", strings.Join(paths, " or "), err)
	}
	return "", nil, fmt.Errorf("%s has neither %s at %.12s", j.Repo, strings.Join(paths, " nor "), commit)
}

// emptyRoot returns the tar file of a root directory with a mount point, because an engine refuses one without any file.
func emptyRoot() io.Reader {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(DefaultTarget, "/") + "/", Mode: 0o755}) // a bytes.Buffer takes everything
	w.Close()
	return &b
}

// file returns a regular file of a container.
func (p *Prebuilder) file(ctx context.Context, id, path string) ([]byte, error) {
	answer, err := p.Engine.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: path})
	if err != nil {
		return nil, err
	}
	defer answer.Content.Close()
	r := tar.NewReader(answer.Content)
	switch h, err := r.Next(); {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case h.Typeflag != tar.TypeReg:
		return nil, fmt.Errorf("%s is not a regular file", path)
	case h.Size > maxDevcontainer:
		return nil, fmt.Errorf("%s has %d bytes: at most %d are read", path, h.Size, maxDevcontainer)
	}
	return io.ReadAll(r)
}

// removeImage removes an image. The end of ctx does not end it.
func (p *Prebuilder) removeImage(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
	defer cancel()
	if _, err := p.Engine.ImageRemove(ctx, id, client.ImageRemoveOptions{PruneChildren: true}); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("remove the empty image %.19s: %w", id, err)
	}
	return nil
}
