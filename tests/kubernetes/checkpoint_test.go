package kubernetes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
)

// fromCheckpoint is an ephemeral volume that begins with a checkpoint.
func fromCheckpoint(id string) map[string]string {
	a := maps.Clone(attributes(appRepo))
	delete(a, "ref")
	a["from"] = id
	return a
}

// operate runs the operator's command in the driver's container.
func (w *world) operate(args ...string) (string, error) {
	return w.kubectl(append([]string{"exec", "--namespace", driverNamespace, "daemonset/repos", "--", "docker-repos"}, args...)...)
}

// makeCheckpoint makes a checkpoint of a pod of the namespace default, as the page says, and returns its ID.
func (w *world) makeCheckpoint(t *testing.T, name string, note ...string) string {
	t.Helper()
	script, err := os.ReadFile("../../examples/kubernetes/checkpoint.sh")
	must(t, err)
	must(t, os.WriteFile(w.path("checkpoint.sh"), script, 0o644))
	out, err := w.run(append([]string{"sh", w.path("checkpoint.sh"), "default", name}, note...)...)
	must(t, err)
	id, node, _ := strings.Cut(out, " ")
	if node != nodeName {
		t.Fatalf("checkpoint.sh printed %q, want an ID and %s", out, nodeName)
	}
	return id
}

// A pod goes on while a checkpoint is made of it, and others begin with that: those of its namespace and service account, on
// its node.
func checkpoints(t *testing.T, w *world) {
	w.apply(t, "examples/kubernetes/pod.yaml")
	wait := func(name string) {
		t.Helper()
		if _, err := w.kubectl("wait", "--for=condition=Ready", "--timeout=60s", "pod/"+name); err != nil {
			t.Fatalf("%v\n%s", err, w.events("default", name))
		}
	}
	remove := func(name string) { // the examples' sleep does not end by SIGTERM
		t.Helper()
		if _, err := w.kubectl("delete", "--ignore-not-found", "--grace-period=1", "pod/"+name); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { remove("hello"); remove("fork") })
	wait("hello")
	w.mustSay(t, "hello", "echo one >new; rm README.md; echo x >>.git/config-of-mine; cat new", "one")
	id := w.makeCheckpoint(t, "hello", "before-the-change")
	w.mustSay(t, "hello", "echo two >new; cat new", "two")

	w.apply(t, "examples/kubernetes/from.yaml", "CHECKPOINT", id, "NODE", nodeName)
	wait("fork")
	w.mustSay(t, "fork", "cat new .git/config-of-mine; test -e README.md || echo deleted; echo three >new", "one\nx\ndeleted")
	w.mustSay(t, "hello", "cat new; echo four >new", "two") // both go on
	w.mustSay(t, "fork", "cat new", "three")

	if out, err := w.operate("checkpoints", "ls", "--format", "{{.ID}} {{.Name}} {{.Subject}}"); err != nil || !strings.Contains(out, id+" before-the-change k8s/default/default") {
		t.Errorf("got %q, %v, want %s", out, err, id)
	}
	w.beginWithOthers(t, id)
	w.pausedByCaller(t)
	remove("hello")
	remove("fork")
	w.keepFrom(t, id)
	w.awaitNothing(t)
}

// beginWithOthers checks checkpoints with which a pod can't begin.
func (w *world) beginWithOthers(t *testing.T, id string) {
	t.Helper()
	must(t, w.api.post(context.Background(), "/api/v1/namespaces/default/serviceaccounts", object{"metadata": object{"name": "stranger"}}))
	const elsewhere = "a checkpoint is on the node of the pod that it was made of"
	withRef := fromCheckpoint(id)
	withRef["ref"] = "main"
	for i, wrong := range []struct {
		attributes map[string]string
		account    string
		message    string
	}{
		{fromCheckpoint("0123456789abcdef"), "default", elsewhere}, // as one of another node
		{fromCheckpoint(id), "stranger", elsewhere},
		{withRef, "default", "can't be with from"},
	} {
		p := newPod(fmt.Sprint("refused-", i), inline(wrong.attributes), func(spec object) { spec["serviceAccountName"] = wrong.account })
		must(t, w.refuse(p, wrong.message))
	}
	if _, err := w.operate("rewind", w.volumeOf(t, "fork"), id); err == nil || !strings.Contains(err.Error(), "only one with mode=keep") {
		t.Errorf("rewind of an inline volume: %v", err)
	}
}

// volumeOf returns the volume of a pod of the namespace default.
func (w *world) volumeOf(t *testing.T, name string) string {
	t.Helper()
	leases, err := w.admin().Leases(context.Background(), api.Filter{})
	must(t, err)
	for _, l := range leases {
		if l.Pod == "default/"+name {
			return l.Volume
		}
	}
	t.Fatalf("pod %s has no lease: %+v", name, leases)
	return ""
}

// pausedByCaller makes a checkpoint of a pod that writes two files in turns, while containerd has paused it: the files are as of
// one moment.
func (w *world) pausedByCaller(t *testing.T) {
	t.Helper()
	p := w.mustStart(t, newPod("counts", inline(attributes(appRepo)), func(spec object) {
		container(spec)["command"] = []string{"/bin/sh", "-c", "trap 'exit 0' TERM; cd /w; n=0; while :; do n=$((n + 1)); echo $n >a; echo $n >b; done"}
	}))
	w.mustSay(t, "counts", "until test -s /w/b; do :; done", "")
	now, err := w.pod("default", "counts")
	must(t, err)
	task := strings.TrimPrefix(now.Status.ContainerStatuses[0].ContainerID, "containerd://")
	_, err = w.ctr("tasks", "pause", task)
	must(t, err)
	id := w.makeCheckpoint(t, "counts")
	kept := w.read(t, w.volumeDir(p))
	_, err = w.ctr("tasks", "resume", task)
	must(t, err)
	w.mustSay(t, "counts", "old=$(cat /w/a); until test \"$(cat /w/a)\" != \"$old\"; do :; done", "") // it goes on
	f := w.mustStart(t, newPod("counted", inline(fromCheckpoint(id))))
	if got := w.read(t, w.volumeDir(f)); got != kept {
		t.Errorf("the fork has %q, and the paused pod had %q", got, kept)
	}
	w.mustDelete(t, "counts")
	w.mustDelete(t, "counted")
}

// read returns what pausedByCaller's pod has written.
func (w *world) read(t *testing.T, dir string) (text string) {
	t.Helper()
	for _, name := range []string{"/a", "/b"} {
		data, err := os.ReadFile(dir + name)
		must(t, err)
		text += string(data)
	}
	return text
}

// keepFrom checks a persistent volume that begins with a checkpoint, and goes back to it while no pod has it.
func (w *world) keepFrom(t *testing.T, id string) {
	t.Helper()
	a := fromCheckpoint(id)
	delete(a, "uid") // those of the checkpoint
	delete(a, "gid")
	w.makeClaim(t, "begun", object{"volumeAttributes": a})
	asRoot := func(spec object) { container(spec)["securityContext"] = object{"runAsUser": 0} }
	w.mustStart(t, newPod("keeps", claim("begun"), asRoot))
	w.mustSay(t, "keeps", "cat /w/new; echo mine >/w/new", "one")
	if _, err := w.operate("rewind", "begun", id); err == nil || !strings.Contains(err.Error(), "can't go back while it is in use") {
		t.Errorf("rewind of a volume in use: %v", err)
	}
	w.mustDelete(t, "keeps")
	_, err := w.operate("rewind", "begun", "before-the-change")
	must(t, err)
	w.mustStart(t, newPod("goes-back", claim("begun"), asRoot))
	w.mustSay(t, "goes-back", "cat /w/new", "one")
	w.mustDelete(t, "goes-back")
}
