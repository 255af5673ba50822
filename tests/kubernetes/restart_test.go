package kubernetes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/tests/proc"
)

// mine writes a file into the volume of a pod, and untouched checks that the pod still is what it was then.
const (
	mine      = "echo mine >/w/new; cat /w/new"
	untouched = "cat /w/new && test -f /w/.git/HEAD && test -d /w/.git/hdcache/. && echo mine >>/w/new"
)

// A pod goes on while kubelet restarts, which publishes its volume again, and its volume ends with it.
func kubeletRestart(t *testing.T, w *world) {
	p := w.mustStart(t, newPod("steady", inline(attributes(appRepo))))
	w.mustSay(t, "steady", mine, "mine")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		must(t, w.signal("kubelet", signal))
		must(t, w.serveKubelet())
		must(t, w.awaitReady())
		must(t, w.await("kubelet's look at the pod", func() error {
			_, err := w.sh("default", "steady", "true")
			return err
		}))
	}
	w.mustSay(t, "steady", untouched, "mine")
	w.mustBeOne(t, p)
	w.mustDelete(t, "steady")
	w.awaitNothing(t)
}

// mustBeOne checks that a pod's volume is published once.
func (w *world) mustBeOne(t *testing.T, p pod) {
	t.Helper()
	published, _, err := w.mounts()
	must(t, err)
	n := 0
	for _, point := range published {
		if point == w.volumePath(p) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("the volume of %s is mounted %d times, want once", p.Metadata.Name, n)
	}
}

// A pod goes on while the driver restarts, whether it was told to end or was killed.
func driverRestart(t *testing.T, w *world) {
	p := w.mustStart(t, newPod("steady", inline(attributes(appRepo))))
	w.mustSay(t, "steady", mine, "mine")
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		before := w.driver()
		must(t, syscall.Kill(before, signal))
		must(t, w.awaitDriver(before))
	}
	w.mustSay(t, "steady", untouched, "mine")
	w.mustBeOne(t, p)
	w.mustStart(t, newPod("later", inline(attributes(appRepo))))
	w.mustSay(t, "later", "test -e /w/new || echo clean", "clean")
	w.mustDelete(t, "later")
	w.mustDelete(t, "steady")
	w.awaitNothing(t)
}

// A pod goes on while containerd is killed and started.
func containerdRestart(t *testing.T, w *world) {
	p := w.mustStart(t, newPod("steady", inline(attributes(appRepo))))
	w.mustSay(t, "steady", mine, "mine")
	must(t, w.signal("containerd", syscall.SIGKILL))
	must(t, w.serveContainerd())
	must(t, w.await("containerd", func() error {
		_, err := w.sh("default", "steady", "true")
		return err
	}))
	must(t, w.awaitReady())
	w.mustSay(t, "steady", untouched, "mine")
	w.mustBeOne(t, p)
	w.mustDelete(t, "steady")
	w.awaitNothing(t)
}

// A pod that is deleted while no driver runs is gone when there is one again, with all of its volume.
func deletedMeanwhile(t *testing.T, w *world) {
	w.mustStart(t, newPod("orphan", inline(attributes(appRepo))))
	w.mustSay(t, "orphan", mine, "mine")
	must(t, w.stopDriver())
	w.mustSay(t, "orphan", "cat /w/new", "mine")
	gone := make(chan error)
	go func() { gone <- w.deletePod("default", "orphan") }()
	must(t, w.await("kubelet's attempt", func() error {
		if p, err := w.pod("default", "orphan"); err != nil || p.Metadata.DeletionTimestamp == "" {
			return fmt.Errorf("the pod is not being deleted: %v", err)
		}
		return nil
	}))
	must(t, w.startDriver())
	must(t, <-gone)
	w.awaitNothing(t)
}

// The volume of a pod whose object is removed at once goes when kubelet has ended the pod.
func forceDeletion(t *testing.T, w *world) {
	w.mustStart(t, newPod("forced", inline(attributes(appRepo))))
	w.mustSay(t, "forced", mine, "mine")
	must(t, w.forceDelete("default", "forced"))
	w.awaitNothing(t)

	// kubelet does not see this one go, and finds it on its disk.
	w.mustStart(t, newPod("unseen", inline(attributes(appRepo))))
	must(t, w.signal("kubelet", syscall.SIGKILL))
	must(t, w.forceDelete("default", "unseen"))
	must(t, w.serveKubelet())
	must(t, w.awaitReady())
	w.awaitNothing(t)
}

// After a loss of power a pod starts again, on a clean checkout, and finds what its persistent volume kept.
func reboot(t *testing.T, w *world) {
	w.makeClaim(t, "lasting", object{"volumeAttributes": attributes(appRepo)})
	w.mustStart(t, newPod("clean", inline(attributes(appRepo))))
	w.mustSay(t, "clean", mine, "mine")
	w.mustStart(t, newPod("keeper", claim("lasting")))
	w.mustSay(t, "keeper", mine+"; sync", "mine")
	w.mustStart(t, newPod("removed", inline(attributes(appRepo))))
	must(t, w.powerOff())
	must(t, w.newBootID())
	must(t, w.cluster.start())
	must(t, w.serveRemote())
	must(t, w.forceDelete("default", "removed"))
	must(t, w.awaitDriver(0))
	for name, want := range map[string]string{"clean": "clean", "keeper": "mine"} {
		must(t, w.await("the pod's next start", func() error {
			p, err := w.pod("default", name)
			if err == nil && (len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 || !p.Status.ContainerStatuses[0].Ready) {
				err = fmt.Errorf("pod %s has not started again: %+v\n%s", name, p.Status, w.events("default", name))
			}
			return err
		}))
		w.mustSay(t, name, "cat /w/new 2>/dev/null || echo clean", want)
		w.mustSay(t, name, "cd /w && rm -f new; "+portrait, w.remote.want(t, appRepo))
	}
	w.mustDelete(t, "clean")
	w.mustDelete(t, "keeper")
	w.awaitNothing(t)
}

// bootFile has the ID that the driver takes for the kernel's.
func (w *world) bootFile() string { return w.path("tools/boot_id") }

// newBootID writes another boot ID.
func (w *world) newBootID() error {
	id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
	if err != nil {
		return err
	}
	return os.WriteFile(w.bootFile(), id, 0o444)
}

// giveBootID makes the driver see the ID of bootFile instead of the kernel's, because a reboot of the machine does not
// change that. The command runs in the driver's container, with a busybox from the machine.
func (w *world) giveBootID() error {
	box, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	code, err := os.ReadFile(box)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(w.path("tools"), 0o755), os.WriteFile(w.path("tools/busybox"), code, 0o755), w.newBootID()); err != nil {
		return err
	}
	const command = `/tools/busybox mount -o bind /tools/boot_id /proc/sys/kernel/random/boot_id && exec "$@"`
	before := w.driver()
	err = w.patchDriver(object{
		"containers": []object{{
			"name": "repos", "command": []string{"/tools/busybox", "sh", "-c", command, "sh", program},
			"volumeMounts": []object{{"name": "tools", "mountPath": "/tools"}},
		}},
		"volumes": []object{{"name": "tools", "hostPath": object{"path": w.path("tools"), "type": "Directory"}}},
	})
	if err != nil {
		return err
	}
	return w.awaitDriver(before)
}

// The DaemonSet is rolled to other settings, as an upgrade does it. Pods that run do not notice.
func rollingUpdate(t *testing.T, w *world) {
	p := w.mustStart(t, newPod("steady", inline(attributes(appRepo))))
	w.mustSay(t, "steady", mine, "mine")
	before := w.driver()
	must(t, w.patchDriver(object{"containers": []object{{"name": "repos", "env": []object{{"name": "LOG_LEVEL", "value": "debug"}}}}}))
	must(t, w.awaitDriver(before))
	if _, err := w.kubectl("rollout", "status", "--timeout=60s", "--namespace", driverNamespace, "daemonset/repos"); err != nil {
		t.Error(err)
	}
	w.mustSay(t, "steady", untouched, "mine")
	w.mustBeOne(t, p)
	if now, err := w.pod("default", "steady"); err != nil || now.Status.ContainerStatuses[0].ContainerID != p.Status.ContainerStatuses[0].ContainerID {
		t.Errorf("the pod's container: got %+v, %v, want %+v", now.Status.ContainerStatuses, err, p.Status.ContainerStatuses)
	}
	w.mustStart(t, newPod("later", inline(attributes(appRepo))))
	w.mustDelete(t, "later")
	w.mustDelete(t, "steady")
	w.awaitNothing(t)
}

// containers returns the first processes of the containers that run a shell: the tests' pods, and the sandboxes of all.
func (w *world) containers() []int {
	return slices.DeleteFunc(proc.Descendants(w.init.Process.Pid), func(pid int) bool {
		args, err := proc.Args(pid)
		return err != nil || len(args) == 0 || args[0] != idle[0] || !proc.IsInit(pid) || pid == w.init.Process.Pid
	})
}
