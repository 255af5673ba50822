package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// hang ends a script that waits until its pod is deleted.
const hang = "touch hangs; trap 'exit 1' TERM; while :; do sleep 1000000 & wait $!; done"

// A pod finds what the Jobs of the example prepared on its node, for the lock file that it has. A Job that fails, or is
// ended at its deadline, changes nothing for others, nor does a pod with publish=never. What a pod marks is published
// when the pod has ended.
func prepared(t *testing.T, w *world) {
	testgit.Generate(t, w.remote.Server, depsRepo, gitserver.Spec{Seed: 1, Files: 20, Commits: 1})
	w.lock(t, "1")
	w.applyPrepare(t, "mkdir -p node_modules; echo one >node_modules/by")
	defer func() {
		if _, err := w.kubectl("delete", "--cascade=foreground", "cronjob/prepare"); err != nil {
			t.Error(err)
		}
		w.awaitNothing(t)
	}()
	w.createJob(t, "first")
	w.awaitJob(t, "first", "Complete")
	w.find(t, "one")
	w.find(t, "one") // whatever the pod before did

	w.lock(t, "2")
	const other = "installs\none"
	w.applyPrepare(t, "echo half >node_modules/by; exit 1", "backoffLimitPerIndex: 1", "backoffLimitPerIndex: 0")
	w.createJob(t, "fails")
	w.awaitJob(t, "fails", "Failed")
	w.find(t, other)

	w.applyPrepare(t, "echo late >node_modules/by; "+hang)
	w.createJob(t, "late")
	w.awaitHanging(t, "late")
	_, err := w.kubectl("patch", "job/late", "--patch", `{"spec": {"activeDeadlineSeconds": 1}}`)
	must(t, err)
	w.awaitJob(t, "late", "Failed")
	w.find(t, other)

	w.applyPrepare(t, "echo two >node_modules/by")
	script, err := os.ReadFile("../../examples/kubernetes/prepare-now.sh")
	must(t, err)
	must(t, os.WriteFile(w.path("prepare-now.sh"), script, 0o644))
	out, err := w.run("sh", w.path("prepare-now.sh"))
	must(t, err)
	job, ok := strings.CutSuffix(out, "-1 created") // there is one node
	if !ok {
		t.Fatalf("prepare-now.sh made %q, want one Job", out)
	}
	w.awaitJob(t, strings.TrimPrefix(job, "job.batch/")+"-1", "Complete")
	w.find(t, "two")
	w.lock(t, "1")
	w.find(t, "one")

	w.lock(t, "3")
	w.applyPrepare(t, "echo three >node_modules/by; touch .git/helmdeck-publish; "+hang)
	w.createJob(t, "marked")
	w.awaitHanging(t, "marked")
	w.find(t, "installs\ntwo")
	_, err = w.kubectl("delete", "--cascade=foreground", "job/marked")
	must(t, err)
	w.find(t, "installs\nthree")
}

// lock pushes a lock file.
func (w *world) lock(t *testing.T, content string) {
	t.Helper()
	_, err := gitserver.Commit(w.remote.Path(depsRepo), "main", gitserver.Change{Path: "package-lock.json", Content: content + "\n"})
	must(t, err)
}

// npm is what the examples run where node_modules is not that of the lock file.
const npm = "npm ci --prefer-offline --no-audit --no-fund"

// applyPrepare applies the CronJob, which then installs with a script.
func (w *world) applyPrepare(t *testing.T, script string, changes ...string) {
	t.Helper()
	w.apply(t, "examples/kubernetes/prepare.yaml", append(changes, npm, script, "https://github.com/my-org/app", urlOf(depsRepo))...)
}

func (w *world) createJob(t *testing.T, name string) {
	t.Helper()
	_, err := w.kubectl("create", "job", name, "--from", "cronjob/prepare")
	must(t, err)
}

// awaitJob waits for a Job's end, and until its pods have published.
func (w *world) awaitJob(t *testing.T, name, condition string) {
	t.Helper()
	if _, err := w.kubectl("wait", "--for=condition="+condition, "--timeout=120s", "job/"+name); err != nil {
		state, _ := w.kubectl("describe", "jobs,pods")
		t.Fatalf("%v\n%s", err, state)
	}
	w.awaitPublished(t)
}

// awaitHanging waits until all pods of a Job hang.
func (w *world) awaitHanging(t *testing.T, job string) {
	t.Helper()
	must(t, w.await("the pods of "+job, func() error {
		out, err := w.kubectl("get", "pods", "--selector", "batch.kubernetes.io/job-name="+job, "--output", "jsonpath={.items[*].metadata.name}")
		pods := strings.Fields(out)
		if err == nil && len(pods) != 3 {
			err = fmt.Errorf("the pods are %q, want 3", pods)
		}
		for _, pod := range pods {
			_, failed := w.sh("default", pod, "test -e hangs")
			err = errors.Join(err, failed)
		}
		return err
	}))
}

// find runs the pod of the example, and checks what it prints: who made its node_modules, and before that whether it
// installs. The pod then does what it can to change that for others.
func (w *world) find(t *testing.T, want string) {
	t.Helper()
	w.apply(t, "examples/kubernetes/prepared.yaml", npm, "echo installs", "npm test", "cat node_modules/by; echo never >node_modules/by; touch .git/helmdeck-publish",
		"https://github.com/my-org/app", urlOf(depsRepo))
	if _, err := w.kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s", "pod/prepared"); err != nil {
		t.Errorf("%v\n%s", err, w.events("default", "prepared"))
	}
	if got, err := w.kubectl("logs", "prepared"); err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	w.mustDelete(t, "prepared")
	w.awaitPublished(t)
}

// awaitPublished waits until no workspace may still publish but those in use.
func (w *world) awaitPublished(t *testing.T) {
	t.Helper()
	must(t, w.await("the workspaces to publish", func() error {
		list, err := w.admin().Workspaces(context.Background(), api.Filter{})
		for _, one := range list {
			if one.Mode == "private" && one.Phase != "checkpoint" && len(one.Leases) == 0 {
				err = fmt.Errorf("%s of %s has not published yet", one.ID, one.Volume)
			}
		}
		return err
	}))
}
