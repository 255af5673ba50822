package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// attributes are those of a volume of a repository whose files belong to the user of the tests' pods.
func attributes(repo string) map[string]string {
	return map[string]string{"repo": urlOf(repo), "ref": "main", "uid": "1000", "gid": "1000"}
}

// must fails the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustStart starts a pod in the namespace default, which ends with the test.
func (w *world) mustStart(t *testing.T, p object) pod {
	t.Helper()
	running, took, err := w.startPod("default", p)
	t.Cleanup(func() {
		if _, err := w.pod("default", running.Metadata.Name); err == nil {
			w.mustDelete(t, running.Metadata.Name)
		}
	})
	must(t, err)
	t.Logf("pod %s runs after %d ms", running.Metadata.Name, took.Milliseconds())
	return running
}

func (w *world) mustDelete(t *testing.T, name string) {
	t.Helper()
	if err := w.deletePod("default", name); err != nil {
		t.Error(err)
	}
}

// mustSay checks what a script prints in a pod of the namespace default.
func (w *world) mustSay(t *testing.T, name, script, want string) {
	t.Helper()
	got, err := w.sh("default", name, script)
	must(t, err)
	if got != want {
		t.Errorf("pod %s, %.80s:\n got %.500q\nwant %.500q", name, script, got, want)
	}
}

// mustRefuse checks that a script fails in a pod, with a message.
func (w *world) mustRefuse(t *testing.T, name, script, message string) {
	t.Helper()
	if out, err := w.sh("default", name, script); err == nil || !strings.Contains(err.Error(), message) {
		t.Errorf("pod %s, %s: got %q, %v, want an error with %q", name, script, out, err, message)
	}
}

// A pod has the newest commit in an inline volume, and may write to it. The next pod finds nothing of that.
func inlineVolume(t *testing.T, w *world) {
	want := w.remote.want(t, appRepo)
	p := w.mustStart(t, newPod("first", inline(attributes(appRepo))))
	w.mustSay(t, "first", "cd /w && "+portrait, want)
	w.mustSay(t, "first", "cd /w && echo mine >new && rm -r .git/refs && stat -c %u:%g . new", "1000:1000\n1000:1000")
	if got, want := testgit.About(t, w.volumeDir(p))["commit"], w.remote.heads[appRepo]; got != want {
		t.Errorf("commit: got %v, want %v", got, want)
	}
	w.mustDelete(t, "first")
	w.mustStart(t, newPod("second", inline(attributes(appRepo))))
	w.mustSay(t, "second", "cd /w && "+portrait+"; test -d .git/refs && echo clean", want+"\nclean")
	w.mustDelete(t, "second")
	w.awaitNothing(t)
}

// A volume that the pod asks for read-only is read-only, with all mounts in it.
func readOnly(t *testing.T, w *world) {
	volume := inline(attributes(appRepo))
	volume["csi"].(object)["readOnly"] = true
	w.mustStart(t, newPod("reader", volume))
	w.mustSay(t, "reader", "cd /w && "+portrait, w.remote.want(t, appRepo))
	w.mustRefuse(t, "reader", "touch /w/new", "Read-only file system")
	w.mustRefuse(t, "reader", "touch /w/.git/hdcache/new", "Read-only file system")
	w.mustDelete(t, "reader")
	w.awaitNothing(t)
}

// makeClaim makes a persistent volume with its claim, which end with the test.
func (w *world) makeClaim(t *testing.T, name string, csi object) {
	t.Helper()
	w.kept = append(w.kept, name)
	source := object{"driver": driverName, "volumeHandle": name}
	for key, value := range csi {
		source[key] = value
	}
	ctx := context.Background()
	must(t, w.api.post(ctx, "/api/v1/persistentvolumes", object{
		"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": name},
		"spec": object{
			"capacity": object{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce", "ReadOnlyMany"}, "storageClassName": "",
			"persistentVolumeReclaimPolicy": "Retain", "csi": source,
		},
	}))
	must(t, w.api.post(ctx, "/api/v1/namespaces/default/persistentvolumeclaims", object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"name": name},
		"spec": object{
			"accessModes": []string{"ReadWriteOnce"}, "resources": object{"requests": object{"storage": "1Gi"}}, "storageClassName": "",
			"volumeName": name,
		},
	}))
	t.Cleanup(func() {
		for _, path := range []string{"/api/v1/namespaces/default/persistentvolumeclaims/", "/api/v1/persistentvolumes/"} {
			if err := w.api.call(ctx, http.MethodDelete, path+name, nil, nil); err != nil {
				t.Error(err)
			}
		}
	})
}

// claim is a volume of a claim.
func claim(name string) object {
	return object{"persistentVolumeClaim": object{"claimName": name}}
}

// What one pod leaves in a persistent volume, the next one finds.
func persistentVolume(t *testing.T, w *world) {
	w.makeClaim(t, "kept", object{"volumeAttributes": attributes(appRepo)})
	w.mustStart(t, newPod("writer", claim("kept")))
	w.mustSay(t, "writer", "cd /w && "+portrait+"; echo mine >new", w.remote.want(t, appRepo))
	w.mustDelete(t, "writer")
	w.mustStart(t, newPod("heir", claim("kept")))
	w.mustSay(t, "heir", "cat /w/new", "mine")
	// Two pods of a node may use it at a time.
	w.mustStart(t, newPod("guest", claim("kept")))
	w.mustSay(t, "guest", "cat /w/new", "mine")
	w.mustDelete(t, "heir")
	w.mustSay(t, "guest", "cat /w/new", "mine")
	w.mustDelete(t, "guest")
	w.awaitNothing(t)

	frozen := claim("kept")
	frozen["persistentVolumeClaim"].(object)["readOnly"] = true
	w.mustStart(t, newPod("reader", frozen))
	w.mustSay(t, "reader", "cat /w/new", "mine")
	w.mustRefuse(t, "reader", "touch /w/new", "Read-only file system")
	w.mustDelete(t, "reader")
	w.awaitNothing(t)
}

// A container that ends and starts again in its pod has the workspace that it had.
func containerRestart(t *testing.T, w *world) {
	w.mustStart(t, newPod("again", inline(attributes(appRepo))))
	w.mustSay(t, "again", "echo mine >/w/new; cat /w/new", "mine")
	_, _ = w.sh("default", "again", "kill -TERM 1") // it ends together with the container, so it may fail
	must(t, w.await("the container's next start", func() error {
		p, err := w.pod("default", "again")
		if err == nil && (len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount != 1 || !p.Status.ContainerStatuses[0].Ready) {
			err = fmt.Errorf("the container has not started again: %+v", p.Status.ContainerStatuses)
		}
		return err
	}))
	w.mustSay(t, "again", "cat /w/new", "mine")
	w.mustDelete(t, "again")
	w.awaitNothing(t)
}

// kubelet changes no file for a pod with an fsGroup. Otherwise each file would be copied into the workspace.
func fsGroup(t *testing.T, w *world) {
	w.mustStart(t, newPod("group", inline(attributes(largeRepo)), func(spec object) {
		spec["securityContext"] = object{"fsGroup": 2000}
	}))
	w.mustSay(t, "group", "cd /w && find . -group 2000 | wc -l; find . -user 1000 -group 1000 -type f | head -n 10000 | wc -l", "0\n10000")
	uppers, err := filepath.Glob(w.path("data/clones/*/*/workspaces/*/upper"))
	must(t, err)
	for _, upper := range uppers {
		if files := count(t, upper); files > 100 {
			t.Errorf("%s has %d files of its own", upper, files)
		}
	}
	w.mustDelete(t, "group")
	w.awaitNothing(t)
}

// count returns how many files are below a directory.
func count(t *testing.T, dir string) (n int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		n++
		if e.IsDir() {
			n += count(t, dir+"/"+e.Name())
		}
	}
	return n
}
