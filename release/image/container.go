package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Container makes an image for containers, such as the driver's pods in a cluster, of what a plugin is made of and the
// operator's command. Its entrypoint is the program. It does not read Source.Config, because a container's privileges are
// not part of its image.
func Container(s Source, arch string) (v1.Image, error) {
	compressed, diff, err := pack(s, map[string][]byte{Program: s.Program, Command: s.Command})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(v1.ConfigFile{
		Architecture: arch, OS: "linux", Created: v1.Time{Time: s.Time.UTC()},
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
		Config: v1.Config{
			Entrypoint: []string{"/" + Program}, Env: []string{"PATH=/usr/sbin:/usr/bin", "HOME=/"}, WorkingDir: "/",
			Labels: map[string]string{"org.opencontainers.image.version": s.Version},
		},
	})
	if err != nil {
		return nil, err
	}
	return assemble(types.OCIManifestSchema1, static.NewLayer(config, types.OCIConfigJSON), static.NewLayer(compressed, types.OCILayer))
}

// WriteArchive writes an image that Container has made as an OCI archive, which `docker load` can read too. name is
// NAME:TAG. Equal images and names give equal bytes.
func WriteArchive(w io.Writer, name string, made v1.Image) error {
	manifest, err := made.Manifest()
	if err != nil {
		return err
	}
	index, err := indexOf(name, made)
	if err != nil {
		return err
	}
	layer, err := made.LayerByDigest(manifest.Layers[0].Digest)
	if err != nil {
		return err
	}
	content, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer content.Close()
	packed, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	config, configErr := made.RawConfigFile()
	raw, rawErr := made.RawManifest()
	digest, digestErr := made.Digest()
	// This is what `docker save` writes.
	list, listErr := json.Marshal([]map[string]any{{
		"Config": blob(manifest.Config.Digest), "RepoTags": []string{name}, "Layers": []string{blob(manifest.Layers[0].Digest)},
	}})
	if err := errors.Join(configErr, rawErr, digestErr, listErr); err != nil {
		return err
	}
	out := tar.NewWriter(w)
	for _, file := range []struct {
		name string
		data []byte
	}{
		{"oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)}, {"index.json", index}, {"manifest.json", list},
		{blob(digest), raw}, {blob(manifest.Config.Digest), config}, {blob(manifest.Layers[0].Digest), packed},
	} {
		header := tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: 0o644, Size: int64(len(file.data))}
		if err := out.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := io.Copy(out, bytes.NewReader(file.data)); err != nil {
			return err
		}
	}
	return out.Close()
}

// ReadArchive reads an image that WriteArchive has written. The caller checks the file.
func ReadArchive(path string) (v1.Image, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	files := make(map[string][]byte)
	for archive := tar.NewReader(file); ; {
		h, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(files["index.json"]))
	if err != nil || len(index.Manifests) != 1 {
		return nil, fmt.Errorf("%s is not the archive of one image: %v", path, err)
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(files[blob(index.Manifests[0].Digest)]))
	if err != nil || len(manifest.Layers) != 1 {
		return nil, fmt.Errorf("%s has no image of one layer: %v", path, err)
	}
	return assemble(manifest.MediaType, static.NewLayer(files[blob(manifest.Config.Digest)], manifest.Config.MediaType),
		static.NewLayer(files[blob(manifest.Layers[0].Digest)], manifest.Layers[0].MediaType))
}

// Index returns a list of images by architecture, from which a cluster's nodes choose.
func Index(images []v1.Image) (v1.ImageIndex, error) {
	list := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		config, err := i.ConfigFile()
		if err != nil {
			return nil, err
		}
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: config.Platform()}})
	}
	return list, nil
}

// blob returns where an OCI layout has the content of a digest.
func blob(h v1.Hash) string { return fmt.Sprintf("blobs/%s/%s", h.Algorithm, h.Hex) }

// indexOf returns the index of a layout with one image.
func indexOf(name string, made v1.Image) ([]byte, error) {
	digest, err := made.Digest()
	if err != nil {
		return nil, err
	}
	size, err := made.Size()
	if err != nil {
		return nil, err
	}
	mediaType, err := made.MediaType()
	if err != nil {
		return nil, err
	}
	return json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: mediaType, Size: size, Digest: digest,
			// The first one is containerd's, the second one that of the specification.
			Annotations: map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name},
		}},
	})
}
