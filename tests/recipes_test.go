package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// readExample returns the content of an example.
func readExample(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// runner is a self-hosted runner of GitHub Actions, as far as its hooks and the job's container see it.
type runner struct {
	*engine
	name string
	env  []string
}

// hook runs a hook as the runner does, and returns its output.
func (r runner) hook(script string, env ...string) (string, error) {
	cmd := exec.Command("bash", script)
	cmd.Env = append(r.Command().Env, append(append(r.env, "RUNNER_NAME="+r.name), env...)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

const started, completed = "../examples/github-actions/job-started.sh", "../examples/github-actions/job-completed.sh"

// The hooks make the volume that the workflow's container names, for the commit of a pull request, and remove it when
// the last job of the run has ended.
func TestActionsHooks(t *testing.T) {
	t.Parallel()
	e, remote := shared(t), testgit.Serve(t)
	const repository = "octocat/my.app"
	if err := os.MkdirAll(filepath.Dir(remote.Path(repository)), 0o755); err != nil {
		t.Fatal(err)
	}
	head := testgit.Generate(t, remote, repository, gitserver.Spec{Seed: 1, Files: 20, Commits: 2, Changes: 2})
	merge, err := gitserver.Commit(remote.Path(repository), "refs/pull/7/merge", gitserver.Change{Path: "pull", Content: "pull\n"})
	if err != nil {
		t.Fatal(err)
	}
	server := strings.TrimSuffix(remote.URL(""), "/")
	env := []string{
		"GITHUB_SERVER_URL=" + server, "GITHUB_REPOSITORY=" + repository, "GITHUB_SHA=" + merge, "GITHUB_RUN_ID=1658821493",
		"GITHUB_RUN_ATTEMPT=1", "GITHUB_EVENT_NAME=pull_request", "GITHUB_REF=refs/pull/7/merge", "GITHUB_JOB=test",
		"RUNNER_TEMP=" + t.TempDir(), `GITHUB_HEAD_REF=$(touch /tmp/evil);"`, "GITHUB_ACTOR=octocat",
	}
	first, second := runner{e, "runner one; $(x) \"1\"", env}, runner{e, "runner two", env}
	var workflow struct {
		Jobs map[string]struct{ Container struct{ Volumes []string } }
	}
	if err := yaml.Unmarshal([]byte(readExample(t, "../examples/github-actions/workflow.yaml")), &workflow); err != nil {
		t.Fatal(err)
	}
	volumes := workflow.Jobs["test"].Container.Volumes
	if len(volumes) != 1 {
		t.Fatalf("the workflow has the volumes %q", volumes)
	}
	// The runner evaluates the expressions, and gives the result to docker create --volume.
	bind := strings.NewReplacer("${{ github.run_id }}", "1658821493", "${{ github.run_attempt }}", "1").Replace(volumes[0])
	name, _, _ := strings.Cut(bind, ":")
	ok := func(out string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	ok(first.hook(started))
	ok(first.hook(started)) // its job ended without the other hook
	ok(second.hook(started))
	job := e.docker(t, "create", "--network", "host", "--volume", bind, image, "sh", "-euc",
		"cd /w; git rev-parse HEAD; cat pull; ls -d .git/hdcache/npm; touch .git/hdcache/npm/x")
	out := e.docker(t, "start", "--attach", job)
	if !strings.HasPrefix(out, merge+"\npull\n.git/hdcache/npm") {
		t.Errorf("the job's container: %s", out)
	}
	e.docker(t, "rm", "--force", job)
	if got := e.status(t, name)["subject"]; got != "github/"+repository {
		t.Errorf("subject %q", got)
	}
	// The volume stays for the other runner's job.
	ok(first.hook(completed))
	if got := e.volumes(t); !slices.Contains(got, name) {
		t.Errorf("the first completed job removed the volume; %q are left", got)
	}
	ok(second.hook(completed))
	if got := e.volumes(t); slices.Contains(got, name) {
		t.Errorf("the last completed job left the volume: %q", got)
	}
	ok(second.hook(completed)) // as after a job-started.sh that failed
	if got := e.docker(t, "ps", "--all", "--quiet", "--filter", "name=repos-holder"); got != "" {
		t.Errorf("containers are left: %s", got)
	}

	// Values of another form are refused, and nothing is made.
	for _, bad := range []string{
		"GITHUB_REPOSITORY=a/b,volume-opt=subject=other", "GITHUB_REPOSITORY=a/b\nx", "GITHUB_SHA=main", "GITHUB_SHA=" + merge + "\n", "GITHUB_RUN_ID=1 2",
		"GITHUB_SERVER_URL=https://user:pw@example.com", "GITHUB_SERVER_URL=file:///etc", "GITHUB_RUN_ATTEMPT=", "RUNNER_NAME=",
	} {
		if out, err := first.hook(started, bad); err == nil || !strings.Contains(out, "is not of the form") {
			t.Errorf("%q: %v %s", bad, err, out)
		}
	}
	if got := e.docker(t, "ps", "--all", "--quiet", "--filter", "name=repos-holder"); got != "" {
		t.Errorf("containers are left: %s", got)
	}
	// A job of a push may write the caches.
	ok(first.hook(started, "GITHUB_EVENT_NAME=push", "GITHUB_SHA="+head))
	e.docker(t, "run", "--rm", "--network", "host", "--volume", bind, image, "touch", "/w/.git/hdcache/npm/x")
	ok(first.hook(completed))
}

// GitLab's runner gives "volumes" to the engine as binds, for the container that fetches and the job's own. The
// volume is made as the file's comment says, and the job's script finds the pipeline's commit.
func TestGitLabRunner(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	text := readExample(t, "../examples/gitlab/config.toml")
	var config struct {
		Runners []struct {
			Executor    string
			Environment []string
			Docker      struct {
				Image        string
				Volumes      []string
				VolumeDriver string `toml:"volume_driver"`
			}
		}
	}
	if err := toml.Unmarshal([]byte(text), &config); err != nil || len(config.Runners) != 1 {
		t.Fatalf("%v: %+v", err, config)
	}
	c := config.Runners[0]
	bind := regexp.MustCompile(`^([^\\/:*?"<>|\r\n]+):(/w)$`) // the runner's own form of a volume with a name
	i := slices.IndexFunc(c.Docker.Volumes, bind.MatchString)
	if c.Executor != "docker" || i < 0 || !slices.Equal(c.Environment, []string{"GIT_STRATEGY=none"}) || c.Docker.VolumeDriver != "" {
		t.Fatalf("%+v", c)
	}
	name := subject(t)
	_, create, ok := strings.Cut(text, "#   docker volume create ")
	create, _, last := strings.Cut(create, "repos-app\n")
	if !ok || !last || !strings.HasPrefix(c.Docker.Volumes[i], "repos-app:") {
		t.Fatal("the comment does not make the volume that the runner mounts")
	}
	create = strings.ReplaceAll(strings.ReplaceAll(create, "\\\n#", ""), "https://gitlab.example.com/group/app", r.url)
	create = strings.ReplaceAll(create, "gitlab/group/app", subject(t))
	e.shell(t, "docker volume create "+create+name)
	t.Cleanup(func() { e.Try("volume", "rm", "--force", name) })
	volume := strings.Replace(c.Docker.Volumes[i], "repos-app", name, 1)

	var ci struct {
		Default struct {
			BeforeScript []string `yaml:"before_script"`
		}
	}
	if err := yaml.Unmarshal([]byte(readExample(t, "../examples/gitlab/gitlab-ci.yml")), &ci); err != nil || len(ci.Default.BeforeScript) != 1 {
		t.Fatalf("%v: %+v", err, ci)
	}
	script := ci.Default.BeforeScript[0] + "\ngit rev-parse HEAD; echo $GOCACHE; git status --porcelain"
	fork := r.commit(t, "refs/merge-requests/3/head", gitserver.Change{Path: "x", Content: "x\n"})
	for _, sha := range []string{r.tip(t, "feature/x"), r.tip(t, "v1.0.0"), fork} {
		got := e.docker(t, "run", "--rm", "--network", "host", "--volume", volume, "--env", "CI_COMMIT_SHA="+sha, "--env", "CI_JOB_TOKEN=secret",
			image, "sh", "-euc", script)
		if want := sha + "\n/w/.git/hdcache/go-build"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	e.awaitReclaimed(t, subject(t))
}

// A dev container gets the value of workspaceMount as docker run --mount. Its workspace belongs to the user, and stays
// when the container is rebuilt.
func TestDevcontainer(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	text := readExample(t, "../examples/devcontainer/devcontainer.json")
	text = regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(text, "")
	var config struct {
		WorkspaceMount, WorkspaceFolder, RemoteUser string
		UpdateRemoteUserUID                         *bool
		ContainerEnv                                map[string]string
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	name := subject(t)
	mount := strings.NewReplacer("app-${localEnv:USER}", name, "https://github.com/octocat/Hello-World", r.url).Replace(config.WorkspaceMount)
	if mount == config.WorkspaceMount || strings.Contains(mount, "${") || config.UpdateRemoteUserUID == nil || *config.UpdateRemoteUserUID {
		t.Fatalf("%+v", config)
	}
	if !strings.Contains(mount, "target="+config.WorkspaceFolder+",") {
		t.Errorf("workspaceFolder %s is not where %s mounts", config.WorkspaceFolder, mount)
	}
	t.Cleanup(func() { e.Try("volume", "rm", "--force", name) })
	run := func(script string) string {
		t.Helper()
		args := []string{"run", "--rm", "--network", "host", "--mount", mount, "--workdir", config.WorkspaceFolder, "--user", "1000:1000"}
		for key, value := range config.ContainerEnv {
			args = append(args, "--env", key+"="+value)
		}
		return e.docker(t, append(args, image, "sh", "-euc", script)...)
	}
	if got := run(`git commit -q --allow-empty -m mine; echo draft >draft; touch "$GOMODCACHE/x" "$npm_config_cache/x"; git status --porcelain`); got != "?? draft" {
		t.Errorf("status %q", got)
	}
	if got, want := run("git log -1 --format=%s; cat draft"), "mine\ndraft"; got != want {
		t.Errorf("after the container is rebuilt: got %q, want %q", got, want)
	}
}
