package bundle

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"

	"github.com/helmdeck/repos/release/image"
)

// tagged is a plugin with its tag.
type tagged struct {
	tag    name.Tag
	plugin v1.Image
	digest v1.Hash
	moves  bool // the tag may name something else already
}

// Publish pushes the plugins of a release to a repository, after it has checked the files of the release. The tag of a
// version is never changed: if the registry has it with another digest, nothing is pushed.
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
		if err := image.Push(ctx, t.tag, t.plugin); err != nil {
			return fmt.Errorf("%s: %w", t.tag, err)
		}
		fmt.Fprintf(o.Log, "published %s %s\n", t.tag, t.digest)
	}
	return nil
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
			all = append(all, tagged{tag: repository.Tag(tag), plugin: plugin, digest: digest, moves: moves})
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
