// Package kubernetes tests the CSI driver as a cluster has it: with a real etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubelet and containerd, and the driver's own image as the pod of the DaemonSet of deploy/kubernetes.
//
// The cluster has one node, a machine with namespaces of its own: an overlay of this machine's root directory (boot.sh).
// All its processes, mounts and network interfaces end with its process 1, which ends with the test, also if the test is
// killed. Its files are below one directory in /var/tmp, its control groups below one of that directory's name; what a
// killed run left of these, the next run removes.
//
// TestKubernetes takes minutes and is left out of `make test`. `make test-kubernetes` runs it and prints a line for each
// scenario. It needs root and the programs that needs and build provide.
package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// prefix begins the names of the scratch directories. The pid of the test follows. It is short, because paths of sockets
// begin with it.
const prefix = "hd-kube-"

func TestMain(m *testing.M) {
	if err := removeLeftovers(); err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// removeLeftovers removes what runs that were killed have left.
func removeLeftovers() error {
	var errs []error
	for _, pattern := range []string{"/var/tmp/" + prefix + "*", "/sys/fs/cgroup/" + prefix + "*", "/sys/fs/cgroup/*/" + prefix + "*"} {
		paths, err := filepath.Glob(pattern)
		errs = append(errs, err)
		for _, path := range paths {
			pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), prefix))
			switch {
			case err != nil || unix.Kill(pid, 0) == nil:
			case strings.HasPrefix(path, "/var/tmp/"):
				errs = append(errs, os.RemoveAll(path))
			default:
				errs = append(errs, removeGroup(path))
			}
		}
	}
	return errors.Join(errs...)
}

// groups returns the control groups that match a pattern, in all hierarchies.
func groups(pattern string) (found []string, err error) {
	for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		paths, err := filepath.Glob(root + pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if info, err := os.Lstat(path); err == nil && info.IsDir() {
				found = append(found, path)
			}
		}
	}
	return found, nil
}

// ofContainers matches the control groups of all containers. containerd makes them there, because kubelet names no
// parent without cgroupsPerQOS.
const ofContainers = "k8s.io/*"

// removeGroup removes a control group with those below it. It has no processes any more.
func removeGroup(group string) error {
	below, err := filepath.Glob(filepath.Join(group, "*"))
	if err != nil {
		return err
	}
	for _, path := range below {
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			if err := removeGroup(path); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(group); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
