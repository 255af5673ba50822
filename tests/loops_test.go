package tests

import (
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
)

// A step that fails is undone before its next try, with the files that it made and deleted. One that always fails leaves what
// was there before it. What each had left is a checkpoint.
func TestCheckpointSteps(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	owner := subject(t)
	steps := func(volume string, steps ...string) (string, error) {
		script := append([]string{"bash", "../examples/agents/steps.sh", volume}, steps...)
		out, err := e.agentLoop(t, script, "REPO="+r.url, "SUBJECT="+owner).CombinedOutput()
		return string(out), err
	}
	volume := "steps-" + owner
	t.Cleanup(func() { e.docker(t, "volume", "rm", volume) })
	out, err := steps(volume,
		"echo planned >plan",
		`test ! -e half; echo "$TRY" >half; rm plan; git commit -q --allow-empty -m half; [ "$TRY" = 2 ]`,
		"test ! -e plan; echo built >built")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := e.sh(t, mount(volume), "cat half built; test -e plan || echo gone; git log --format=%s -2 | grep -c half"); got != "2\nbuilt\ngone\n1" {
		t.Errorf("got %q", got)
	}
	made := make(map[string]int)
	list, err := e.admin(t).Checkpoints(t.Context(), api.Filter{Volume: volume})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		made[d.Made]++
	}
	if made["user"] != 3 || made["rewind"] != 1 {
		t.Errorf("the checkpoints are %v, want one for each step, and one for the failed try", made)
	}

	out, err = steps(volume, "echo spoilt >built; false")
	if err == nil || !strings.Contains(out, "failed 3 times: echo spoilt >built; false") {
		t.Errorf("got %v, %s", err, out)
	}
	if got := e.sh(t, mount(volume), "cat built"); got != "built" {
		t.Errorf("got %q", got)
	}
	if left := e.docker(t, "ps", "--all", "--quiet", "--filter", "name="+volume); left != "" {
		t.Errorf("a container is left: %s", left)
	}
}

// Three ways begin with what a container has, not committed, and the one that succeeds is pushed. The container goes on.
func TestCheckpointForks(t *testing.T) {
	t.Parallel()
	e, r := shared(t), newRemote(t)
	owner := subject(t)
	login := gitserver.Login{User: "ada", Password: "of the tries"}
	r.Protect(app, login)
	credential := api.PutCredential{Kind: api.HTTPS, Scope: r.url, Subject: owner, User: login.User, Secret: login.Password, Allow: "push"}
	if err := e.admin(t).PutCredential(t.Context(), "forks-"+owner, credential); err != nil {
		t.Fatal(err)
	}
	container := e.docker(t, "run", "--detach", "--rm", "--mount", mount("", "repo="+r.url, "subject="+owner), image, "sleep", "infinity")
	t.Cleanup(func() { e.docker(t, "rm", "--force", container) })
	e.docker(t, "exec", container, "sh", "-c", "cd /w; echo mine >mine")

	forks := func(branch, work string) (string, error) {
		out, err := e.agentLoop(t, []string{"bash", "../examples/agents/forks.sh", container, branch}, "WORK="+work).CombinedOutput()
		return string(out), err
	}
	out, err := forks("fix", `echo "$TRY" >way; git add mine way; git commit -qm "way $TRY"; [ "$TRY" != 1 ]`)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := hostGit(t, r.Path(app), "log", "-1", "--format=%P %s", "fix"); got != r.head+" way 2" {
		t.Errorf("pushed %q, want the second way on %s", got, r.head)
	}
	if got := hostGit(t, r.Path(app), "show", "fix:mine"); got != "mine" {
		t.Errorf("the way has %q of what the container had", got)
	}
	if got := e.docker(t, "exec", container, "sh", "-c", "cd /w; ls way 2>&1; git status --porcelain"); !strings.HasSuffix(got, "?? mine") || strings.Contains(got, "?? way") {
		t.Errorf("the container has %q", got)
	}

	out, err = forks("none", "false")
	if err == nil || !strings.Contains(out, "no try has succeeded") || hostGit(t, r.Path(app), "branch", "--list", "none") != "" {
		t.Errorf("got %v, %s", err, out)
	}
	for _, v := range e.volumes(t) {
		if at, ok := strings.CutPrefix(v, "try-"); ok && strings.Count(at, "-") == 1 {
			t.Errorf("the volume %s is left", v)
		}
	}
}
