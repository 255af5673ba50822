package kubernetes

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testgit"
)

// makeNamespace makes a namespace, which ends with the test, and waits for its service account.
func (w *world) makeNamespace(t *testing.T, name string, labels object) {
	t.Helper()
	must(t, w.api.post(context.Background(), "/api/v1/namespaces", object{
		"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name, "labels": labels},
	}))
	t.Cleanup(func() {
		if err := w.api.call(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil); err != nil {
			t.Error(err)
		}
	})
	must(t, w.await("the service account", func() error {
		return w.api.get(context.Background(), "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil)
	}))
}

// A pod of a namespace with the restricted profile may have an inline volume. The profile is enforced: it refuses a
// privileged pod.
func restricted(t *testing.T, w *world) {
	w.makeNamespace(t, "strict", object{"pod-security.kubernetes.io/enforce": "restricted"})
	err := w.api.post(context.Background(), pods("strict"), newPod("bad", inline(attributes(appRepo)), func(spec object) {
		container(spec)["securityContext"] = object{"privileged": true}
	}))
	if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
		t.Errorf("a privileged pod: got %v, want an error of Pod Security", err)
	}
	_, _, err = w.startPod("strict", newPod("good", inline(attributes(appRepo))))
	must(t, err)
	got, err := w.sh("strict", "good", "cd /w && "+portrait)
	if want := w.remote.want(t, appRepo); err != nil || got != want {
		t.Errorf("got %.300q, %v", got, err)
	}
	must(t, w.deletePod("strict", "good"))
	w.awaitNothing(t)
}

// refuse checks that a pod does not start, with a message in its events, and that nothing of it is left.
func (w *world) refuse(p object, message string) error {
	name := p["metadata"].(object)["name"].(string)
	if err := w.api.post(context.Background(), pods("default"), p); err != nil {
		return err
	}
	err := w.await("the event", func() error {
		if events := w.events("default", name); !strings.Contains(events, message) {
			return fmt.Errorf("got the events %q, want %q", events, message)
		}
		return nil
	})
	got, err2 := w.pod("default", name)
	if err2 == nil && got.Status.Phase != "Pending" {
		err2 = fmt.Errorf("it is %s", got.Status.Phase)
	}
	if err := errors.Join(err, err2, w.deletePod("default", name)); err != nil {
		return fmt.Errorf("pod %s: %w", name, err)
	}
	return nil
}

// A pod gets no other subject than its own, and no option that would share with others.
func spoofed(t *testing.T, w *world) {
	wrong := []struct{ name, key, value, message string }{
		{"subject", "subject", "k8s/kube-system/default", "attribute subject is not allowed"},
		{"mode", "mode", "keep", "attribute mode="},
		{"shared", "mode", "shared", "attribute mode="},
		{"from", "from", "../x", "is not the ID of a checkpoint"},
		{"unknown", "helmdeck", "x", `attribute "helmdeck" is not allowed`},
		{"huge", "ref", strings.Repeat("x", 100<<10), "ref"},
		{"file", "repo", "file:///etc", "file"},
	}
	w.each(t, len(wrong), func(i int) error {
		a, c := attributes(appRepo), wrong[i]
		a[c.key] = c.value
		return w.refuse(newPod("spoofed-"+c.name, inline(a)), c.message)
	})
	// kubelet says whose the volume is, whatever the pod's spec says.
	a := attributes(appRepo)
	for key, value := range map[string]string{"pod.namespace": "kube-system", "serviceAccount.name": "victim", "pod.name": "another", "pod.uid": "0", "ephemeral": "false"} {
		a["csi.storage.k8s.io/"+key] = value
	}
	p := w.mustStart(t, newPod("spoofed-pod", inline(a)))
	if got, want := testgit.About(t, w.volumeDir(p))["subject"], "k8s/default/default"; got != want {
		t.Errorf("subject: got %v, want %v", got, want)
	}
	w.mustDelete(t, "spoofed-pod")

	// A persistent volume that one namespace has used does not give its files to another one.
	w.makeClaim(t, "owned", object{"volumeAttributes": attributes(appRepo)})
	w.mustStart(t, newPod("owner", claim("owned")))
	w.mustDelete(t, "owner")
	must(t, w.api.post(context.Background(), "/api/v1/namespaces/default/serviceaccounts", object{"metadata": object{"name": "thief"}}))
	must(t, w.refuse(newPod("thief", claim("owned"), func(spec object) { spec["serviceAccountName"] = "thief" }), "another namespace or service account"))
	w.awaitNothing(t)
}

// secret makes a secret in the namespace default.
func (w *world) secret(t *testing.T, name string, values map[string]string) {
	t.Helper()
	data := make(map[string]string)
	for key, value := range values {
		data[key] = base64.StdEncoding.EncodeToString([]byte(value))
	}
	must(t, w.api.post(context.Background(), "/api/v1/namespaces/default/secrets", object{"metadata": object{"name": name}, "data": data}))
}

// A pod reads a private repository with the secret that its volume names, and no pod without it does. The secret is
// nowhere on the node's disk.
func privateRepository(t *testing.T, w *world) {
	w.secret(t, "right", map[string]string{"username": login.User, "password": login.Password})
	w.secret(t, "wrong", map[string]string{"username": login.User, "password": "a wrong password"})
	with := func(secret string) object {
		volume := inline(attributes(privateRepo))
		if secret != "" {
			volume["csi"].(object)["nodePublishSecretRef"] = object{"name": secret}
		}
		return volume
	}
	must(t, w.refuse(newPod("without", with("")), "nodePublishSecretRef"))
	must(t, w.refuse(newPod("wrong", with("wrong")), "the remote refused the pod's secret (nodePublishSecretRef)"))
	p := w.mustStart(t, newPod("right", with("right")))
	w.mustSay(t, "right", "cd /w && "+portrait, w.remote.want(t, privateRepo))
	// The clone exists now. That must not open it for a pod of the same subject without the secret.
	must(t, w.refuse(newPod("after", with("")), "nodePublishSecretRef"))
	for _, dir := range []string{"/var/lib/helmdeck-repos", w.volumePath(p)} {
		if found, err := w.run("grep", "-rlF", "--", login.Password, dir); err == nil {
			t.Errorf("the secret is in %s", found)
		}
	}
	w.mustDelete(t, "right")
	w.awaitNothing(t)
}

// What an operator sees names the pods: docker repos in the driver's container, and the metrics.
func operators(t *testing.T, w *world) {
	w.mustStart(t, newPod("seen", inline(attributes(appRepo))))
	repos := func(args ...string) string {
		t.Helper()
		out, err := w.kubectl(append([]string{"exec", "--namespace", driverNamespace, "daemonset/repos", "--", "docker-repos"}, args...)...)
		must(t, err)
		return out
	}
	if out := repos("leases", "ls"); !strings.Contains(out, "default/seen") {
		t.Errorf("docker repos leases does not name the pod:\n%s", out)
	}
	if out := repos("ls"); !strings.Contains(out, "k8s/default/default") {
		t.Errorf("docker repos ls does not name the namespace and the service account:\n%s", out)
	}
	if out := repos("doctor"); strings.Contains(out, "failed") {
		t.Errorf("docker repos doctor finds faults:\n%s", out)
	}
	if got, err := w.metrics(); err != nil || !strings.Contains(got, "\nhelmdeck_repos_leases 1\n") {
		t.Errorf("metrics: %v, want one lease in %.2000s", err, got)
	}
	leases, err := w.admin().Leases(context.Background(), api.Filter{})
	must(t, err)
	if len(leases) != 1 {
		t.Errorf("leases: %+v", leases)
	}
	w.mustDelete(t, "seen")
	w.awaitNothing(t)
}

// metrics returns what the driver answers to a scrape of its admin socket.
func (w *world) metrics() (string, error) {
	resp, err := daemon.Dial(w.seen(adminSocket)).Client.Get("http://admin/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
