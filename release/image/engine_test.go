package image_test

import (
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/tests/dockerd"
)

const build = "../../build"

// pushed makes the plugin that make plugin has built, and pushes it to a registry on loopback.
func pushed(t *testing.T) (repository string) {
	t.Helper()
	config, err := os.ReadFile("../../config.json")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(build, "helmdeck-repos"))
	if err != nil {
		t.Fatalf("run make plugin first: %v", err)
	}
	rootfs, err := os.Open(rootfsTar(t))
	if err != nil {
		t.Fatal(err)
	}
	defer rootfs.Close()
	made, err := image.Make(image.Source{Version: "1.2.3", Config: config, Rootfs: rootfs, Program: program, Time: time.Unix(1e9, 0)})
	if err != nil {
		t.Fatal(err)
	}
	// The engine gets what was saved, as in a release.
	dir := filepath.Join(t.TempDir(), "layout")
	if err := image.Save(dir, made); err != nil {
		t.Fatal(err)
	}
	saved, err := image.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	target, err := image.Repository(strings.TrimPrefix(server.URL, "http://") + "/helmdeck/repos")
	if err != nil {
		t.Fatal(err)
	}
	if err := image.Push(t.Context(), target.Tag("1.2.3"), saved); err != nil {
		t.Fatal(err)
	}
	pulled, err := image.Pull(t.Context(), target.Tag("1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := made.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := pulled.Digest(); err != nil || got != want {
		t.Fatalf("pulled: got %s, %v; want %s", got, err, want)
	}
	return target.Name()
}

// TestEngineInstalls checks that an engine installs and starts what Push has pushed, and as a control that it refuses a tag
// that nobody pushed.
func TestEngineInstalls(t *testing.T) {
	if err := dockerd.Choose(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/var/tmp", "release-engine-")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := dockerd.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	repository := pushed(t)
	if out, err := engine.Try("plugin", "install", "--grant-all-permissions", "--alias", dockerd.PluginName, repository+":1.2.3"); err != nil {
		t.Fatal(out, err)
	}
	out, err := engine.Try("plugin", "inspect", "--format", "{{.Enabled}} {{.Config.Description}}", dockerd.PluginName)
	if want := "true Private, warm git checkouts as volumes (1.2.3)"; err != nil || out != want {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	if out, err := engine.Try("plugin", "install", "--grant-all-permissions", "--alias", "absent", repository+":9.9.9"); err == nil {
		t.Errorf("a tag that does not exist was installed: %s", out)
	}
}

// rootfsTar returns the root filesystem of this machine's architecture.
func rootfsTar(t *testing.T) string {
	t.Helper()
	return filepath.Join(build, "rootfs-"+runtime.GOARCH+".tar")
}
