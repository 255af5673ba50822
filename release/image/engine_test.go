package image_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/release/bundle"
	"github.com/helmdeck/repos/release/image"
	"github.com/helmdeck/repos/tests/built"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testgit"
)

const build = "../../build"

var release = flag.String("release", "", "the `directory` in whose build/release is the release 1.2.3 to install")

func TestMain(m *testing.M) {
	if err := errors.Join(dockerd.Isolate(), dockerd.Choose()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// pushed makes the plugin that make plugin has built, and pushes it to a registry on loopback.
func pushed(t *testing.T) (repository string) {
	t.Helper()
	if err := built.Check(built.Program, built.Command); err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../../config.json")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(filepath.Join(build, "helmdeck-repos"))
	if err != nil {
		t.Fatal(err)
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

// TestEngineInstalls does what a user does on an engine that has never seen the checkout: it installs the plugin from a
// registry, starts a container with a checkout, and asks the operator's command for the clone. With -release all comes
// from that release, otherwise from build/. Control: a tag that nobody pushed is refused.
func TestEngineInstalls(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	dir, err := os.MkdirTemp("/var/tmp", "release-engine-")
	if err != nil {
		t.Fatal(err)
	}
	engine, err := dockerd.New(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	docker := func(args ...string) string {
		t.Helper()
		out, err := engine.Try(args...)
		if err != nil {
			t.Fatal(out, err)
		}
		return out
	}
	repository, command := pushed, build+"/docker-repos"
	if *release != "" {
		repository, command = published, unpack(t)
	}
	from := repository(t)
	docker("plugin", "install", "--grant-all-permissions", "--alias", dockerd.PluginName, from+":1.2.3", "MIN_FREE=0")
	if got, want := docker("plugin", "inspect", "--format", "{{.Enabled}} {{.Config.Description}}", dockerd.PluginName), "true Private, warm git checkouts as volumes (1.2.3)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if out, err := engine.Try("plugin", "install", "--grant-all-permissions", "--alias", "absent", from+":9.9.9"); err == nil {
		t.Errorf("a tag that does not exist was installed: %s", out)
	}

	importBox(t, engine)
	server := testgit.Remote(t, "app", gitserver.Spec{Seed: 1, Files: 20})
	out := docker("run", "--rm", "--network", "none", "--mount", "type=volume,volume-driver=helmdeck/repos,volume-opt=repo="+server.URL("app")+",dst=/w", "box",
		"cat", "/w/README.md", "/w/.git/helmdeck.json")
	if !strings.Contains(out, `"repo": "`+server.URL("app")+`"`) {
		t.Errorf("a container sees %s", out)
	}
	cmd := engine.Command("version")
	ls := exec.CommandContext(t.Context(), command, "ls", "--format", "{{.Subject}} {{.Repo}}")
	ls.Env = cmd.Environ()
	if out, err := ls.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "default "+server.URL("app") {
		t.Errorf("docker-repos ls: got %s, %v", out, err)
	}
	engine.Try("plugin", "disable", "-f", dockerd.PluginName)
}

// importBox makes the image box of busybox.
func importBox(t *testing.T, engine *dockerd.Engine) {
	t.Helper()
	script := `mkdir "$1/bin"; cp "$(command -v busybox)" "$1/bin/cat"; tar -C "$1" -cf "$1.tar" .`
	dir := t.TempDir()
	if out, err := exec.Command("bash", "-euc", script, "box", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := engine.Try("import", dir+".tar", "box"); err != nil {
		t.Fatal(out, err)
	}
	if err := os.Remove(dir + ".tar"); err != nil {
		t.Fatal(err)
	}
}

// published publishes the release, as make publish does, to a registry on loopback.
func published(t *testing.T) (repository string) {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	repository = strings.TrimPrefix(server.URL, "http://") + "/helmdeck/repos"
	if err := bundle.Publish(t.Context(), bundle.Options{Root: *release, Version: "1.2.3", Log: io.Discard}, repository, false); err != nil {
		t.Fatal(err)
	}
	return repository
}

// unpack returns the operator's command of the release.
func unpack(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(*release, "build/release/1.2.3", "docker-repos_1.2.3_linux_"+runtime.GOARCH+".tar.gz")
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("tar: %v: %s", err, out)
	}
	return filepath.Join(dir, "docker-repos")
}

// rootfsTar returns the root filesystem of this machine's architecture.
func rootfsTar(t *testing.T) string {
	t.Helper()
	return filepath.Join(build, "rootfs-"+runtime.GOARCH+".tar")
}
