package tests

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/dockerd"
	"github.com/helmdeck/repos/tests/testgit"
)

// howTo is a page whose commands TestHowTo runs, or TestTours.
type howTo struct {
	// prepare makes in dir what the page takes for granted, and returns the texts of the page that stand for
	// something in the test, with what that is.
	prepare func(t *testing.T, e *engine, server *gitserver.Server, dir string) map[string]string
	// replayed is set for a page of TestTours, which runs the commands of its console blocks. It has no prepare.
	replayed bool
	// notRun has the commands that are not run, with the reason.
	notRun map[string]string
}

// inTours is the reason of commands that are also in installTour, which TestToursInstall replays with a registry:
// with other versions, and maybe without a setting.
const inTours = "TestToursInstall replays the same commands with a registry"

const installTour = tours + "/install.md"

// inCluster is the reason of the commands of the page for Kubernetes.
const inCluster = "TestKubernetes runs the commands of the page in a cluster"

const asks = "it asks: the tests of the command answer"

var howTos = map[string]howTo{
	"README.md": {replayed: true, notRun: map[string]string{
		"docker plugin install --alias helmdeck/repos --grant-all-permissions registry.example.com/helmdeck/repos:1.2.3": inTours,
	}},
	"docs/how-to/checkpoints.md":  {replayed: true},
	"docs/how-to/first-clone.md":  {replayed: true},
	"docs/how-to/after-a-push.md": {replayed: true},
	"docs/how-to/push.md":         {replayed: true},

	"docs/how-to/use.md":           {prepare: hello},
	"docs/how-to/jenkins.md":       {prepare: hello},
	"docs/how-to/gitlab-runner.md": {prepare: gitLab},
	"docs/how-to/agents.md":        {prepare: private}, // TestAgentLoop runs the loop
	"docs/how-to/caches.md": {prepare: cached, notRun: map[string]string{
		"docker repos cache rm --path npm/_cacache https://github.com/my-org/app":             asks,
		"docker repos cache rm --uid 1000 https://github.com/my-org/app":                      asks,
		"docker exec CONTAINER tar -C /w --exclude=./.git/hdcache -cf - . | tar -xf - -C out": "the tar of the test's image has no --exclude: TestLeaveOut runs GNU tar",
	}},
	"docs/caches.md":                  {prepare: myOrg},
	"docs/how-to/warm-directories.md": {prepare: myOrg},
	"docs/how-to/prebuild.md":         {prepare: myOrg},
	"docs/how-to/remove.md":           {prepare: hello},
	"docs/how-to/private-repositories.md": {prepare: private, notRun: map[string]string{
		"docker volume create -d helmdeck/repos -o repo=https://github.com/my-org/private work": "it needs GitHub: package credential tests an app",
	}},
	"docs/how-to/install.md": {prepare: hello, notRun: map[string]string{
		"docker plugin install --alias helmdeck/repos --grant-all-permissions registry.example.com/helmdeck/repos:1.2.3 MAX_SIZE=100GiB": inTours,
		"docker plugin disable -f helmdeck/repos": inTours,
		"docker plugin upgrade --grant-all-permissions --skip-remote-check helmdeck/repos registry.example.com/helmdeck/repos:1.3.0": inTours,
		"docker plugin enable --timeout 120 helmdeck/repos":                                                                          inTours,
		"docker plugin rm helmdeck/repos":                                                                                            "TestToursInstall removes the plugin after the tour",
	}},
	"docs/how-to/kubernetes.md": {prepare: hello, notRun: map[string]string{
		"kubectl exec --namespace helmdeck-repos daemonset/repos -- docker-repos leases ls":                                                                           inCluster,
		`kubectl exec --stdin --namespace helmdeck-repos "$pod" -- docker-repos credentials put git-host --kind known-hosts --scope ssh://git.example.com <host-keys`: inCluster,
	}},
}

// TestHowTo runs the commands of docker in the how-to pages as they are written there. It is enough that they succeed.
// TestTours replays the pages that show output, and here it is checked that all of their commands are among those.
func TestHowTo(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	e, server := own(t, nil), testgit.Serve(t)
	bin := e.installCLI(t, "root")
	images := t.TempDir() // for programs of the pages' images
	for name, script := range map[string]string{
		// The image of a programming language has its package manager.
		"npm":  "#!/bin/sh\n[ \"$*\" = ci ] || [ \"$1 $2\" = 'install --prefer-offline' ] && mkdir -p node_modules/x\n",
		"bash": "#!/bin/sh\nexec sh \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(images, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	e.docker(t, "create", "--name", "node", image, "true")
	e.docker(t, "cp", images+"/.", "node:/bin")
	for _, name := range []string{"debian", "node", "my-image", "my-agent"} {
		e.docker(t, "commit", "--change", `CMD ["bash"]`, "node", name)
	}
	e.docker(t, "rm", "node")
	env := append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "DOCKER_HOST=unix://"+e.Path("sock"), "DOCKER_CONFIG="+bin)

	// It prints what the host at the page's name would answer.
	keyscan := "#!/bin/sh\necho '[git.example.com]:2222 ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIN0JGsNdOWBoHvvGm2JHdQOh9+I0h9r2G2BLYLbwVpnJ'\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh-keyscan"), []byte(keyscan), 0o755); err != nil {
		t.Fatal(err)
	}

	tour := commandsOf(t, installTour)
	pages, err := filepath.Glob("../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(pages, "../README.md", "../docs/caches.md") {
		page := strings.TrimPrefix(path, "../")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		commands := dockerCommands(string(text))
		h, listed := howTos[page]
		h.checkNotRun(t, page, commands, tour)
		switch {
		case !listed && len(commands) > 0:
			t.Errorf("no test runs %q of %s", commands[0], page)
		case listed && len(commands) == 0:
			t.Errorf("%s has no command", page)
		case h.replayed:
			for _, command := range h.unreplayed(page, commands, commandsOf(t, path)) {
				t.Error(command)
			}
		case listed:
			t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) {
				h.run(t, e, server, page, commands, env)
			})
		}
	}
}

// run runs the commands of a page.
func (h howTo) run(t *testing.T, e *engine, server *gitserver.Server, page string, commands, env []string) {
	dir := t.TempDir()
	names := h.prepare(t, e, server, dir)
	var replaced []string
	for _, shown := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) }) {
		replaced = append(replaced, shown, names[shown])
	}
	for _, command := range commands {
		if h.notRun[command] != "" {
			continue
		}
		real := strings.NewReplacer(replaced...).Replace(command)
		cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(real, " -it ", " -i ")) // the end of the input ends a shell
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		t.Logf("$ %s\n%s", command, out)
		if err != nil {
			t.Errorf("%s: %s: %v\n%s\nthe engine:\n%s", page, command, err, out, dockerd.Tail(e.Path("log"), 5, dockerd.Relevant))
		}
	}
	for _, c := range strings.Fields(e.docker(t, "ps", "--all", "--quiet")) {
		e.docker(t, "rm", "--force", c)
	}
	for _, v := range strings.Fields(e.docker(t, "volume", "ls", "--quiet")) {
		e.docker(t, "volume", "rm", v)
	}
}

// checkNotRun checks that the page has the commands that are not run, and the tour those of which the list says so.
func (h howTo) checkNotRun(t *testing.T, page string, commands, tour []string) {
	t.Helper()
	for command, reason := range h.notRun {
		if !slices.Contains(commands, command) {
			t.Errorf("%s no longer has %q", page, command)
		}
		if reason == inTours && !slices.ContainsFunc(tour, func(c string) bool { return sameInstall(command, c) }) {
			t.Errorf("%s has %q, and %s no such command", page, command, installTour)
		}
	}
}

// unreplayed says which commands of a page are neither among those that TestTours replays nor listed with a reason.
func (h howTo) unreplayed(page string, commands, replayed []string) (problems []string) {
	if !slices.ContainsFunc(sessions, func(s session) bool { return filepath.Join("docs/tours", s.page) == page }) {
		problems = append(problems, "TestTours does not replay "+page)
	}
	for _, command := range commands {
		if h.notRun[command] == "" && !slices.Contains(replayed, command) {
			problems = append(problems, fmt.Sprintf("%s: %q is in no console block, so no test runs it", page, command))
		}
	}
	return problems
}

// sameInstall reports whether a command of a page is one of the tour: with another version, or with settings after it.
func sameInstall(command, tour string) bool {
	neutral := func(s string) string { return versionTag.ReplaceAllString(s, ":VERSION") }
	return neutral(settingsAfter.ReplaceAllString(command, "")) == neutral(tour)
}

var (
	versionTag    = regexp.MustCompile(`:\d+\.\d+\.\d+\b`)
	settingsAfter = regexp.MustCompile(`( [A-Z_]+=\S+)+$`)
)

// commandsOf returns the commands that replay runs of a page, in the form of dockerCommands.
func commandsOf(t *testing.T, path string) (commands []string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := readSteps(string(page))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, s := range steps {
		commands = append(commands, oneLine(s.command))
	}
	return commands
}

// oneLine returns a command in one line and without a comment.
func oneLine(command string) string {
	return strings.TrimSpace(comment.ReplaceAllString(strings.ReplaceAll(command, "\\\n", ""), ""))
}

// TestHowToFindsWhatIsNotRun checks the checks of TestHowTo.
func TestHowToFindsWhatIsNotRun(t *testing.T) {
	const page = "docs/how-to/push.md"
	text := "```console\n$ docker repos ls \\\n  --all # a\n```\n  ```sh\n  docker repos df # b\n  ```\n"
	commands := dockerCommands(text)
	if want := []string{"docker repos ls   --all", "docker repos df"}; !slices.Equal(commands, want) {
		t.Errorf("the commands are %q, want %q", commands, want)
	}
	replayed := []string{oneLine("docker repos ls \\\n  --all # a")}
	if got := (howTo{}).unreplayed(page, commands, replayed); len(got) != 1 || !strings.Contains(got[0], "docker repos df") {
		t.Errorf("found %q", got)
	}
	if got := (howTo{notRun: map[string]string{"docker repos df": "a"}}).unreplayed(page, commands, replayed); len(got) > 0 {
		t.Errorf("with a reason: found %q", got)
	}
	if got := (howTo{}).unreplayed("docs/limits.md", nil, nil); len(got) != 1 {
		t.Errorf("a page that is not replayed: found %q", got)
	}
	for command, want := range map[string]bool{"x a:1.2.3 A_B=1 C=2": true, "x a:1.2.3": true, "x --force a:1.2.3": false, "x a": false} {
		if got := sameInstall(command, "x a:1.0.0"); got != want {
			t.Errorf("%q: %t", command, got)
		}
	}
}

var (
	// quoted matches a block that is a part of a file of examples/, each of which has a test of its own.
	quoted = regexp.MustCompile("(?m)^<!-- from .*\n```.*\n(?:.*\n)*?```$")
	// block matches the other blocks with commands.
	block = regexp.MustCompile("(?m)^ *```(sh|console)\n((?:.*\n)*?) *```$")
	// comment matches a comment after a command, or alone.
	comment = regexp.MustCompile(`(^|\s+)# .*$`)
	// ofDocker matches what TestHowTo runs.
	ofDocker = regexp.MustCompile(`\bdocker (repos|volume|run|plugin|exec|cp|rm)\b|-- docker-repos\b`)
)

// dockerCommands returns the commands of docker, without comments, in the blocks of a page.
func dockerCommands(page string) (commands []string) {
	for _, b := range block.FindAllStringSubmatch(quoted.ReplaceAllString(page, ""), -1) {
		for _, line := range strings.Split(strings.ReplaceAll(b[2], "\\\n", ""), "\n") {
			command, prompt := strings.CutPrefix(line, "$ ")
			if b[1] == "console" && !prompt {
				continue
			}
			if command = oneLine(command); ofDocker.MatchString(command) {
				commands = append(commands, command)
			}
		}
	}
	return commands
}

// hello makes the repository that most pages use.
func hello(t *testing.T, _ *engine, server *gitserver.Server, _ string) map[string]string {
	generateOnce(t, server, "octocat/Hello-World")
	return map[string]string{"https://github.com/octocat": server.URL("octocat"), "ref=master": "ref=main"}
}

// gitLab makes the repository of a project.
func gitLab(t *testing.T, _ *engine, server *gitserver.Server, _ string) map[string]string {
	generateOnce(t, server, "group/app")
	return map[string]string{"https://gitlab.example.com/group": server.URL("group")}
}

// myOrg makes the repository of an organization.
func myOrg(t *testing.T, _ *engine, server *gitserver.Server, _ string) map[string]string {
	generateOnce(t, server, "my-org/app")
	return map[string]string{"https://github.com/my-org": server.URL("my-org")}
}

// cached makes volumes of that repository that have a cache, with a container that runs for long. The page makes "app"
// again.
func cached(t *testing.T, e *engine, server *gitserver.Server, dir string) map[string]string {
	names := myOrg(t, e, server, dir)
	e.docker(t, "run", "--rm", "--mount", mount("", "repo="+server.URL("my-org/app"), "subject=team-a"), image, "true")
	e.docker(t, "run", "--detach", "--name", "dev", "--mount", mount("workspace", "repo="+server.URL("my-org/app")), image, "sleep", "infinity")
	e.create(t, "app", "repo="+server.URL("my-org/app"))
	if err := os.Mkdir(filepath.Join(dir, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	names["CONTAINER"] = "dev"
	return names
}

// generateOnce makes a repository, unless an earlier page has made it.
func generateOnce(t *testing.T, server *gitserver.Server, name string) {
	t.Helper()
	if _, err := os.Stat(server.Path(name)); err == nil {
		return
	}
	if err := os.MkdirAll(filepath.Dir(server.Path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	testgit.Generate(t, server, name, gitserver.Spec{Seed: 5, Files: 20, Commits: 2, Changes: 2})
}

// private makes the repository and the files with secrets.
func private(t *testing.T, e *engine, server *gitserver.Server, dir string) map[string]string {
	names := myOrg(t, e, server, dir)
	names["--app-id 12345 --scope https://github.com/my-org"] = "--app-id 12345 --scope https://github.com/my-org" // only https has a default API
	names["docker run --rm -v app:/w"] = "docker run --rm --network host -v app:/w"                                // the remote is on loopback
	for _, name := range []string{"deploy_key", "my-app.private-key.pem"} {
		args := []string{"-q", "-N", "", "-f", filepath.Join(dir, name)}
		if name != "deploy_key" {
			args = append(args, "-t", "rsa", "-b", "2048", "-m", "PEM")
		}
		if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v\n%s", err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return names
}
