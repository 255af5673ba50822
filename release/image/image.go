// Package image makes a managed plugin as the engine pushes it to a registry, and reads one back. It also makes an image
// for containers of the same files.
//
// Equal inputs give equal bytes, whatever the machine, the time and the umask, as long as the program is built with the
// same version of Go, which compresses the layer. The package needs no engine and no root.
package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/moby/moby/api/types/plugin"
)

// ConfigType is the media type by which the engine recognizes a plugin.
const ConfigType types.MediaType = "application/vnd.docker.plugin.v1+json"

// Program is the path of the plugin's program in the image, and Command that of the operator's command, in an image for
// containers.
const (
	Program = "usr/bin/helmdeck-repos"
	Command = "usr/bin/docker-repos"
)

// placeholder is what config.json has in place of the version.
const placeholder = "(build dev)"

// Source is what a plugin is made of.
type Source struct {
	Version string
	Config  []byte    // config.json
	Rootfs  io.Reader // the root filesystem without the program, as tar
	Program []byte
	Command []byte    // only for Container
	Time    time.Time // the time stamp of the programs
}

// Make makes a plugin. Its root filesystem is one layer, and its manifest has the media type of Docker's schema 2,
// because registries know a plugin by that type alone.
func Make(s Source) (v1.Image, error) {
	compressed, diff, err := pack(s, map[string][]byte{Program: s.Program})
	if err != nil {
		return nil, err
	}
	config, err := s.config(diff)
	if err != nil {
		return nil, err
	}
	return assemble(types.DockerManifestSchema2, static.NewLayer(config, ConfigType), static.NewLayer(compressed, types.DockerLayer))
}

// assemble makes an image of a configuration and a layer.
func assemble(mediaType types.MediaType, config, layer v1.Layer) (v1.Image, error) {
	manifest := v1.Manifest{SchemaVersion: 2, MediaType: mediaType}
	var err error
	if manifest.Config, err = describe(config); err != nil {
		return nil, err
	}
	descriptor, err := describe(layer)
	if err != nil {
		return nil, err
	}
	manifest.Layers = []v1.Descriptor{descriptor}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&core{mediaType: mediaType, manifest: raw, config: config, layer: layer})
}

// config returns the configuration with the version, and with the digest of the uncompressed layer.
func (s Source) config(diff v1.Hash) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(s.Config))
	decoder.DisallowUnknownFields()
	var config plugin.Config
	if err := decoder.Decode(&config); err != nil {
		return nil, fmt.Errorf("config.json: %w", err)
	}
	if !strings.Contains(config.Description, placeholder) {
		return nil, fmt.Errorf("config.json: the description lacks %q, in whose place the version goes", placeholder)
	}
	config.Description = strings.Replace(config.Description, placeholder, "("+s.Version+")", 1)
	config.Rootfs = &plugin.RootFS{Type: "layers", DiffIds: []string{diff.String()}}
	return json.Marshal(config)
}

func describe(l v1.Layer) (v1.Descriptor, error) {
	d, err := partial.Descriptor(l)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return *d, nil
}

// core is what partial.CompressedToImage makes an image from.
type core struct {
	mediaType     types.MediaType
	manifest      []byte
	config, layer v1.Layer
}

func (c *core) MediaType() (types.MediaType, error) { return c.mediaType, nil }
func (c *core) RawManifest() ([]byte, error)        { return c.manifest, nil }
func (c *core) Manifest() (*v1.Manifest, error)     { return v1.ParseManifest(bytes.NewReader(c.manifest)) }
func (c *core) RawConfigFile() ([]byte, error) {
	content, err := c.config.Compressed() // as it is: a configuration is not compressed
	if err != nil {
		return nil, err
	}
	defer content.Close()
	return io.ReadAll(content)
}
func (c *core) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	if digest, err := c.layer.Digest(); err != nil || h != digest {
		return nil, fmt.Errorf("the image has no layer %s", h)
	}
	return c.layer, nil
}
