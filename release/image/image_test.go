package image_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	named "github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/moby/moby/api/types/plugin"

	"github.com/helmdeck/repos/release/image"
)

const config = `{"description": "Volumes (build dev)", "entrypoint": ["/usr/bin/helmdeck-repos"]}`

// archive makes a tar of entries; files contain their own name.
func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	out := new(bytes.Buffer)
	w := tar.NewWriter(out)
	for _, h := range entries {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out
}

func source(rootfs io.Reader) image.Source {
	return image.Source{Version: "1.2.3", Config: []byte(config), Rootfs: rootfs, Program: []byte("program"), Time: time.Unix(1e9, 0)}
}

var (
	root = tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755}
	usr  = tar.Header{Typeflag: tar.TypeDir, Name: "./usr/", Mode: 0o755}
	file = tar.Header{Typeflag: tar.TypeReg, Name: "./usr/file", Mode: 0o644, Uname: "root"}
	link = tar.Header{Typeflag: tar.TypeSymlink, Name: "./bin", Linkname: "usr/bin"}
)

func TestMake(t *testing.T) {
	made, err := image.Make(source(archive(t, root, usr, file, link)))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := made.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(manifest.MediaType), "application/vnd.docker.distribution.manifest.v2+json"; got != want {
		t.Errorf("manifest: got %s, want %s", got, want)
	}
	if got, want := manifest.Config.MediaType, image.ConfigType; got != want {
		t.Errorf("config: got %s, want %s", got, want)
	}
	raw, err := made.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	var decoded plugin.Config
	if err := json.Unmarshal(raw, &decoded); err != nil {
		t.Fatal(err)
	}
	if got, want := decoded.Description, "Volumes (1.2.3)"; got != want {
		t.Errorf("description: got %q, want %q", got, want)
	}
	layers, err := made.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v; want 1", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		t.Fatal(err)
	}
	if got, want := decoded.Rootfs.DiffIds, "sha256:"+hex.EncodeToString(sum.Sum(nil)); len(got) != 1 || got[0] != want {
		t.Errorf("diff_ids: got %q, want %q", got, want)
	}
	files, err := image.Files(made)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range files {
		list = append(list, f.Path+"="+f.Link+string(f.Data))
	}
	if got, want := strings.Join(list, " "), "bin=usr/bin usr/bin/helmdeck-repos=program usr/file=./usr/file"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
}

// TestOrderDoesNotMatter checks that neither the order of the entries nor the names of their owners change the digest,
// and as a control that a file does.
func TestOrderDoesNotMatter(t *testing.T) {
	digest := func(entries ...tar.Header) string {
		t.Helper()
		made, err := image.Make(source(archive(t, entries...)))
		if err != nil {
			t.Fatal(err)
		}
		d, err := made.Digest()
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	renamed := file
	renamed.Uname, renamed.Name = "another", "usr/file"
	renamed.Name = file.Name
	first := digest(root, usr, file, link)
	if again := digest(link, renamed, usr); again != first {
		t.Errorf("in another order: got %s, want %s", again, first)
	}
	if other := digest(root, usr, link); other == first {
		t.Errorf("without a file: got the same digest %s", other)
	}
}

func TestMakeRefuses(t *testing.T) {
	foreign, device, outside, program := file, file, file, file
	foreign.Uid = 1000
	device.Typeflag = tar.TypeChar
	outside.Name = "../file"
	program.Name = image.Program
	for _, tc := range []struct {
		name, config, want string
		entry              tar.Header
	}{
		{"another owner", config, "belongs to 1000:0, want 0:0", foreign},
		{"a device", config, "only files, directories and symbolic links", device},
		{"a path outside", config, "outside of the root", outside},
		{"the program twice", config, `"usr/bin/helmdeck-repos" twice`, program},
		{"no place for the version", `{"description": "x"}`, `lacks "(build dev)"`, file},
		{"an unknown field", `{"descripton": "(build dev)"}`, `unknown field "descripton"`, file},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := source(archive(t, tc.entry))
			s.Config = []byte(tc.config)
			if _, err := image.Make(s); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in the error", err, tc.want)
			}
		})
	}
}

// TestContainer checks the image for containers: its configuration, its programs, and that its archive is the same
// whatever the order of the root filesystem.
func TestContainer(t *testing.T) {
	write := func(name string, entries ...tar.Header) (v1.Image, []byte) {
		t.Helper()
		s := source(archive(t, entries...))
		s.Command = []byte("command")
		made, err := image.Container(s, "arm64")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := image.WriteArchive(&out, name, made); err != nil {
			t.Fatal(err)
		}
		return made, out.Bytes()
	}
	const name = "registry.example.com/helmdeck/repos-csi:1.2.3"
	made, first := write(name, root, usr, file, link)
	if _, again := write(name, link, file, usr); !bytes.Equal(again, first) {
		t.Error("in another order the archive is another one")
	}
	if _, other := write(name, root, usr, link); bytes.Equal(other, first) {
		t.Error("without a file the archive is the same")
	}
	config, err := made.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := config.Architecture+" "+strings.Join(config.Config.Entrypoint, " "), "arm64 /usr/bin/helmdeck-repos"; got != want {
		t.Errorf("config: got %q, want %q", got, want)
	}
	files, err := image.Files(made)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, f := range files {
		list = append(list, f.Path+"="+f.Link+string(f.Data))
	}
	if got, want := strings.Join(list, " "), "bin=usr/bin usr/bin/docker-repos=command usr/bin/helmdeck-repos=program usr/file=./usr/file"; got != want {
		t.Errorf("files: got %q, want %q", got, want)
	}
	// Another implementation reads the archive: that of `docker load`.
	path := filepath.Join(t.TempDir(), "archive.tar")
	if err := os.WriteFile(path, first, 0o644); err != nil {
		t.Fatal(err)
	}
	tag, err := named.NewTag(name)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tarball.ImageFromPath(path, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(loaded); err != nil {
		t.Error(err)
	}
	got, gotErr := loaded.ConfigName()
	want, wantErr := made.ConfigName()
	if got != want || gotErr != nil || wantErr != nil {
		t.Errorf("loaded: got %s, %v, want %s, %v", got, gotErr, want, wantErr)
	}
	read, err := image.ReadArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	back, backErr := read.Digest()
	digest, digestErr := made.Digest()
	if back != digest || backErr != nil || digestErr != nil {
		t.Errorf("read: got %s, %v, want %s, %v", back, backErr, digest, digestErr)
	}
	if err := os.WriteFile(path, first[:len(first)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := image.ReadArchive(path); err == nil {
		t.Error("half an archive is not an error")
	}
}
