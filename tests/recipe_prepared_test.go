package tests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// preparation is a way to install a repository's dependencies in advance, with programs of this machine.
type preparation struct {
	options []string // of the volume
	flags   []string // of each container
	online  []string // flags of the one that prepares
	// setup installs, and use prints prepared in a container that finds all in place, and else anything else.
	setup, use, prepared string
}

// run runs a script in a container, and waits until what it left is published.
func (p preparation) run(t *testing.T, r remote, publish string, flags []string, script string) (string, error) {
	t.Helper()
	e := shared(t)
	m := mount("", append([]string{"repo=" + r.url, "subject=" + subject(t), "refresh=always", "publish=" + publish}, p.options...)...)
	args := append([]string{"run", "--rm", "--mount", m}, p.flags...)
	args = append(append(args, flags...), machine, "sh", "-euc", inCheckout("HDCACHE=/w/.git/hdcache . /w/.git/hdcache/env\n"+script))
	out, err := e.Try(args...)
	e.awaitPublished(t, subject(t))
	return out, err
}

// prepare runs the setup with the mark.
func (p preparation) prepare(t *testing.T, r remote) {
	t.Helper()
	if _, err := p.run(t, r, "marked", p.online, p.setup+"\n"+mark); err != nil {
		t.Fatal(err)
	}
}

// find checks whether a container without a network, which changes nothing for others, finds all in place.
func (p preparation) find(t *testing.T, r remote, what string, want bool) {
	t.Helper()
	out, err := p.run(t, r, "never", []string{"--network", "none"}, "{ "+p.use+"\n} 2>&1; rm -rf node_modules .venv target .git/hdcache/*; "+mark)
	if got := err == nil && out == p.prepared; got != want {
		t.Errorf("%s: prepared: %v, want %v\n%s, %v", what, got, want, out, err)
	}
}

// test checks that containers find what a setup has installed, once it succeeded.
func (p preparation) test(t *testing.T, r remote) {
	t.Helper()
	if _, err := p.run(t, r, "marked", p.online, p.setup+"\nexit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("a setup that fails at its end: %v", err)
	}
	p.find(t, r, "after a setup that failed", false)
	p.prepare(t, r)
	p.find(t, r, "the first", true)
	p.find(t, r, "the second", true)
	if _, err := p.run(t, r, "marked", p.online, "rm -rf node_modules .venv target; false; "+mark); err == nil {
		t.Error("false succeeds")
	}
	p.find(t, r, "after another setup that failed", true)
}

// npm installs a package of the repository, as a link, and one of an archive in it. Each lock file has a state of its own.
func TestRecipePreparedNpm(t *testing.T) {
	t.Parallel()
	needProgram(t, "npm", "npm")
	r := newRemote(t)
	push := func(version string) {
		t.Helper()
		const needs = `"dependencies": {"greet": "file:packages/greet", "leaf": "file:vendor/leaf.tgz"}`
		r.commit(t, "main",
			gitserver.Change{Path: "packages/greet/package.json", Content: `{"name": "greet", "version": "1.0.0"}`},
			gitserver.Change{Path: "packages/greet/index.js", Content: "module.exports = 'hello'\n"},
			gitserver.Change{Path: "vendor/leaf.tgz", Content: string(npmPackage(t, "leaf", version))},
			gitserver.Change{Path: "package.json", Content: `{"name": "app", "version": "1.0.0", ` + needs + `}`},
			gitserver.Change{Path: "package-lock.json", Content: fmt.Sprintf(`{"name": "app", "version": "1.0.0", "lockfileVersion": 3, "requires": true, "packages": {
"": {"name": "app", "version": "1.0.0", %s}, "node_modules/greet": {"resolved": "packages/greet", "link": true},
"node_modules/leaf": {"version": %q, "resolved": "file:vendor/leaf.tgz"}, "packages/greet": {"version": "1.0.0"}}}`, needs, version)})
	}
	push("1.0.0")
	p := preparation{
		options: []string{"warm=node_modules", "warm_files=package-lock.json"},
		flags:   append(shared(t).machineFlags(t), "--env", "npm_config_update_notifier=false"),
		online:  []string{"--network", "none"},
		setup:   "npm ci --offline --no-audit --no-fund",
		use:     `npm ls --parseable >/dev/null; node -e 'console.log(require("greet") + ", " + require("leaf"))'`,
	}
	p.prepared = "hello, hello from 1.0.0"
	p.test(t, r)
	push("1.1.0")
	p.find(t, r, "after a change of the lock file, the newest of the branch", true)
	p.prepared = "hello, hello from 1.1.0"
	p.prepare(t, r)
	p.find(t, r, "with the new lock file", true)
	push("1.0.0")
	p.prepared = "hello, hello from 1.0.0"
	p.find(t, r, "with the old lock file again", true)
}

// pip installs a package of the repository, which a build backend of the repository builds, into a virtual environment.
func TestRecipePreparedPip(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(needProgram(t, "python3", "python3-venv"), "-c", "import sys, ensurepip; print(sys.base_prefix)").Output()
	if err != nil {
		t.Fatalf("%v: this test makes a virtual environment (Debian: python3-venv)", err)
	}
	root := strings.TrimSpace(string(out))
	r := newRemote(t)
	r.commit(t, "main",
		gitserver.Change{Path: "requirements.txt", Content: "./packages/greet\n"},
		gitserver.Change{Path: "packages/greet/pyproject.toml", Content: "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"},
		gitserver.Change{Path: "packages/greet/backend.py", Content: `import zipfile

def build_wheel(directory, settings=None, metadata=None):
    name, info = 'greet-1.0-py3-none-any.whl', 'greet-1.0.dist-info/'
    with zipfile.ZipFile(directory + '/' + name, 'w') as z:
        z.writestr('greet.py', 'def hello(): return "hello"\n')
        z.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: greet\nVersion: 1.0\n')
        z.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
        z.writestr(info + 'RECORD', '')
    return name
`})
	preparation{
		options:  []string{"warm=.venv", "warm_files=requirements.txt"},
		flags:    append(shared(t).machineFlags(t, filepath.Join(root, "bin")), append(beside(root), "--env", "PIP_DISABLE_PIP_VERSION_CHECK=1")...),
		online:   []string{"--network", "none"},
		setup:    "python3 -m venv .venv; .venv/bin/pip install --no-index -r requirements.txt",
		use:      `.venv/bin/pip check; .venv/bin/python -c 'import greet; print(greet.hello(), greet.__file__.startswith("/w/.venv/"))'`,
		prepared: "No broken requirements found.\nhello True",
	}.test(t, r)
}

// Cargo compiles a crate of the repository, which is not compiled again.
func TestRecipePreparedCargo(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	flags := e.cargoFlags(t)
	r.commit(t, "main", crates...)
	preparation{
		options:  []string{"warm=target", "warm_files=Cargo.lock"},
		flags:    flags,
		online:   []string{"--network", "none"},
		setup:    "cargo build --locked --offline",
		use:      "cargo build --locked --offline >/tmp/out 2>&1; ! grep Compiling /tmp/out; target/debug/app",
		prepared: "hello",
	}.test(t, r)
}

// Go downloads a module from a proxy, and compiles. What is in its caches is not downloaded again, and a test that has
// passed is not run again.
func TestRecipePreparedGo(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	proxy, _ := moduleProxy(t)
	r.commit(t, "main", greeting...)
	preparation{
		flags:    e.goFlags(t, proxy),
		online:   []string{"--network", "host"},
		setup:    "go test ./...",
		use:      "go test ./... | grep -o '(cached)'",
		prepared: "(cached)",
	}.test(t, r)
}

// beside returns the docker flags that mount a tool's directory at the same path, if machineFlags does not.
func beside(root string) []string {
	if root == "/usr" {
		return nil
	}
	return []string{"--volume", root + ":" + root + ":ro"}
}
