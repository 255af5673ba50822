package bundle_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/release/bundle"
	"github.com/helmdeck/repos/release/image"
)

// TestReleaseForKubernetes makes a release of a project whose programs are that of the test, publishes it, and checks that
// the file for kubectl names the image that was published. TestReleaseTwice makes one of the project itself.
func TestReleaseForKubernetes(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SELF", self)
	root := project(t, `.PHONY: rootfs build build-csi cli
rootfs:
	@test "$(FRESH)" = 1 && mkdir -p build && tar -cf build/rootfs-$(ARCH).tar -T /dev/null && : >build/rootfs-$(ARCH).files
build:
	@cp "$(SELF)" "$(PROGRAM)"
build-csi:
	@cp "$(SELF)" "$(PROGRAM)" && echo driver >>"$(PROGRAM)"
cli:
	@cp "$(SELF)" "$(COMMAND)"
`)
	for _, name := range []string{"config.json", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(projectDir, name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, name), string(text))
	}
	if err := os.CopyFS(filepath.Join(root, "deploy/helm"), os.DirFS(filepath.Join(projectDir, "deploy/helm"))); err != nil {
		t.Fatal(err)
	}
	repository := serve(t, never)
	o := options(root)
	o.Dirty, o.Systems, o.Repository = true, bundle.Systems[:1], repository
	if err := bundle.Make(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	o.Log = &log
	if err := bundle.Publish(t.Context(), o, repository, false); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "another image") {
		t.Errorf("a release that was made for this registry is said to name another image:\n%s", &log)
	}
	manifest, err := os.ReadFile(filepath.Join(o.Path(), bundle.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	if want := `image: "` + repository + `-csi:1.2.3"`; !strings.Contains(string(manifest), want) {
		t.Errorf("%s lacks %s:\n%s", bundle.Manifest, want, manifest)
	}
	for _, arch := range bundle.Architectures {
		if got := containerArch(t, repository+"-csi", arch); got != arch {
			t.Errorf("a node of %s pulls the image of %q", arch, got)
		}
		container, err := image.ReadArchive(filepath.Join(o.Path(), "helmdeck-repos-csi_1.2.3_"+arch+".tar"))
		if err != nil {
			t.Fatal(err)
		}
		files, err := image.Files(container)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(f image.File) bool { return bytes.HasSuffix(f.Data, []byte("driver\n")) }) {
			t.Errorf("the image for %s has not the program of the driver", arch)
		}
	}
	var names []string
	entries, err := os.ReadDir(o.Path())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	for _, want := range []string{"LICENSE", "helmdeck-repos-1.2.3.tgz", "helmdeck-repos-csi_1.2.3_arm64.tar", "helmdeck-repos-csi_amd64.spdx.json", "kubernetes.yaml"} {
		if !slices.Contains(names, want) {
			t.Errorf("the release has %q, and not %s", names, want)
		}
	}
	// Another registry than that of the release: it is published there too, and what does not fit is said.
	log.Reset()
	if err := bundle.Publish(t.Context(), o, serve(t, never), false); err != nil || !strings.Contains(log.String(), "another image") {
		t.Errorf("to another registry: %v, %s", err, &log)
	}
	o.Repository = "repos"
	wantError(t, bundle.Make(t.Context(), o), `REGISTRY: repository "repos": want HOST/NAME`)
}
