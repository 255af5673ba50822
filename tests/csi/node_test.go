package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// want checks the code of an error, and that it contains words.
func want(t *testing.T, what string, err error, code codes.Code, words ...string) {
	t.Helper()
	if got := status.Code(err); got != code {
		t.Errorf("%s: %v, want %v", what, err, code)
	}
	for _, word := range words {
		if !strings.Contains(status.Convert(err).Message(), word) {
			t.Errorf("%s: %v, want %q in it", what, err, word)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// wantNothing checks that the driver has no volume, lease, workspace and mount.
func (w *world) wantNothing() {
	w.t.Helper()
	volumes, err := w.daemon.Admin.Volumes(w.t.Context(), api.Filter{})
	w.ok(err)
	leases, err := w.daemon.Admin.Leases(w.t.Context(), api.Filter{})
	w.ok(err)
	if len(volumes) > 0 || len(leases) > 0 {
		w.t.Errorf("left: volumes %+v, leases %+v", volumes, leases)
	}
	for _, dir := range []string{filepath.Join(w.kubelet, "pods"), overlay.PointsDir(w.config.DataDir())} {
		points, err := overlay.Mounts(dir)
		w.ok(err)
		for _, p := range points {
			if p.Type != "tmpfs" {
				w.t.Errorf("left: the mount %+v", p)
			}
		}
	}
}

// TestPublish checks an inline volume from its publication to its end.
func TestPublish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.publish(aPod)
	if !exists(filepath.Join(target, "README.md")) {
		t.Error("no file of the repository")
	}
	w.ok(os.WriteFile(filepath.Join(target, "mine"), nil, 0o644))
	w.publish(aPod)
	if !exists(filepath.Join(target, "mine")) {
		t.Error("another NodePublishVolume made another workspace")
	}
	want(t, "an attribute of another version", w.try(w.request(aPod, "colour", "red")), codes.Unavailable, "colour") // not final
	leases, err := w.daemon.Admin.Leases(t.Context(), api.Filter{})
	w.ok(err)
	if len(leases) != 1 || leases[0].Pod != "default/p" || leases[0].Subject != "k8s/default/default" {
		t.Errorf("leases %+v", leases)
	}
	w.unpublish(aPod)
	w.unpublish(aPod)
	w.ok(wait.Until(t, func() error { // the log is written in the background
		audited := make(map[string]bool)
		err := w.daemon.Admin.Audit(t.Context(), api.AuditFilter{}, func(r api.AuditRecord) error {
			if r.Actor.Kind == "kubelet" && r.Pod == "default/p" && r.Volume == "csi-1" {
				audited[r.Action] = true
			}
			return nil
		})
		if err == nil && (!audited["volume.create"] || !audited["mount"] || !audited["unmount"] || !audited["volume.remove"]) {
			err = fmt.Errorf("the audit log has of the pod: %v", audited)
		}
		return err
	}))
	if exists(target) {
		t.Error("the target is there after NodeUnpublishVolume")
	}
	w.wantNothing()
}

// TestRegistration checks what kubelet learns at the socket in its directory.
func TestRegistration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := registration.NewRegistrationClient(w.dial(filepath.Join(w.kubelet, "plugins_registry/repos.helmdeck.dev-reg.sock")))
	info, err := c.GetInfo(t.Context(), &registration.InfoRequest{})
	w.ok(err)
	if info.Type != registration.CSIPlugin || info.Name != "repos.helmdeck.dev" || info.Endpoint != w.endpoint() || len(info.SupportedVersions) != 1 {
		t.Errorf("%+v", info)
	}
	_, err = c.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{PluginRegistered: true})
	w.ok(err)
	_, err = c.NotifyRegistrationStatus(t.Context(), &registration.RegistrationStatus{Error: "no such version"})
	w.ok(err)
	for _, words := range []string{"kubelet has registered the driver", "no such version"} {
		if !strings.Contains(w.config.Log(), words) {
			t.Errorf("the log has no %q", words)
		}
	}
	node, err := w.NodeGetInfo(t.Context(), &csi.NodeGetInfoRequest{})
	w.ok(err)
	if node.NodeId != "node-1" {
		t.Errorf("%+v", node)
	}
}

// TestReadOnly checks that a read-only volume is so with all mounts in it.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, readOnly := range []bool{false, true} {
		r := w.request(aPod)
		r.Readonly = readOnly
		w.ok(w.try(r))
		for _, name := range []string{"x", ".git/hdcache/x"} {
			err := os.WriteFile(filepath.Join(r.TargetPath, name), nil, 0o644)
			if errors.Is(err, unix.EROFS) != readOnly {
				t.Errorf("read-only is %v, writing %s: %v", readOnly, name, err)
			}
		}
		r.Readonly = !readOnly
		want(t, "another access mode", w.try(r), codes.AlreadyExists)
		w.unpublish(aPod)
	}
	w.wantNothing()
}

// kept returns the request for a persistent volume that a pod uses.
func (w *world) kept(p pod) *csi.NodePublishVolumeRequest {
	r := w.request(p)
	delete(r.VolumeContext, "csi.storage.k8s.io/ephemeral")
	return r
}

// TestPeers checks that two pods with one kept workspace do not see what is unmounted in the
// other. Control: with binds that are peers they do.
func TestPeers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one, two := w.kept(pod{"a", "one", "default", "pv"}), w.kept(pod{"a", "two", "default", "pv"})
	for _, r := range []*csi.NodePublishVolumeRequest{one, two} {
		r.VolumeContext["auth"] = "container"
		w.ok(w.try(r))
	}
	w.ok(os.WriteFile(filepath.Join(one.TargetPath, "mine"), nil, 0o644))
	if !exists(filepath.Join(two.TargetPath, "mine")) {
		t.Error("two pods with one persistent volume have two workspaces")
	}
	const helper = ".git/helmdeck" // is a mount in a workspace with auth=container
	helped := func(target string) bool {
		mounted, err := overlay.Mounted(filepath.Join(target, helper))
		w.ok(err)
		return mounted
	}
	peer := filepath.Join(w.config.Dir, "peer")
	w.ok(os.Mkdir(peer, 0o755))
	points := testdir.Names(t, overlay.PointsDir(w.config.DataDir()))
	w.ok(unix.Mount(filepath.Join(overlay.PointsDir(w.config.DataDir()), points[0]), peer, "", unix.MS_BIND|unix.MS_REC, ""))
	w.ok(unix.Unmount(filepath.Join(peer, helper), unix.MNT_DETACH))
	if helped(filepath.Join(overlay.PointsDir(w.config.DataDir()), points[0])) {
		t.Error("control: a peer kept what was unmounted in the other")
	}
	w.ok(unix.Unmount(peer, unix.MNT_DETACH))
	if !helped(one.TargetPath) || !helped(two.TargetPath) {
		t.Error("a pod lost its credential helper with the workspace's mount")
	}
	w.ok(w.tryUnpublish("pv", one.TargetPath))
	if !helped(two.TargetPath) || !exists(filepath.Join(two.TargetPath, "mine")) {
		t.Error("NodeUnpublishVolume of one pod unmounted something of the other")
	}
	w.ok(w.tryUnpublish("pv", two.TargetPath))
	w.ok(w.try(one))
	if !exists(filepath.Join(one.TargetPath, "mine")) {
		t.Error("the persistent volume lost a file")
	}
}

// TestKeptBelongsToSubject checks that a persistent volume that is bound in one namespace after
// the other does not show the files of the first.
func TestKeptBelongsToSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.kept(pod{"secret-team", "p", "default", "pv"})
	w.ok(w.try(first))
	w.ok(os.WriteFile(filepath.Join(first.TargetPath, "mine"), nil, 0o644))
	w.ok(w.tryUnpublish("pv", first.TargetPath))
	for _, p := range []pod{{"other", "p", "default", "pv"}, {"secret-team", "p2", "other", "pv"}} {
		r := w.kept(p)
		err := w.try(r)
		want(t, "another subject", err, codes.PermissionDenied, "another namespace or service account")
		if strings.Contains(err.Error(), "secret-team") || exists(r.TargetPath) {
			t.Errorf("%v; the target exists: %v", err, exists(r.TargetPath))
		}
	}
	if _, err := w.daemon.Admin.FreshSubject(t.Context(), "k8s/secret-team/default", true); err != nil {
		t.Fatal(err)
	}
	r := w.kept(pod{"other", "p", "default", "pv"})
	w.ok(w.try(r))
	if exists(filepath.Join(r.TargetPath, "mine")) {
		t.Error("another subject sees the file of the first")
	}
}

// TestSubject checks that the pod decides the subject, also where it is too long for one.
func TestSubject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	long := strings.Repeat("s", 253)
	subjects := make(map[string]bool)
	for i, p := range []pod{
		{"a", "p1", "default", "v1"}, {"b", "p2", "default", "v2"}, {"a", "p3", "ci", "v3"},
		{"a", "p4", long, "v4"}, {"b", "p5", long, "v5"}, {"a", "p6", long[1:] + "t", "v6"},
	} {
		w.publish(p)
		v, err := w.daemon.Admin.Volume(t.Context(), p.volume)
		w.ok(err)
		if i == 0 && v.Subject != "k8s/a/default" {
			t.Errorf("subject %q", v.Subject)
		}
		if subjects[v.Subject] || len(v.Subject) > 256 {
			t.Errorf("pod %+v has the subject %q", p, v.Subject)
		}
		subjects[v.Subject] = true
	}
}

// TestDeadline checks that a call whose time is over says that the clone continues, and leaves
// nothing, and that the next call succeeds.
func TestDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := gitserver.NewGate()
	w.server.Wrap(gate.Fault)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	r := w.request(aPod)
	done := make(chan error)
	go func() {
		_, err := w.NodePublishVolume(ctx, r)
		done <- err
	}()
	<-gate.Arrived
	want(t, "at the same time", w.try(r), codes.Aborted, "another call")
	want(t, "NodeUnpublishVolume meanwhile", w.tryUnpublish(r.VolumeId, r.TargetPath), codes.Aborted)
	want(t, "when the time is over", <-done, codes.Aborted, "continues in the background")
	w.wantNothing()
	close(gate.Open)
	w.ok(w.try(r))
	w.unpublish(aPod)
	w.wantNothing()
}

// TestRestart checks that a killed driver finds its publications, and undoes those whose pods
// have gone.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, gone := pod{"default", "other", "default", "csi-2"}, pod{"default", "gone", "default", "csi-3"}
	target := w.publish(aPod)
	w.publish(other)
	lost := w.publish(gone)
	w.ok(os.WriteFile(filepath.Join(target, "mine"), nil, 0o644))
	w.ok(w.daemon.Kill())
	// As kubelet does with a pod that was deleted by force.
	w.ok(unix.Unmount(lost, unix.MNT_DETACH))
	w.ok(os.RemoveAll(filepath.Join(w.kubelet, "pods/uid-default-gone")))
	w.start()
	w.publish(aPod)
	if !exists(filepath.Join(target, "mine")) {
		t.Error("the workspace is another one")
	}
	w.unpublish(aPod)
	w.unpublish(other)
	w.ok(wait.Until(t, func() error {
		volumes, err := w.daemon.Admin.Volumes(t.Context(), api.Filter{})
		if err == nil && len(volumes) > 0 {
			err = errors.New("the volume of the pod that has gone is there")
		}
		return err
	}))
	w.wantNothing()
}

// TestReboot checks that volumes are published anew when nothing is mounted any more.
func TestReboot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.publish(aPod)
	kept := w.kept(pod{"a", "one", "default", "pv"})
	w.ok(w.try(kept))
	w.ok(os.WriteFile(filepath.Join(kept.TargetPath, "mine"), nil, 0o644))
	w.ok(w.daemon.Kill())
	w.ok(unix.Unmount(target, unix.MNT_DETACH))
	w.ok(unix.Unmount(kept.TargetPath, unix.MNT_DETACH))
	w.ok(unix.Unmount(overlay.PointsDir(w.config.DataDir()), unix.MNT_DETACH))
	w.start()
	w.publish(aPod)
	w.ok(w.try(kept))
	if !exists(filepath.Join(target, "README.md")) || !exists(filepath.Join(kept.TargetPath, "mine")) {
		t.Error("a volume has no files after a reboot")
	}
	w.unpublish(aPod)
	w.ok(w.tryUnpublish("pv", kept.TargetPath))
}

// TestStats checks that statistics are those of the workspace, not of the disk.
func TestStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	target := w.publish(aPod)
	stats := func() (*csi.NodeGetVolumeStatsResponse, error) {
		return w.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: aPod.volume, VolumePath: target})
	}
	got, err := stats()
	w.ok(err)
	if len(got.Usage) != 2 || got.Usage[0].Unit != csi.VolumeUsage_BYTES || got.Usage[1].Unit != csi.VolumeUsage_INODES ||
		got.Usage[0].Used > 1<<20 || got.Usage[0].Total != 0 || strings.Contains(got.String(), "mounted") {
		t.Errorf("%v", got)
	}
	w.ok(unix.Unmount(target, unix.MNT_DETACH))
	// CSI 1.13 has no VolumeCondition any more, so it is among what is unknown.
	if got, err = stats(); err != nil || !strings.Contains(string(got.ProtoReflect().GetUnknown()), "is not mounted any more") {
		t.Errorf("unmounted by somebody: %v, %v", got, err)
	}
	w.unpublish(aPod)
	_, err = stats()
	want(t, "not published", err, codes.NotFound)
}

// TestMany checks many pods at once.
func TestMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const n = 50
	done := make(chan error)
	var pods []pod
	for i := range n {
		name := "p" + strings.Repeat("x", i)
		pods = append(pods, pod{"default", name, "default", "csi-" + name})
		r := w.request(pods[i])
		go func() { done <- w.try(r) }()
	}
	for range n {
		w.ok(<-done)
	}
	for _, p := range pods {
		go func() {
			done <- w.tryUnpublish(p.volume, filepath.Join(w.kubelet, "pods", "uid-default-"+p.name, "volumes/kubernetes.io~csi/repo/mount"))
		}()
	}
	for range n {
		w.ok(<-done)
	}
	w.wantNothing()
}
