package tests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// prebuild returns the command that prebuilds a subject's warm directory deps.
func (e *engine) prebuild(t *testing.T, url string, args ...string) *exec.Cmd {
	t.Helper()
	args = append([]string{"prebuild", "--network", "host", "--image", image, "--opt", "warm=deps", "--opt", "subject=" + subject(t), "--opt", "ref=main"}, args...)
	return e.repos(t, append(args, url)...)
}

// prebuilt runs a prebuild, and returns what it did.
func (e *engine) prebuilt(t *testing.T, url string, args ...string) string {
	t.Helper()
	cmd := e.prebuild(t, url, append(args, "--format", "{{.Did}}")...)
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, &diagnostics)
	}
	return strings.TrimSpace(string(out))
}

// wantNoPrebuild fails the test if a prebuild of its subject has left something.
func (e *engine) wantNoPrebuild(t *testing.T) {
	t.Helper()
	f := api.Filter{Subject: subject(t)}
	volumes, err := e.admin(t).Volumes(t.Context(), f)
	if err != nil || len(volumes) > 0 {
		t.Errorf("volumes are left: %v, %v", volumes, err)
	}
	leases, err := e.admin(t).Leases(t.Context(), f)
	if err != nil || len(leases) > 0 {
		t.Errorf("leases are left: %v, %v", leases, err)
	}
}

// The setup command runs for the first commit, the update command for the next, and the setup command again when the
// content of warm_files is another one. Containers find what the last command has left.
func TestPrebuild(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	r.commit(t, "main", gitserver.Change{Path: "lock", Content: "1"})
	m := mount("", "repo="+r.url, "subject="+subject(t), "ref=main", "warm=deps", "warm_files=lock", "publish=never")
	args := []string{"--opt", "warm_files=lock", "--setup", "mkdir -p deps; echo setup $(cat lock) >deps/log; echo x >untracked", "--update", "echo update >>deps/log"}
	for _, step := range []struct{ what, path, content, did, log string }{
		{"the first", "", "", "setup", "setup 1"},
		{"the second", "", "", "nothing", "setup 1"},
		{"after a push", "file", "1", "update", "setup 1\nupdate"},
		{"after a push of the lock file", "lock", "2", "setup", "setup 2"},
		{"after that", "", "", "nothing", "setup 2"},
		{"with the lock file of before", "lock", "1", "update", "setup 1\nupdate\nupdate"},
	} {
		if step.path != "" {
			r.commit(t, "main", gitserver.Change{Path: step.path, Content: step.content})
		}
		if did := e.prebuilt(t, r.url, args...); did != step.did {
			t.Errorf("%s: did %s, want %s", step.what, did, step.did)
		}
		if got := e.sh(t, m, "cat deps/log"); got != step.log {
			t.Errorf("%s: got %q, want %q", step.what, got, step.log)
		}
		e.awaitReclaimed(t, subject(t))
	}
	e.wantNoPrebuild(t)
}

// Two prebuilds of one state at a time both succeed, and leave the state of one of them.
func TestPrebuildTogether(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			out, err := e.prebuild(t, r.url, "--setup", "mkdir -p deps; echo 1 >deps/x").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	all.Wait()
	if got := e.sh(t, mount("", "repo="+r.url, "subject="+subject(t), "ref=main", "warm=deps", "publish=never"), "cat deps/x"); got != "1" {
		t.Errorf("got %q", got)
	}
	e.wantNoPrebuild(t)
}

// A signal ends the container, and nothing is left of it. What a killed prebuild has left, the next one removes.
func TestPrebuildKilled(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	begin := func(kill syscall.Signal) error {
		cmd := e.prebuild(t, r.url, "--setup", "echo started; exec sleep 1000 # "+subject(t))
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		for b := make([]byte, 1000); !strings.Contains(said.String(), "started\n"); {
			n, err := out.Read(b)
			said.Write(b[:n])
			if err != nil {
				t.Fatalf("%v\n%s", err, &said)
			}
		}
		cmd.Process.Signal(kill)
		said.ReadFrom(out)
		return cmd.Wait()
	}
	var ended *exec.ExitError
	if err := begin(syscall.SIGTERM); !errors.As(err, &ended) || ended.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("got %v", err)
	}
	e.wantNoPrebuild(t)

	begin(syscall.SIGKILL)
	volumes, err := e.admin(t).Volumes(t.Context(), api.Filter{Subject: subject(t)})
	if err != nil || len(volumes) != 1 {
		t.Fatalf("got %v, %v", volumes, err)
	}
	name := volumes[0].Name
	e.docker(t, "kill", name)
	wait.For(t, "the container to end", func() error { // a prebuild of another test may remove it then
		if out := e.docker(t, "ps", "--quiet", "--filter", "name="+name); out != "" {
			return fmt.Errorf("%s runs", out)
		}
		return nil
	})
	if did := e.prebuilt(t, r.url, "--setup", "mkdir -p deps; echo 1 >deps/x"); did != "setup" {
		t.Errorf("did %s", did)
	}
	e.wantNoPrebuild(t)
	if out := e.docker(t, "ps", "--all", "--quiet", "--filter", "name="+name); out != "" {
		t.Errorf("the container %s is left", name)
	}
}

// A file prebuilds several repositories, one of them as its dev container says. The exit code is that of the first that
// fails.
func TestPrebuildFile(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	r.commit(t, "feature/x", gitserver.Change{Path: ".devcontainer/devcontainer.json", Content: fmt.Sprintf(`{
		// with a comment
		"image": %q, "onCreateCommand": {"b": "echo b >deps/log", "a": ["mkdir", "-p", "deps"]}, "updateContentCommand": "echo content >>deps/log",
	}`, image)})
	file := filepath.Join(t.TempDir(), "prebuild.yaml")
	entry := func(ref, more string) string {
		return fmt.Sprintf("- {repo: %q, network: host, options: {warm: deps, subject: %q, ref: %s}, %s}\n", r.url, subject(t), ref, more)
	}
	text := "repositories:\n" + entry("main", fmt.Sprintf("image: %s, setup: mkdir -p deps; echo main >deps/log", image)) +
		entry("release-1.0", fmt.Sprintf("image: %s, setup: echo broken; exit 7", image)) + entry("feature/x", "devcontainer: true")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func() (out, diagnostics string, code int) {
		t.Helper()
		cmd := e.repos(t, "prebuild", "--file", file, "--parallel", "2", "--format", "{{.State}} {{.Ref}} {{.Did}}")
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
		slices.Sort(lines)
		return strings.Join(lines, "\n"), stderr.String(), cmd.ProcessState.ExitCode()
	}
	out, diagnostics, code := run()
	if want := "failed release-1.0 setup\nready feature/x setup\nready main setup"; out != want || code != 7 || !strings.Contains(diagnostics, r.url+" | broken\n") {
		t.Errorf("got %q, exit code %d, want %q\n%s", out, code, want, diagnostics)
	}
	if out, diagnostics, _ := run(); out != "failed release-1.0 setup\nready feature/x nothing\nready main nothing" {
		t.Errorf("the second time: %q\n%s", out, diagnostics)
	}
	for ref, want := range map[string]string{"main": "main", "feature/x": "b\ncontent"} {
		if got := e.sh(t, mount("", "repo="+r.url, "subject="+subject(t), "ref="+ref, "warm=deps", "publish=never"), "cat deps/log"); got != want {
			t.Errorf("%s: got %q, want %q", ref, got, want)
		}
	}
	e.awaitReclaimed(t, subject(t))
	e.wantNoPrebuild(t)
	if out := e.docker(t, "images", "--quiet", "--filter", "label=com.helmdeck.repos.prebuild"); out != "" {
		t.Errorf("images are left: %q", out)
	}
}

// repos returns docker-repos for the engine.
func (e *engine) repos(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "../build/docker-repos", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST=unix://"+e.Path("sock"))
	return cmd
}

// exampleFile writes examples/prebuild/prebuild.yaml with the test's repository, image and commands, and returns its path.
func exampleFile(t *testing.T, r remote) string {
	t.Helper()
	text := strings.NewReplacer(
		"https://github.com/my-org/app", r.url, "https://github.com/my-org/tool", r.url,
		"image: node", "image: "+image, "setup: npm ci", "setup: mkdir -p node_modules; cp .git/helmdeck.json node_modules/made",
		"    options:", "    network: host\n    options:", "ref: main", "ref: main\n      subject: "+subject(t),
	).Replace(readExample(t, "../examples/prebuild/prebuild.yaml"))
	file := filepath.Join(t.TempDir(), "prebuild.yaml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// devcontainer is a file with which the second repository of the example is prebuilt.
func devcontainer() gitserver.Change {
	return gitserver.Change{Path: ".devcontainer.json", Content: fmt.Sprintf(`{"image": %q, "updateContentCommand": "mkdir -p .venv; cp .git/helmdeck.json .venv/made"}`, image)}
}

// The unit of systemd keeps the repositories of examples/prebuild/prebuild.yaml ready: at once, after a push that the
// plugin was told of, and until SIGTERM, which leaves nothing.
func TestPrebuildService(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	r.commit(t, "main", devcontainer(), gitserver.Change{Path: "package-lock.json", Content: "1"})
	line := strings.TrimPrefix(lineOf(t, "../examples/prebuild/prebuild.service", "ExecStart="), "ExecStart=")
	words := strings.Fields(strings.NewReplacer("/etc/prebuild.yaml", exampleFile(t, r), "127.0.0.1:9465", "127.0.0.1:0").Replace(line))
	if words[0] != "/usr/libexec/docker/cli-plugins/docker-repos" {
		t.Fatalf("the unit runs %q", words)
	}
	cmd := e.repos(t, append(words[1:], "--interval", "1h")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	await := func(what string, want ...string) {
		t.Helper()
		for len(want) > 0 {
			if !said.Scan() {
				t.Fatalf("%s: the command ended: %v\n%s", what, cmd.Wait(), &diagnostics)
			}
			t.Log(said.Text())
			if strings.Contains(said.Text(), " failed: ") {
				t.Fatalf("%s: %s\n%s", what, said.Text(), &diagnostics)
			}
			want = slices.DeleteFunc(want, func(w string) bool { return strings.HasPrefix(said.Text(), r.url+" "+w) })
		}
	}
	first := r.tip(t, "main")[:12]
	await("at first", "ready: "+first) // both have this line
	await("at first", "ready: "+first)
	pushed := r.commit(t, "main", gitserver.Change{Path: "package-lock.json", Content: "2"})[:12]
	if out, err := e.repos(t, "refresh", r.url).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	await("after a push", "old: running the setup command at "+pushed)
	await("after a push", "ready: "+pushed)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
		t.Log(said.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, &diagnostics)
	}
	e.wantNoPrebuild(t)
}

// The compose file keeps repositories ready through the engine's socket alone, and serves metrics.
func TestPrebuildCompose(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	r.commit(t, "main", devcontainer())
	program, err := filepath.Abs("../build/docker-repos")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(exampleFile(t, r))
	text := strings.NewReplacer(
		"image: debian", "image: "+image+"\n    network_mode: host", "/usr/libexec/docker/cli-plugins/docker-repos:", program+":", // the engine has no network
		"/var/run/docker.sock:", e.Path("sock")+":", "    ports:\n      - \"127.0.0.1:9465:9465\"\n", "", ":9465", "127.0.0.1:0",
	).Replace(readExample(t, "../examples/prebuild/compose.yaml"))
	if err := os.WriteFile(filepath.Join(dir, "compose.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	compose := func(args ...string) {
		t.Helper()
		cmd := exec.Command("docker-compose", append([]string{"--project-name", strings.ReplaceAll(subject(t), "-", ""), "--file", filepath.Join(dir, "compose.yaml")}, args...)...)
		cmd.Env = e.Command().Env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("docker-compose %q: %v\n%s", args, err, out)
		}
	}
	t.Cleanup(func() { compose("down", "--timeout", "60") })
	compose("up", "--detach")
	for path, options := range map[string][]string{"node_modules": {"warm_files=package-lock.json"}, ".venv": nil} {
		m := mount("", append(options, "repo="+r.url, "subject="+subject(t), "ref=main", "warm="+path, "publish=never")...)
		wait.For(t, "a prebuilt "+path, func() error {
			_, err := e.Try(shArgs(m, "test -e "+path+"/made")...)
			return err
		})
	}
	compose("stop", "--timeout", "60")
	e.awaitReclaimed(t, subject(t))
	e.wantNoPrebuild(t)
}

// A watch of a user who reaches the plugin through a relay goes on when the plugin is back, and a command goes on and
// succeeds while the plugin restarts.
func TestPrebuildAfterRestart(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, r := own(t, nil), newRemote(t)
	gate := gitserver.NewGate()
	server := httptest.NewServer(gate.Fault(http.NotFoundHandler()))
	defer server.Close()
	file := e.Path("prebuild.yaml") // where the user can read it
	text := fmt.Sprintf("repositories: [{repo: %q, network: host, image: %s, options: {warm: deps, ref: main}, setup: %q}]",
		r.url, image, "wget -q "+server.URL+"; mkdir -p deps; echo 1 >deps/x")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := e.reposAs(t, "unix://"+e.Path("sock"), e.group(t),
		"prebuild", "--file", file, "--watch", "--interval", "1s", "--format", "{{.State}} {{.Commit}}")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var diagnostics bytes.Buffer
	cmd.Stderr = &diagnostics
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	await := func(want string) {
		t.Helper()
		for said.Scan() {
			if t.Log(said.Text()); strings.HasPrefix(said.Text(), want) {
				return
			}
		}
		t.Fatalf("the command ended before %q: %v\n%s", want, cmd.Wait(), &diagnostics)
	}
	await("old " + r.head)
	<-gate.Arrived
	e.disable(t)
	e.enable(t)
	close(gate.Open)
	if said.Scan(); said.Text() != "ready "+r.head {
		t.Errorf("a command during the restart: %s", said.Text())
	}
	e.disable(t)
	await("failed")
	e.enable(t)
	await("ready " + r.head)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for said.Scan() {
		t.Log(said.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGINT: %v\n%s", err, &diagnostics)
	}
	e.wantNoRelay(t)
}
