package bundle_test

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/helmdeck/repos/release/bundle"
	"github.com/helmdeck/repos/release/image"
)

// made makes a release of two small plugins that differ by program, as far as publishing needs it.
func made(t *testing.T, program string) bundle.Options {
	t.Helper()
	o := options(t.TempDir())
	for _, arch := range bundle.Architectures {
		var rootfs bytes.Buffer
		if err := tar.NewWriter(&rootfs).Close(); err != nil {
			t.Fatal(err)
		}
		plugin, err := image.Make(image.Source{Version: o.Version, Config: []byte(`{"description": "(build dev)"}`), Rootfs: &rootfs, Program: []byte(program + arch)})
		if err != nil {
			t.Fatal(err)
		}
		if err := image.Save(filepath.Join(o.Path(), "plugin-"+arch), plugin); err != nil {
			t.Fatal(err)
		}
		rootfs.Reset()
		if err := tar.NewWriter(&rootfs).Close(); err != nil {
			t.Fatal(err)
		}
		container, err := image.Container(image.Source{Version: o.Version, Rootfs: &rootfs, Program: []byte(program + arch), Command: []byte("command")}, arch)
		if err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := image.WriteArchive(&archive, "localhost/x:1", container); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(o.Path(), "helmdeck-repos-csi_1.2.3_"+arch+".tar"), archive.String())
	}
	write(t, filepath.Join(o.Path(), bundle.Manifest), "image: \"localhost/x:1\"\n")
	if err := bundle.WriteSums(o.Path()); err != nil {
		t.Fatal(err)
	}
	return o
}

// serve serves a registry on loopback; refuse may answer a request in its place.
func serve(t *testing.T, refuse func(w http.ResponseWriter, r *http.Request) bool) (repository string) {
	t.Helper()
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !refuse(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	return strings.TrimPrefix(server.URL, "http://") + "/helmdeck/repos"
}

func never(http.ResponseWriter, *http.Request) bool { return false }

// digests returns what a repository has under tags.
func digests(t *testing.T, repository string, tags ...string) string {
	t.Helper()
	target, err := image.Repository(repository)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, tag := range tags {
		digest, _, err := image.Digest(t.Context(), target.Tag(tag))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, digest.Hex)
	}
	return strings.Join(list, " ")
}

// containerArch returns the architecture of the image that a container runtime chooses from the list of 1.2.3.
func containerArch(t *testing.T, repository, arch string) string {
	t.Helper()
	target, err := image.Repository(repository)
	if err != nil {
		t.Fatal(err)
	}
	chosen, err := remote.Image(target.Tag("1.2.3"), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: arch}))
	if err != nil {
		t.Fatal(err)
	}
	config, err := chosen.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.Architecture
}

func TestPublish(t *testing.T) {
	repository := serve(t, never)
	o := made(t, "first")
	for range 2 { // a second time nothing changes
		if err := bundle.Publish(t.Context(), o, repository, false); err != nil {
			t.Fatal(err)
		}
	}
	got := strings.Fields(digests(t, repository, "1.2.3", "1.2.3-amd64", "1.2.3-arm64"))
	if len(got) != 3 || got[0] != got[1] || got[1] == got[2] {
		t.Errorf("got the digests %q, want the first two equal and the last another", got)
	}
	if got := digests(t, repository, "latest"); got != "" {
		t.Errorf("latest is %s, want none without LATEST=1", got)
	}
	for _, arch := range bundle.Architectures {
		if got := containerArch(t, repository+"-csi", arch); got != arch {
			t.Errorf("a node of %s pulls the image of %q", arch, got)
		}
	}

	all := []string{"1.2.3", "1.2.3-amd64", "1.2.3-arm64"}
	before := digests(t, repository, all...)
	other := made(t, "second")
	wantError(t, bundle.Publish(t.Context(), other, repository, true), "1.2.3-amd64 exists with another digest")
	if after := digests(t, repository, append(all, "latest")...); after != before+" " {
		t.Errorf("after a refusal: got %q, want %q", after, before)
	}
	other = made(t, "third")
	other.Version = "1.2.4"
	if err := os.Rename(filepath.Join(other.Root, "build/release/1.2.3"), other.Path()); err != nil {
		t.Fatal(err)
	}
	for _, arch := range bundle.Architectures {
		archive := filepath.Join(other.Path(), "helmdeck-repos-csi_1.2.3_"+arch+".tar")
		if err := os.Rename(archive, strings.Replace(archive, "_1.2.3_", "_1.2.4_", 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := bundle.WriteSums(other.Path()); err != nil {
		t.Fatal(err)
	}
	for _, o := range []bundle.Options{o, other} {
		if err := bundle.Publish(t.Context(), o, repository, true); err != nil {
			t.Fatal(err)
		}
		if got := strings.Fields(digests(t, repository, o.Version, "latest", o.Version+"-arm64", "latest-arm64")); got[0] != got[1] || got[2] != got[3] {
			t.Errorf("%s: got the digests %q, want those of latest to be its own", o.Version, got)
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	repository := serve(t, never)
	o := made(t, "program")
	wantError(t, bundle.Publish(t.Context(), o, "repos", false), `REGISTRY: repository "repos": want HOST/NAME`)
	wantError(t, bundle.Publish(t.Context(), options(t.TempDir()), repository, false), "run make release first")
	index := filepath.Join(o.Path(), "plugin-arm64/index.json")
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	wantError(t, bundle.Publish(t.Context(), o, repository, false), "plugin-arm64/index.json is missing")
	if got := digests(t, repository, "1.2.3-amd64"); got != "" {
		t.Errorf("%s was published of a damaged release", got)
	}
	denied := serve(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusForbidden)
		}
		return r.Method == http.MethodPost
	})
	wantError(t, bundle.Publish(t.Context(), made(t, "program"), denied, false), "403")
}
