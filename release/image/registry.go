package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// Save writes a plugin to dir as an OCI layout.
func Save(dir string, plugin v1.Image) error {
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return path.AppendImage(plugin)
}

// Load reads a plugin that Save has written. The caller checks its files.
func Load(dir string) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d manifests, want 1", dir, len(manifest.Manifests))
	}
	return index.Image(manifest.Manifests[0].Digest)
}

// Repository parses the name of a repository: HOST/NAME, without a tag.
func Repository(repository string) (name.Repository, error) {
	host, _, found := strings.Cut(repository, "/")
	if !found || strings.Contains(repository, "://") || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return name.Repository{}, fmt.Errorf("repository %q: want HOST/NAME, such as registry.example.com/helmdeck/repos", repository)
	}
	r, err := name.NewRepository(repository, name.StrictValidation)
	if err != nil {
		return r, fmt.Errorf("repository %q: want HOST/NAME without a tag: %w", repository, err)
	}
	return r, nil
}

// Push pushes a plugin under a tag. Credentials are those of docker's configuration.
func Push(ctx context.Context, tag name.Tag, plugin v1.Image) error {
	return remote.Write(tag, plugin, options(ctx)...)
}

// PushIndex pushes a list of images with the images under a tag, as Push does.
func PushIndex(ctx context.Context, tag name.Tag, list v1.ImageIndex) error {
	return remote.WriteIndex(tag, list, options(ctx)...)
}

// Pull returns the plugin of a tag, whose layer is read later.
func Pull(ctx context.Context, tag name.Tag) (v1.Image, error) {
	return remote.Image(tag, options(ctx)...)
}

// Digest returns the digest of what a tag names; found is false if the registry does not have the tag.
func Digest(ctx context.Context, tag name.Tag) (digest v1.Hash, found bool, err error) {
	descriptor, err := remote.Get(tag, options(ctx)...)
	var refused *transport.Error
	if errors.As(err, &refused) && refused.StatusCode == http.StatusNotFound {
		return v1.Hash{}, false, nil
	}
	if err != nil {
		return v1.Hash{}, false, err
	}
	return descriptor.Digest, true, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithTransport(Encrypted(remote.DefaultTransport)),
	}
}

// Encrypted refuses plain HTTP except on loopback. The registry client would try it on private networks too, and send
// the credentials.
func Encrypted(next http.RoundTripper) http.RoundTripper { return encrypted{next} }

type encrypted struct{ next http.RoundTripper }

func (e encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	if r.URL.Scheme != "https" && host != "localhost" && !net.ParseIP(host).IsLoopback() {
		return nil, fmt.Errorf("registry %s: plain HTTP is allowed on loopback only", r.URL.Host)
	}
	return e.next.RoundTrip(r)
}
