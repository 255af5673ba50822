package kubernetes

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
)

// deploy does what a new user does: it applies the objects as they are, of deploy/kubernetes or of a release. The image is
// the one that make image has made, or that of the release.
func deploy(t *testing.T, w *world) {
	_, err := w.kubectl(append([]string{"apply"}, objects(t)...)...)
	must(t, err)
	if err := w.awaitDriver(0); err != nil {
		t.Fatalf("%v\n%s", err, w.driverState())
	}
	_, err = w.kubectl("rollout", "status", "--timeout=60s", "--namespace", driverNamespace, "daemonset/repos")
	must(t, err)
	must(t, w.giveBootID())
}

// driverState describes the driver's pods, for errors.
func (w *world) driverState() string {
	state, err := w.kubectl("describe", "pods", "--namespace", driverNamespace)
	log, logErr := w.kubectl("logs", "--namespace", driverNamespace, "daemonset/repos")
	return fmt.Sprint(state, "\n", log, "\n", errors.Join(err, logErr))
}

// apply applies an example with the changes that a machine without other networks needs.
func (w *world) apply(t *testing.T, example string, changes ...string) {
	t.Helper()
	data, err := os.ReadFile("../../" + example)
	must(t, err)
	must(t, os.WriteFile(w.path("example.yaml"), []byte(adapt(string(data), changes...)), 0o644))
	_, err = w.kubectl("apply", "-f", w.path("example.yaml"))
	must(t, err)
}

// adapt returns an example with changes, pairs of an old and a new text, and with those that all examples need. A CronJob
// never runs on its own.
func adapt(example string, changes ...string) string {
	changes = append(changes, "image: debian", "image: "+boxImage, "image: node:22", "image: "+boxImage, "17 * * * *", "0 0 30 2 *",
		"ref: master", "ref: main", "https://github.com/octocat/Hello-World", urlOf(appRepo))
	return strings.NewReplacer(changes...).Replace(example)
}

// The examples are applied, and their pods have the files.
func examples(t *testing.T, w *world) {
	want := w.remote.want(t, appRepo)
	for _, e := range []struct {
		file, pod string
		changes   []string
		want      string
	}{
		{"examples/kubernetes/pod.yaml", "hello", nil, want},
		{"examples/kubernetes/private.yaml", "private", []string{"https://git.example.com/team/app", urlOf(privateRepo), "TOKEN", login.Password}, w.remote.want(t, privateRepo)},
		{"examples/kubernetes/keep.yaml", "keeper", []string{"values: [NODE]", "values: [" + nodeName + "]"}, want},
	} {
		w.apply(t, e.file, e.changes...)
		if out, err := w.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/"+e.pod); err != nil {
			t.Errorf("%s: %s, %v\n%s", e.file, out, err, w.events("default", e.pod))
			continue
		}
		w.mustSay(t, e.pod, portrait, e.want) // the working directory is the volume
		if _, err := w.kubectl("delete", "--grace-period=1", "-f", w.path("example.yaml")); err != nil {
			t.Error(err)
		}
	}
	w.kept = append(w.kept, "hello")
	w.awaitNothing(t)
}

// undeploy deletes what deploy has applied. The data stay on the node, and nothing of them is in use.
func undeploy(t *testing.T, w *world) {
	pid := w.driver()
	_, err := w.kubectl(append([]string{"delete"}, objects(t)...)...)
	must(t, err)
	if err := w.await("the end of the driver", func() error {
		err := w.api.get(t.Context(), driverSet, nil)
		var answer *refused
		if !errors.As(err, &answer) || answer.Code != http.StatusNotFound {
			return fmt.Errorf("the DaemonSet: %v", err)
		}
		if now := w.driver(); now != 0 {
			return fmt.Errorf("the driver's process %d still runs", now)
		}
		return nil
	}); err != nil {
		t.Errorf("process %d: %v", pid, err)
	}
	published, _, err := w.mounts()
	if err != nil || len(published) > 0 {
		t.Errorf("published: %q, %v", published, err)
	}
	if running := w.containers(); len(running) > 0 {
		t.Errorf("containers run: %v", running)
	}
}
