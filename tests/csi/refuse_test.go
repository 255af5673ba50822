package csi

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestRefused checks the attributes and requests that are refused, and that nothing is left.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := filepath.Join(w.config.Dir, "elsewhere")
	for name, change := range map[string]func(r *csi.NodePublishVolumeRequest){
		"subject":              func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["subject"] = "k8s/kube-system/default" },
		"mode=keep":            func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["mode"] = "keep" },
		"mode=shared":          func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["mode"] = "shared" },
		"from that is no ID":   func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["from"] = "../../x" },
		"an unknown attribute": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["colour"] = "red" },
		"a wrong value":        func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["depth"] = "deep" },
		"a size of nothing":    func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["size"] = "0" },
		"no repository":        func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, "repo") },
		"a huge attribute":     func(r *csi.NodePublishVolumeRequest) { r.VolumeContext["ref"] = strings.Repeat("x", 200<<10) },
		"no pod":               func(r *csi.NodePublishVolumeRequest) { delete(r.VolumeContext, "csi.storage.k8s.io/pod.namespace") },
		"another pod, without podInfoOnMount": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeContext["csi.storage.k8s.io/pod.namespace"], r.VolumeContext["csi.storage.k8s.io/pod.uid"] = "kube-system", "0123"
		},
		"a volume with a slash": func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "a/b" },
		"a target elsewhere":    func(r *csi.NodePublishVolumeRequest) { r.TargetPath = other },
		"a target with ..":      func(r *csi.NodePublishVolumeRequest) { r.TargetPath = w.kubelet + "/pods/../../elsewhere" },
		"a block volume": func(r *csi.NodePublishVolumeRequest) {
			r.VolumeCapability.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
		},
		"mount options": func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability.GetMount().MountFlags = []string{"suid"} },
		"an unknown key of a secret": func(r *csi.NodePublishVolumeRequest) {
			r.Secrets = map[string]string{"pasword": "x"}
		},
		"two secrets": func(r *csi.NodePublishVolumeRequest) {
			r.Secrets = map[string]string{"password": "x", "token": "y", "username": "z"}
		},
		"mode=private of a persistent volume": func(r *csi.NodePublishVolumeRequest) {
			delete(r.VolumeContext, "csi.storage.k8s.io/ephemeral")
			r.VolumeContext["mode"] = "private"
		},
	} {
		r := w.request(aPod)
		change(r)
		want(t, name, w.try(r), codes.InvalidArgument)
		if exists(w.target(aPod)) || exists(other) {
			t.Errorf("%s: the target exists", name)
		}
	}
	r := w.request(aPod, "ref", strings.Repeat("x", 1<<20))
	want(t, "a request of more than 256 KiB", w.try(r), codes.ResourceExhausted)
	r = w.request(aPod, "ref", "nowhere")
	want(t, "an unknown ref", w.try(r), codes.NotFound, "nowhere")
	w.wantNothing()
}

// TestTargets checks targets that are not as kubelet leaves them.
func TestTargets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.target(aPod)
	w.ok(w.tryUnpublish("unknown", target))
	w.ok(w.tryUnpublish("unknown", filepath.Join(w.kubelet, "pods/none/volumes/v/mount")))

	w.ok(os.Mkdir(target, 0o750))
	w.publish(aPod)
	want(t, "another volume's target", w.tryUnpublish("other", target), codes.NotFound)
	second := w.request(aPod)
	second.VolumeId = "csi-2"
	want(t, "a second volume", w.try(second), codes.AlreadyExists)
	w.unpublish(aPod)

	w.ok(os.WriteFile(target, nil, 0o600))
	if err := w.try(w.request(aPod)); err == nil {
		t.Error("published at a file")
	}
	if !exists(target) {
		t.Error("the file is gone")
	}
	w.ok(os.Remove(target))

	w.ok(os.Mkdir(target, 0o750))
	w.ok(unix.Mount("x", target, "tmpfs", 0, ""))
	if err := w.try(w.request(aPod)); err == nil {
		t.Error("published over a mount")
	}
	if err := w.tryUnpublish(aPod.volume, target); err == nil || !strings.Contains(err.Error(), "something else is mounted there") {
		t.Errorf("NodeUnpublishVolume of another program's mount: %v", err)
	}
	w.ok(unix.Unmount(target, 0))
	w.unpublish(aPod)

	// What an earlier process has published, of which the database knows nothing any more.
	other := w.publish(pod{"default", "other", "default", "csi-4"})
	w.ok(os.WriteFile(filepath.Join(other, "theirs"), nil, 0o644))
	w.ok(os.Mkdir(target, 0o750))
	w.ok(unix.Mount(other, target, "", unix.MS_BIND, ""))
	w.publish(aPod)
	if exists(filepath.Join(target, "theirs")) || !exists(filepath.Join(target, "README.md")) {
		t.Error("a target shows what it had before")
	}
	w.unpublish(aPod)
	w.unpublish(pod{"default", "other", "default", "csi-4"})

	// A link in place of a directory of the path, to a place that the driver may write.
	outside := filepath.Join(w.config.Dir, "outside")
	w.ok(os.MkdirAll(outside, 0o755))
	w.ok(os.Remove(filepath.Dir(target)))
	w.ok(os.Symlink(outside, filepath.Dir(target)))
	r := w.request(pod{"default", "q", "default", "csi-3"})
	r.TargetPath, r.VolumeContext["csi.storage.k8s.io/pod.uid"] = target, "uid-default-p"
	if err := w.try(r); err == nil || len(testdir.Names(t, outside)) > 0 {
		t.Errorf("published through a link: %v, %q", err, testdir.Names(t, outside))
	}
	w.ok(os.Mkdir(filepath.Join(outside, "mount"), 0o755))
	if err := w.tryUnpublish("csi-3", target); err == nil || !exists(filepath.Join(outside, "mount")) {
		t.Errorf("unpublished through a link: %v", err)
	}
	w.wantNothing()
}

// TestSecret checks that a secret is for its volume alone, and nowhere on the disk.
func TestSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const password = "hunter2-of-the-pod"
	w.server.Protect("r", gitserver.Login{User: "ada", Password: password})
	without := w.request(pod{"b", "p", "default", "csi-2"})
	const advice = "name a secret of the pod's namespace with a credential for it in nodePublishSecretRef"
	want(t, "without a secret", w.try(without), codes.PermissionDenied, advice)
	r := w.request(aPod)
	r.Secrets = map[string]string{"username": "ada", "password": "wrong" + password}
	var last string
	for range 2 { // the same words, so that kubelet counts the event again and adds no other one
		err := w.try(r)
		want(t, "with a wrong secret", err, codes.PermissionDenied, "the remote refused the pod's secret (nodePublishSecretRef)")
		if last != "" && err.Error() != last {
			t.Errorf("a second try: got %v, want %s", err, last)
		}
		last = err.Error()
	}
	if strings.Contains(last, "docker repos") || strings.Contains(last, "lent:") {
		t.Errorf("not for a pod's author: %s", last)
	}
	r.Secrets["password"] = password
	w.ok(w.try(r))
	want(t, "another subject", w.try(without), codes.PermissionDenied, advice)
	want(t, "no such repository", w.try(w.request(pod{"b", "q", "default", "csi-4"}, "repo", w.server.URL("none"))), codes.NotFound, advice)
	same := w.request(pod{"default", "q", "default", "csi-3"}, "refresh", "always")
	want(t, "the same subject without the secret", w.try(same), codes.PermissionDenied, advice)
	if strings.Contains(w.config.Log(), password) {
		t.Error("the log has the secret")
	}
	w.ok(filepath.WalkDir(w.config.DataDir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // what is written meanwhile
		}
		data, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(data), password) {
			t.Errorf("%s has the secret", path)
		}
		return nil
	}))
	w.unpublish(aPod)
	w.wantNothing()
}

// TestSecretEnds checks that a persistent volume does not need the secret of an earlier pod.
// Control: the volume needs one while the remote is protected.
func TestSecretEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server.Protect("r", gitserver.Login{User: "ada", Password: "x"})
	first := w.kept(pod{"a", "one", "default", "pv"})
	want(t, "without a secret", w.try(first), codes.PermissionDenied)
	first.Secrets = map[string]string{"username": "ada", "password": "x"}
	w.ok(w.try(first))
	w.ok(w.tryUnpublish("pv", first.TargetPath))
	if _, err := w.daemon.Admin.FreshSubject(t.Context(), "k8s/a/default", true); err != nil {
		t.Fatal(err)
	}
	w.server.Protect("r")
	second := w.kept(pod{"a", "two", "default", "pv"})
	w.ok(w.try(second))
	w.ok(w.tryUnpublish("pv", second.TargetPath))
}

// TestContainerCredential checks that git in a pod gets the credential that an operator has put, also
// after a restart of the driver, but not the secret of the volume.
func TestContainerCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const password = "t0ken"
	w.server.Protect("r", gitserver.Login{User: "ada", Password: password})
	r := w.request(aPod, "auth", "container")
	r.Secrets = map[string]string{"username": "ada", "password": password}
	w.ok(w.try(r))
	fetch := func() error {
		cmd := testgit.Command(r.TargetPath, "fetch", "--quiet")
		cmd.Env = append(cmd.Environ(), "GIT_TERMINAL_PROMPT=0")
		_, err := testgit.Run(cmd)
		return err
	}
	if err := fetch(); err == nil {
		t.Error("git in a pod got the secret of the volume")
	}
	w.ok(w.daemon.Admin.PutCredential(t.Context(), "app", api.PutCredential{Kind: api.HTTPS, Scope: w.server.URL("r"), User: "ada", Secret: password}))
	w.ok(fetch())
	w.ok(w.daemon.Kill())
	if err := fetch(); err == nil {
		t.Error("control: git in a pod got a credential without the driver")
	}
	w.start()
	w.ok(wait.Until(t, fetch))
	w.unpublish(aPod)
	w.wantNothing()
}

// TestNotShared checks that the driver does not start where pods would see empty directories.
func TestNotShared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ok(w.daemon.Stop())
	w.ok(unix.Mount("", w.config.Dir, "", unix.MS_PRIVATE|unix.MS_REC, ""))
	_, err := daemon.Start(t, w.config)
	if err == nil || !strings.Contains(err.Error(), "mountPropagation: Bidirectional") {
		t.Errorf("%v", err)
	}
	w.ok(unix.Mount("", w.config.Dir, "", unix.MS_SHARED|unix.MS_REC, ""))
	w.start()
}

// TestOtherProtocols checks requests that are not gRPC.
func TestOtherProtocols(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.conn.Invoke(t.Context(), "/csi.v1.Node/NodeStageVolume", &csi.NodeStageVolumeRequest{}, &csi.NodeStageVolumeResponse{})
	want(t, "a method that the driver has not", err, codes.Unimplemented)
	c := daemon.Dial(w.endpoint()).Client
	if resp, err := c.Get("http://x/csi.v1.Identity/Probe"); err == nil && resp.StatusCode == http.StatusOK {
		t.Errorf("HTTP/1: %v", resp.Status)
	}
}
