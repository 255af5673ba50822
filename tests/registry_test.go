package tests

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/tests/wait"
)

// registry is Debian's docker-registry on loopback, behind a proxy that can stop answering.
type registry struct {
	address string // host:port
	// stalled, if not nil, gets a value for each request for a layer. The request is not answered before its
	// client is gone.
	stalled atomic.Pointer[chan struct{}]
}

var listening = regexp.MustCompile(`listening on (127\.0\.0\.1:[0-9]+)`)

// newRegistry starts an empty registry, which ends with the test.
func newRegistry(t *testing.T) *registry {
	t.Helper()
	dir := t.TempDir()
	config, log := filepath.Join(dir, "registry.yml"), filepath.Join(dir, "log")
	text := "version: 0.1\nlog: {level: info}\nstorage: {filesystem: {rootdirectory: " + dir + "/data}}\nhttp: {addr: \"127.0.0.1:0\"}\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd := exec.Command(registryProgram(t), "serve", config)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var backend string
	wait.For(t, "the registry", func() error {
		text, err := os.ReadFile(log)
		if found := listening.FindSubmatch(text); found != nil {
			backend = string(found[1])
			return nil
		}
		return errors.Join(err, errors.New(string(bytes.TrimSpace(text))))
	})
	r := &registry{}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if stalled := r.stalled.Load(); stalled != nil && q.Method == http.MethodGet && strings.Contains(q.URL.Path, "/blobs/") {
			*stalled <- struct{}{}
			<-q.Context().Done()
			return
		}
		proxy.ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.address = strings.TrimPrefix(server.URL, "http://")
	return r
}

// registryProgram returns the path of docker-registry, of the machine or of build/tools.
func registryProgram(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		program = abs(t, "../build/tools/usr/bin/docker-registry") // make needs puts it there
	}
	return program
}

// stall makes the registry stop before the next layer that a client asks for. reached is closed when it was asked; resume ends
// it.
func (r *registry) stall() (reached <-chan struct{}, resume func()) {
	asked := make(chan struct{}, 100)
	r.stalled.Store(&asked)
	return asked, func() { r.stalled.Store(nil) }
}

// name returns the plugin's name in the registry, with a version as its tag.
func (r *registry) name(version string) string { return r.address + "/" + pluginName + ":" + version }

// publish pushes a plugin, with the version in its description, from an engine, which does not have it after that. rootfs is
// the plugin's root filesystem.
func (r *registry) publish(t *testing.T, e *engine, version, rootfs string) {
	t.Helper()
	dir := t.TempDir()
	if out, err := exec.Command("cp", "-a", rootfs, filepath.Join(dir, "rootfs")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	config, err := os.ReadFile(filepath.Join(pluginDir(), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	config = regexp.MustCompile(`\(build [0-9a-f]+\)`).ReplaceAll(config, []byte("("+version+")"))
	for name, data := range map[string][]byte{
		"config.json":    config,
		"rootfs/version": []byte(version), // so that an upgrade fetches a layer
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e.docker(t, "plugin", "create", r.name(version), dir)
	e.docker(t, "plugin", "push", r.name(version))
	e.docker(t, "plugin", "rm", r.name(version))
}
