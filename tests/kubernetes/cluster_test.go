package kubernetes

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/tests/wait"
)

// cluster is a cluster of one node. Its objects and its containers' files outlive powerOff.
type cluster struct {
	*machine
	api *client
	cni string // the directory of the CNI's plugins
}

// tools is the directory into which needs unpacks programs.
const tools = "../../build/tools"

// newCluster boots a machine and starts a cluster on it. programs is the directory that build prints.
func newCluster(l wait.Limit, dir, programs string) (*cluster, error) {
	m, err := newMachine(l, dir)
	if err != nil {
		return nil, err
	}
	c := &cluster{machine: m, api: newClient(m)}
	if err := errors.Join(c.link(programs), c.configure(), c.makeKey()); err != nil {
		return nil, err
	}
	return c, c.start()
}

// link makes the programs available in the machine's bin.
func (c *cluster) link(programs string) error {
	var errs []error
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kubelet"} {
		errs = append(errs, os.Symlink(filepath.Join(programs, name), c.path("bin", name)))
	}
	for _, name := range []string{"etcd", "containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		program, err := find(name)
		errs = append(errs, err, os.Symlink(program, c.path("bin", name)))
	}
	c.cni = "/usr/lib/cni"
	if unpacked, err := filepath.Abs(filepath.Join(tools, "usr/lib/cni")); err == nil && exists(unpacked) {
		c.cni = unpacked
	}
	return errors.Join(errs...)
}

// find returns the path of a program that needs has unpacked, or that is installed.
func find(name string) (string, error) {
	for _, dir := range []string{"usr/bin", "usr/sbin"} {
		if path, err := filepath.Abs(filepath.Join(tools, dir, name)); err == nil && exists(path) {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// configure writes the files of config/ into the machine's directory.
func (c *cluster) configure() error {
	runc, err := find("runc")
	if err != nil {
		return err
	}
	replace := strings.NewReplacer("DIR", c.dir, "CNI", c.cni, "GROUP", filepath.Base(c.dir), "RUNC", runc)
	for name, to := range map[string]string{
		"containerd.toml": "containerd.toml", "network.conflist": "cni/10-pods.conflist", "kubelet.yaml": "kubelet.yaml", "kubeconfig": "kubeconfig",
	} {
		text, err := os.ReadFile(filepath.Join("config", name))
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(c.path(to)), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(c.path(to), []byte(replace.Replace(string(text))), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(c.path("tokens"), []byte("admin,admin,1,system:masters\n"), 0o600)
}

// makeKey makes the key that signs the tokens of service accounts.
func (c *cluster) makeKey() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}
	return os.WriteFile(c.path("key"), pem.EncodeToMemory(&block), 0o600)
}

// start boots the machine and starts the cluster's programs, and waits until the node is ready.
func (c *cluster) start() error {
	if err := c.machine.boot(); err != nil {
		return err
	}
	if err := c.group(); err != nil {
		return err
	}
	if err := errors.Join(c.serveEtcd(), c.serveContainerd(), c.serveAPI()); err != nil {
		return err
	}
	if err := c.await("the API server", func() error { return c.api.get(context.Background(), "/readyz", nil) }); err != nil {
		return err
	}
	if err := c.await("containerd", func() error {
		_, err := c.ctr("version")
		return err
	}); err != nil {
		return err
	}
	if err := errors.Join(c.serveControllers(), c.serveKubelet()); err != nil {
		return err
	}
	return c.awaitReady()
}

// group makes the control group below which the pods' are, where kubelet wants it to exist.
func (c *cluster) group() error {
	hierarchies := []string{"/sys/fs/cgroup"}
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return err
	}
	if fs.Type != unix.CGROUP2_SUPER_MAGIC {
		var err error
		if hierarchies, err = filepath.Glob("/sys/fs/cgroup/*"); err != nil {
			return err
		}
	}
	for _, h := range hierarchies {
		if err := os.Mkdir(filepath.Join(h, filepath.Base(c.dir)), 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// await waits until check returns nil. It gives up when a service ends.
func (c *cluster) await(what string, check func() error) error {
	err := wait.Until(c, func() error {
		if err := c.machine.check(); err != nil {
			return wait.Final(err)
		}
		return check()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// awaitReady waits until the node is ready, and pods may be scheduled on it.
func (c *cluster) awaitReady() error {
	return c.await("the node", func() error {
		var n struct {
			Spec   struct{ Taints []object }
			Status struct {
				Conditions []struct{ Type, Status, Message string }
			}
		}
		if err := c.api.get(context.Background(), "/api/v1/nodes/"+nodeName, &n); err != nil {
			return err
		}
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("the node has the taints %v", n.Spec.Taints)
		}
		for _, condition := range n.Status.Conditions {
			if condition.Type == "Ready" && condition.Status == "True" {
				return nil
			}
		}
		return fmt.Errorf("the node is not ready: %+v", n.Status.Conditions)
	})
}

func (c *cluster) serveEtcd() error {
	return c.serve("etcd", "etcd", "--data-dir", c.path("etcd"), "--unsafe-no-fsync", "--log-level", "warn", "--logger", "zap",
		"--listen-client-urls", "http://127.0.0.1:2379", "--advertise-client-urls", "http://127.0.0.1:2379",
		"--listen-peer-urls", "http://127.0.0.1:2380")
}

func (c *cluster) serveContainerd() error {
	return c.serve("containerd", "containerd", "--config", c.path("containerd.toml"))
}

func (c *cluster) serveAPI() error {
	key := c.path("key")
	return c.serve("kube-apiserver", "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379", "--cert-dir="+c.path("certificates"),
		"--secure-port=6443", "--bind-address=127.0.0.1", "--advertise-address="+nodeAddress, "--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=192.0.2.0/24", "--authorization-mode=AlwaysAllow", "--token-auth-file="+c.path("tokens"),
		"--service-account-issuer=https://kubernetes.invalid", "--service-account-key-file="+key, "--service-account-signing-key-file="+key,
		"--kubelet-preferred-address-types=InternalIP", "--allow-privileged=true")
}

func (c *cluster) serveControllers() error {
	config := "--kubeconfig=" + c.path("kubeconfig")
	return errors.Join(
		c.serve("kube-controller-manager", "kube-controller-manager", config, "--service-account-private-key-file="+c.path("key"),
			"--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=500", "--kube-api-burst=1000"),
		c.serve("kube-scheduler", "kube-scheduler", config, "--leader-elect=false", "--bind-address=127.0.0.1", "--kube-api-qps=500", "--kube-api-burst=1000"))
}

func (c *cluster) serveKubelet() error {
	return c.serve("kubelet", "kubelet", "--config="+c.path("kubelet.yaml"), "--kubeconfig="+c.path("kubeconfig"),
		"--hostname-override="+nodeName, "--node-ip="+nodeAddress, "--cert-dir="+c.path("certificates/kubelet"), "--v=2")
}

// ctr runs containerd's own command.
func (c *cluster) ctr(args ...string) (string, error) {
	return c.run(append([]string{"ctr", "--address", "/run/containerd/containerd.sock", "--namespace", "k8s.io"}, args...)...)
}

// kubectl runs kubectl.
func (c *cluster) kubectl(args ...string) (string, error) {
	return c.run(append([]string{"kubectl"}, args...)...)
}

// scratch returns the directory of this run.
func scratch() string { return "/var/tmp/" + prefix + strconv.Itoa(os.Getpid()) }
