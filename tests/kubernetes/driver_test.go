package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/proc"
)

// What deploy/kubernetes has.
const (
	driverName      = "repos.helmdeck.dev"
	driverNamespace = "helmdeck-repos"
	driverSet       = "/apis/apps/v1/namespaces/" + driverNamespace + "/daemonsets/repos"
	adminSocket     = "/var/lib/kubelet/plugins/" + driverName + "/admin.sock"
)

// program is the path of the driver's program in its container.
const program = "/usr/bin/helmdeck-repos"

// driver returns the pid of the driver's process; 0 if none runs.
func (c *cluster) driver() int {
	for _, pid := range proc.Descendants(c.init.Process.Pid) {
		// The driver's children have its name too for a moment, before they execute git.
		if args, err := proc.Args(pid); err == nil && len(args) > 0 && args[0] == program && proc.IsInit(pid) {
			return pid
		}
	}
	return 0
}

// admin returns a client of the driver's admin socket.
func (c *cluster) admin() *api.Client { return api.Dial(c.seen(adminSocket)) }

// awaitDriver waits until kubelet has registered a driver that is not the process before, and its admin socket answers.
func (c *cluster) awaitDriver(before int) error {
	return c.await("the driver", func() error {
		pid := c.driver()
		if pid == 0 || pid == before {
			return errors.New("it does not run")
		}
		if _, err := c.admin().Clones(context.Background(), api.Filter{}); err != nil {
			return err
		}
		var n struct {
			Spec struct{ Drivers []struct{ Name string } }
		}
		if err := c.api.get(context.Background(), "/apis/storage.k8s.io/v1/csinodes/"+nodeName, &n); err != nil {
			return err
		}
		for _, d := range n.Spec.Drivers {
			if d.Name == driverName {
				return nil
			}
		}
		return errors.New("it is not registered")
	})
}

// stopDriver keeps the DaemonSet from running on the node, until startDriver.
func (c *cluster) stopDriver() error {
	if err := c.patchDriver(object{"nodeSelector": object{"test/no": "driver"}}); err != nil {
		return err
	}
	return c.await("the end of the driver", func() error {
		if pid := c.driver(); pid != 0 {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
}

// startDriver undoes stopDriver.
func (c *cluster) startDriver() error {
	if err := c.patchDriver(object{"nodeSelector": object{"test/no": nil}}); err != nil {
		return err
	}
	return c.awaitDriver(0)
}

// patchDriver changes the spec of the DaemonSet's pods.
func (c *cluster) patchDriver(spec object) error {
	return c.api.call(context.Background(), http.MethodPatch, driverSet, object{"spec": object{"template": object{"spec": spec}}}, nil)
}

// mounts returns the driver's mounts that the machine has, the published ones and the others.
func (c *cluster) mounts() (published, others []string, err error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", c.init.Process.Pid))
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	all, err := mountinfo.GetMountsFromReader(file, nil)
	for _, m := range all {
		switch data := "/var/lib/helmdeck-repos/"; {
		case strings.HasPrefix(m.Mountpoint, "/var/lib/kubelet/pods/") && m.Source == "helmdeck-repos":
			published = append(published, m.Mountpoint)
		case strings.HasPrefix(m.Mountpoint, data) && m.Mountpoint != data+"mnt":
			others = append(others, m.Mountpoint)
		}
	}
	return published, others, err
}

// awaitNothing waits until no pod's volume is left: no mount, no lease, no volume but the kept ones, no git.
func (w *world) awaitNothing(t *testing.T) {
	t.Helper()
	err := w.await("the end of all volumes", func() error {
		published, others, err := w.mounts()
		if err != nil || len(published) > 0 || len(w.kept) == 0 && len(others) > 0 {
			return fmt.Errorf("mounts are left: %q, %q, %v", published, others, err)
		}
		volumes, err := w.admin().Volumes(context.Background(), api.Filter{})
		if err != nil {
			return err
		}
		for _, v := range volumes {
			if !slices.Contains(w.kept, v.Name) {
				return fmt.Errorf("the volume %s is left", v.Name)
			}
			if v.Leases > 0 {
				return fmt.Errorf("%d leases of the volume %s are left", v.Leases, v.Name)
			}
		}
		if pids := proc.Descendants(w.driver()); len(pids) > 0 {
			return fmt.Errorf("processes of the driver are left: %v", pids)
		}
		return nil
	})
	if err != nil {
		t.Errorf("after the scenario: %v", err)
	}
}

// volumePath returns the directory at which kubelet has a pod's volume published.
func (w *world) volumePath(p pod) string {
	// kubelet names the directory after the pod's volume, or after its persistent volume.
	return filepath.Join("/var/lib/kubelet/pods", p.Metadata.UID, "volumes/kubernetes.io~csi/w/mount")
}

// volumeDir returns volumePath as this process sees it.
func (w *world) volumeDir(p pod) string { return w.seen(w.volumePath(p)) }
