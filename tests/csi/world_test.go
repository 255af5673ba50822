// Package csi calls the driver for Kubernetes as kubelet does, with the types of the CSI
// specification and the client of gRPC: the program runs as a process, with real mounts.
//
// It is a module of its own, so that the plugin does not depend on csi-sanity, and the driver meets a client of another
// version of the specification.
package csi

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// program is the plugin's program.
var program string

func TestMain(m *testing.M) {
	daemon.Main("csi", []string{"failpoints", "kubernetes"}, func(_, built string) (int, error) {
		program = built
		return m.Run(), nil
	})
}

// world is a node: kubelet's directory, the driver, and a git server.
type world struct {
	t       *testing.T
	config  daemon.Config
	daemon  *daemon.Daemon
	server  *gitserver.Server
	kubelet string
	conn    *grpc.ClientConn
	csi.NodeClient
	csi.IdentityClient
}

// newWorld starts the driver. Its directories are on a mount of their own, which is shared
// with nobody, but may be.
func newWorld(t *testing.T, env ...string) *world {
	t.Helper()
	dir := testdir.New(t, "csi")
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_PRIVATE, unix.MS_SHARED} {
		if err := unix.Mount(dir, dir, "", flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, kubelet: filepath.Join(dir, "k"), server: testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 20})}
	if err := os.MkdirAll(filepath.Join(w.kubelet, "pods"), 0o750); err != nil {
		t.Fatal(err)
	}
	w.config = daemon.Config{
		Program: program, Dir: dir, Env: append(env, "CSI_ENDPOINT=unix://"+w.endpoint(), "CSI_NODE=node-1", "KUBELET_DIR="+w.kubelet),
	}
	w.start()
	t.Cleanup(func() { _ = w.daemon.Kill() })
	w.conn = w.dial(w.endpoint())
	w.NodeClient, w.IdentityClient = csi.NewNodeClient(w.conn), csi.NewIdentityClient(w.conn)
	return w
}

func (w *world) endpoint() string { return filepath.Join(w.kubelet, "csi.sock") }

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.daemon, err = daemon.Start(w.t, w.config); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) dial(socket string) *grpc.ClientConn {
	w.t.Helper()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	return conn
}

// pod is a pod, and its volume.
type pod struct{ namespace, name, serviceAccount, volume string }

var aPod = pod{"default", "p", "default", "csi-1"}

// target returns the path that kubelet gives a pod's volume, and makes the directory above.
func (w *world) target(p pod) string {
	w.t.Helper()
	dir := filepath.Join(w.kubelet, "pods", "uid-"+p.namespace+"-"+p.name, "volumes/kubernetes.io~csi/repo")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		w.t.Fatal(err)
	}
	return filepath.Join(dir, "mount")
}

// request is the NodePublishVolume for a pod's inline volume, with more attributes as names and values.
func (w *world) request(p pod, attributes ...string) *csi.NodePublishVolumeRequest {
	m := map[string]string{
		"repo": w.server.URL("r"), "ref": "main",
		"csi.storage.k8s.io/ephemeral": "true", "csi.storage.k8s.io/pod.namespace": p.namespace, "csi.storage.k8s.io/pod.name": p.name,
		"csi.storage.k8s.io/pod.uid": "uid-" + p.namespace + "-" + p.name, "csi.storage.k8s.io/serviceAccount.name": p.serviceAccount,
	}
	for i := 0; i < len(attributes); i += 2 {
		m[attributes[i]] = attributes[i+1]
	}
	return &csi.NodePublishVolumeRequest{
		VolumeId: p.volume, TargetPath: w.target(p), VolumeContext: m,
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	}
}

// publish publishes an inline volume for a pod, and returns its path.
func (w *world) publish(p pod, attributes ...string) string {
	w.t.Helper()
	r := w.request(p, attributes...)
	w.ok(w.try(r))
	return r.TargetPath
}

func (w *world) try(r *csi.NodePublishVolumeRequest) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait.Most(w.t))
	defer cancel()
	_, err := w.NodePublishVolume(ctx, r)
	return err
}

func (w *world) unpublish(p pod) {
	w.t.Helper()
	w.ok(w.tryUnpublish(p.volume, w.target(p)))
}

func (w *world) tryUnpublish(volume, target string) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), wait.Most(w.t))
	defer cancel()
	_, err := w.NodeUnpublishVolume(ctx, &csi.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: target})
	return err
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
