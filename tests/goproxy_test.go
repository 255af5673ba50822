package tests

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// moduleProxy serves the module example.com/greet v1.0.0 to the Go command, and counts the
// requests.
func moduleProxy(t *testing.T) (url string, requests *atomic.Int32) {
	t.Helper()
	const mod = "module example.com/greet\n"
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for name, content := range map[string]string{
		"go.mod":   mod,
		"greet.go": "package greet\n\nfunc Hello() string { return \"hello from a module\" }\n",
	} {
		f, err := w.Create("example.com/greet@v1.0.0/" + name)
		if err != nil {
			t.Fatal(err)
		}
		f.Write([]byte(content))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{
		"/example.com/greet/@v/list":        []byte("v1.0.0\n"),
		"/example.com/greet/@v/v1.0.0.info": []byte(`{"Version":"v1.0.0"}`),
		"/example.com/greet/@v/v1.0.0.mod":  []byte(mod),
		"/example.com/greet/@v/v1.0.0.zip":  archive.Bytes(),
	}
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL, requests
}

// The second container builds a Go program without a download.
func TestGoModulesAreDownloadedOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := shared(t), newRemote(t)
	proxy, requests := moduleProxy(t)
	r.commit(t, "main",
		gitserver.Change{Path: "hello/go.mod", Content: "module example.com/hello\n\ngo 1.21\n\nrequire example.com/greet v1.0.0\n"},
		gitserver.Change{Path: "hello/main.go", Content: "package main\n\nimport \"example.com/greet\"\n\nfunc main() { println(greet.Hello()) }\n"})
	mounts, err := goMounts()
	if err != nil {
		t.Fatal(err)
	}
	flags := append(mounts,
		"--env", "GOPROXY="+proxy, "--env", "GONOSUMDB=*", "--env", "GOFLAGS=-mod=mod", "--env", "GOTOOLCHAIN=local",
		"--env", "CGO_ENABLED=0")
	m := mount("", "repo="+r.url, "ref=main", "subject="+subject(t))
	const build = `HDCACHE=/w/.git/hdcache . /w/.git/hdcache/env; git clean -fdxq; cd hello; exec "$GOROOT/bin/go" run . 2>&1`

	for i, downloads := range []bool{true, false} {
		requests.Store(0)
		e.awaitPublished(t, subject(t)) // what the last one downloaded
		got := e.sh(t, m, build, flags...)
		if !strings.Contains(got, "hello from a module") {
			t.Errorf("run %d: got %q", i, got)
		}
		if n := requests.Load(); (n > 0) != downloads {
			t.Errorf("run %d: the proxy got %d requests, want some: %v", i, n, downloads)
		}
	}
}
