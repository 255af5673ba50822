package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"

	"github.com/helmdeck/repos/release/image"
)

// tagged is a plugin, or the list of the images for containers, with its tag.
type tagged struct {
	tag    name.Tag
	push   func(ctx context.Context, tag name.Tag) error
	digest v1.Hash
	moves  bool // the tag may name something else already
}

// Publish pushes the plugins of a release to a repository, and the images for containers to that with the same name and
// -csi at its end, after it has checked the files of the release. The tag of a version is never changed: if the registry
// has it with another digest, nothing is pushed.
func Publish(ctx context.Context, o Options, repository string, latest bool) error {
	if err := CheckVersion(o.Version); err != nil {
		return err
	}
	target, err := image.Repository(repository)
	if err != nil {
		return fmt.Errorf("REGISTRY: %w", err)
	}
	if err := Verify(o.Path()); err != nil {
		return fmt.Errorf("%s: %w", o.Path(), err)
	}
	list, err := tags(o, target, latest)
	if err != nil {
		return err
	}
	images, err := containerTags(o, repository, latest)
	if err != nil {
		return err
	}
	list = append(list, images...)
	var errs []error
	for _, t := range list {
		digest, found, err := image.Digest(ctx, t.tag)
		if err != nil {
			return fmt.Errorf("%s: %w", t.tag, err)
		}
		if found && digest != t.digest && !t.moves {
			errs = append(errs, fmt.Errorf("%s exists with another digest, %s: a version is published once; take a new one", t.tag, digest))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, t := range list {
		if err := t.push(ctx, t.tag); err != nil {
			return fmt.Errorf("%s: %w", t.tag, err)
		}
		fmt.Fprintf(o.Log, "published %s %s\n", t.tag, t.digest)
	}
	return warn(o, repository)
}

// warn says that the release's files for Kubernetes name another image than the published one.
func warn(o Options, repository string) error {
	name, err := containerName(repository)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(o.Path(), Manifest))
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), fmt.Sprintf("%q", name+":"+o.Version)) {
		fmt.Fprintf(o.Log, "%s and the chart name another image than %s:%s: make the release with REGISTRY=%s, or set the image when you install\n", Manifest, name, o.Version, repository)
	}
	return nil
}

// containerTags returns the list of the images for containers with its tags. A container runtime chooses from a list by
// architecture.
func containerTags(o Options, repository string, latest bool) ([]tagged, error) {
	full, err := containerName(repository)
	if err != nil {
		return nil, err
	}
	target, err := image.Repository(full)
	if err != nil {
		return nil, err
	}
	var images []v1.Image
	for _, arch := range Architectures {
		i, err := image.ReadArchive(filepath.Join(o.Path(), archiveOf(o.Version, arch)))
		if err != nil {
			return nil, err
		}
		images = append(images, i)
	}
	list, err := image.Index(images)
	if err != nil {
		return nil, err
	}
	digest, err := list.Digest()
	if err != nil {
		return nil, err
	}
	all := []tagged{{tag: target.Tag(o.Version), digest: digest}}
	if latest {
		all = append(all, tagged{tag: target.Tag("latest"), digest: digest, moves: true})
	}
	for i := range all {
		all[i].push = func(ctx context.Context, tag name.Tag) error { return image.PushIndex(ctx, tag, list) }
	}
	return all, nil
}

// tags returns what to push, in order. An engine does not choose from a list of manifests by architecture: it unpacks
// all of them into one directory. So each architecture has a tag of its own, and a tag without one is for the first.
func tags(o Options, repository name.Repository, latest bool) ([]tagged, error) {
	var all []tagged
	for i, arch := range Architectures {
		plugin, err := image.Load(filepath.Join(o.Path(), layoutOf(arch)))
		if err != nil {
			return nil, err
		}
		digest, err := plugin.Digest()
		if err != nil {
			return nil, err
		}
		add := func(tag string, moves bool) {
			push := func(ctx context.Context, tag name.Tag) error { return image.Push(ctx, tag, plugin) }
			all = append(all, tagged{tag: repository.Tag(tag), push: push, digest: digest, moves: moves})
		}
		add(o.Version+"-"+arch, false)
		if latest {
			add("latest-"+arch, true)
		}
		if i == 0 {
			add(o.Version, false)
		}
		if i == 0 && latest {
			add("latest", true)
		}
	}
	return all, nil
}
