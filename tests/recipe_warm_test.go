package tests

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// machine is an image whose containers have the programs of this machine, with the flags of machineFlags.
const machine = "machine"

// machineFlags imports the image, and returns the docker flags that give a container this machine's programs. dirs
// come first in PATH.
func (e *engine) machineFlags(t *testing.T, dirs ...string) []string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "image")
	script := `mkdir -p "$1/usr" "$1/etc/alternatives" "$1/tmp"; cd "$1"; chmod 1777 tmp
		for name in bin sbin lib lib32 lib64; do if [ -e "/usr/$name" ]; then ln -s "usr/$name" "$name"; fi; done
		tar -cf "$1.tar" .`
	hostScript(t, "/", script, dir)
	e.docker(t, "import", dir+".tar", machine)
	path := strings.Join(append(dirs, "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin"), ":")
	return []string{"--volume", "/usr:/usr:ro", "--volume", "/etc/alternatives:/etc/alternatives:ro", "--env", "PATH=" + path, "--env", "HOME=/tmp"}
}

// needProgram fails the test if a program is missing, and returns its path.
func needProgram(t *testing.T, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%v: this test runs a recipe with this machine's %s (Debian: %s)", err, name, debian)
	}
	return path
}

// recipe runs an example in a container of this machine's programs, with the volume options of its comment and more.
// It returns what the container prints.
func (e *engine) recipe(t *testing.T, url, script string, flags []string, options ...string) string {
	t.Helper()
	text := readExample(t, script)
	for _, m := range regexp.MustCompile(`--opt (warm\S*)`).FindAllStringSubmatch(text, -1) {
		options = append([]string{m[1]}, options...)
	}
	name := subject(t)
	e.create(t, name, append([]string{"repo=" + url, "subject=" + subject(t)}, options...)...)
	args := append([]string{"run", "--rm", "--network", "host", "--volume", name + ":/w", "--workdir", "/w"}, flags...)
	out := e.docker(t, append(args, machine, "sh", "-c", "{ "+text+"\n} 2>&1")...)
	e.docker(t, "volume", "rm", name)
	e.awaitReclaimed(t, subject(t)) // the warm directories are published, and Go's new go.sum is no checkpoint any more
	return out
}

// npmPackage returns the archive of a package that says its version.
func npmPackage(t *testing.T, name, version string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for path, content := range map[string]string{
		"package.json": fmt.Sprintf(`{"name": %q, "version": %q}`, name, version),
		"index.js":     fmt.Sprintf("module.exports = 'hello from %s'\n", version),
	} {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + path, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(content))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

// npmRegistry serves versions of the package greet, and counts the requests.
func npmRegistry(t *testing.T) (lock func(version string) []gitserver.Change, requests *atomic.Int32) {
	t.Helper()
	files := map[string][]byte{"1.0.0": npmPackage(t, "greet", "1.0.0"), "1.1.0": npmPackage(t, "greet", "1.1.0")}
	requests = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		version := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/greet/-/greet-"), ".tgz")
		if files[version] == nil {
			http.NotFound(w, r)
			return
		}
		w.Write(files[version])
	}))
	t.Cleanup(server.Close)
	return func(version string) []gitserver.Change {
		sum := sha512.Sum512(files[version])
		root := fmt.Sprintf(`"name": "app", "version": "1.0.0", "dependencies": {"greet": %q}`, version)
		return []gitserver.Change{
			{Path: "package.json", Content: `{` + root + `, "scripts": {"test": "node -e 'console.log(require(\"greet\"))'"}}`},
			{Path: "package-lock.json", Content: fmt.Sprintf(`{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
"": {%s}, "node_modules/greet": {"version": %q, "resolved": "%s/greet/-/greet-%s.tgz", "integrity": "sha512-%s"}}}`,
				root, version, server.URL, version, base64.StdEncoding.EncodeToString(sum[:]))},
		}
	}, requests
}

// The second container finds the installed packages, and downloads nothing. After a change of the lock file npm ci
// runs, with the downloads of all.
func TestRecipeNpm(t *testing.T) {
	t.Parallel()
	needProgram(t, "npm", "npm")
	e, r := shared(t), newRemote(t)
	lock, requests := npmRegistry(t)
	flags := append(e.machineFlags(t), "--env", "npm_config_update_notifier=false")
	const script = "../examples/warm/npm.sh"
	for _, step := range []struct {
		what, version      string
		push               bool
		installs, download bool
		options            []string
	}{
		{"the first container", "1.0.0", true, true, true, nil},
		{"the second", "1.0.0", false, false, false, nil},
		{"one with another key", "1.0.0", false, true, false, []string{"warm_key=node-1"}},
		{"one after a change of the lock file", "1.1.0", true, true, true, nil},
		{"the next", "1.1.0", false, false, false, nil},
	} {
		if step.push {
			r.commit(t, "main", lock(step.version)...)
		}
		requests.Store(0)
		out := e.recipe(t, r.url, script, flags, step.options...)
		if !strings.Contains(out, "hello from "+step.version) {
			t.Errorf("%s: %s", step.what, out)
		}
		if got := strings.Contains(out, "added 1 package"); got != step.installs {
			t.Errorf("%s installs: %v, want %v\n%s", step.what, got, step.installs, out)
		}
		if n := requests.Load(); (n > 0) != step.download {
			t.Errorf("%s makes %d requests, want some: %v", step.what, n, step.download)
		}
	}
}

// crates are a program and a crate that it needs.
var crates = []gitserver.Change{
	{Path: "Cargo.toml", Content: "[package]\nname = \"app\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[dependencies]\ngreet = { path = \"greet\" }\n"},
	{Path: "Cargo.lock", Content: "version = 3\n\n[[package]]\nname = \"app\"\nversion = \"0.1.0\"\ndependencies = [\n \"greet\",\n]\n\n[[package]]\nname = \"greet\"\nversion = \"0.1.0\"\n"},
	{Path: "src/main.rs", Content: "fn main() { println!(\"{}\", greet::hello()); }\n"},
	{Path: "greet/Cargo.toml", Content: "[package]\nname = \"greet\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"},
	{Path: "greet/src/lib.rs", Content: "pub fn hello() -> &'static str { \"hello\" }\n"},
}

// cargoFlags are machineFlags with this machine's Cargo.
func (e *engine) cargoFlags(t *testing.T) []string {
	t.Helper()
	needProgram(t, "gcc", "gcc")
	out, err := exec.Command(needProgram(t, "rustc", "cargo"), "--print", "sysroot").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimSpace(string(out))
	return append(e.machineFlags(t, filepath.Join(root, "bin")), beside(root)...)
}

// The second build has nothing to do. After a push only the crate that changed is compiled, and so it is after the
// branch was set back.
func TestRecipeCargo(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	flags := e.cargoFlags(t)
	first := r.commit(t, "main", crates...)
	build := func(what string, want ...string) {
		t.Helper()
		out := e.recipe(t, r.url, "../examples/warm/cargo.sh", flags)
		var got []string
		for _, m := range regexp.MustCompile(`Compiling (\w+)`).FindAllStringSubmatch(out, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || !strings.Contains(out, "Finished") {
			t.Errorf("%s compiles %q, want %q\n%s", what, got, want, out)
		}
	}
	build("the first container", "greet", "app")
	build("the second")
	r.commit(t, "main", gitserver.Change{Path: "src/main.rs", Content: "fn main() { println!(\"{}!\", greet::hello()); }\n"})
	build("one after a push", "app")
	build("the next")
	pushed := r.tip(t, "main")
	hostGit(t, r.Path(app), "update-ref", "refs/heads/main", first)
	build("one of the commit before", "app")
	build("the next")
	hostGit(t, r.Path(app), "update-ref", "refs/heads/main", pushed)
	build("one of the pushed commit again", "app")
	r.commit(t, "main", gitserver.Change{Path: "greet/src/lib.rs", Content: "pub fn hello() -> &'static str { \"HELLO\" }\n"})
	build("one with another dependency", "greet", "app")
	hostGit(t, r.Path(app), "update-ref", "refs/heads/main", first)
	build("one without both changes", "greet", "app")
}

// greeting is a test that needs the module of moduleProxy.
var greeting = []gitserver.Change{
	// The repository's generated files, which are no Go, are another module.
	{Path: "src/go.mod", Content: "module example.com/generated\n"},
	{Path: "go.mod", Content: "module example.com/hello\n\ngo 1.21\n\nrequire example.com/greet v1.0.0\n"},
	{Path: "hello_test.go", Content: "package hello\n\nimport (\n\t\"testing\"\n\n\t\"example.com/greet\"\n)\n\nfunc Test(t *testing.T) { t.Log(greet.Hello()) }\n"},
}

// goFlags are machineFlags with this machine's Go and a module proxy.
func (e *engine) goFlags(t *testing.T, proxy string) []string {
	t.Helper()
	mounts, err := goMounts()
	if err != nil {
		t.Fatal(err)
	}
	root := strings.TrimPrefix(mounts[1], "GOROOT=")
	return append(append(e.machineFlags(t, filepath.Join(root, "bin")), mounts...),
		"--env", "GOPROXY="+proxy, "--env", "GONOSUMDB=*", "--env", "GOFLAGS=-mod=mod", "--env", "GOTOOLCHAIN=local", "--env", "CGO_ENABLED=0")
}

// The second container downloads nothing and takes the test's result from the cache. So does one with publish=never.
func TestRecipeGo(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	proxy, requests := moduleProxy(t)
	r.commit(t, "main", greeting...)
	flags := e.goFlags(t, proxy)
	for _, step := range []struct {
		what             string
		download, cached bool
		options          []string
	}{
		{"the first container", true, false, nil},
		{"the second", false, true, nil},
		{"an untrusted one", false, true, []string{"publish=never"}},
	} {
		requests.Store(0)
		out := e.recipe(t, r.url, "../examples/warm/go.sh", flags, step.options...)
		if !strings.Contains(out, "ok  \texample.com/hello") || strings.Contains(out, "(cached)") != step.cached {
			t.Errorf("%s: want cached: %v\n%s", step.what, step.cached, out)
		}
		if n := requests.Load(); (n > 0) != step.download {
			t.Errorf("%s makes %d requests, want some: %v", step.what, n, step.download)
		}
	}
}
