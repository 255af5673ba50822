package kubernetes

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/tests/environ"
)

// world is the cluster with what the scenarios need.
type world struct {
	*cluster
	remote *remote
	kept   []string // the volumes that stay, because persistent volumes have them
}

var (
	only    = flag.String("scenarios", "", "a regular `expression` that matches the names of the scenarios to run; empty: all")
	release = flag.String("release", "", "the `directory` in whose build/release is the release 1.2.3 to test; empty: what make image has made, and deploy/kubernetes")
)

// archive returns the image of the driver.
func archive(t *testing.T) string {
	t.Helper()
	if *release != "" {
		return absolute(t, filepath.Join(*release, "build/release/1.2.3", "helmdeck-repos-csi_1.2.3_"+runtime.GOARCH+".tar"))
	}
	return absolute(t, "../../build/image/helmdeck-repos-csi-"+runtime.GOARCH+".tar")
}

// objects returns what kubectl apply and kubectl delete need for the objects of the driver.
func objects(t *testing.T) []string {
	t.Helper()
	if *release != "" {
		return []string{"-f", absolute(t, filepath.Join(*release, "build/release/1.2.3/kubernetes.yaml"))}
	}
	return []string{"-k", absolute(t, "../../deploy/kubernetes")}
}

// TestKubernetes runs the scenarios on one cluster, in their order. Each leaves the cluster as it found it.
func TestKubernetes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: they mount")
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(scenarios, func(s scenario) bool { return wanted.MatchString(s.name) }) {
		t.Fatalf("no scenario matches %q", *only)
	}
	began := time.Now()
	w := newWorld(t)
	fmt.Printf("kubernetes: the cluster runs after %.1f s\n", time.Since(began).Seconds())
	for _, s := range scenarios {
		if !wanted.MatchString(s.name) && !s.always {
			continue
		}
		began := time.Now()
		held := t.Run(s.name, func(t *testing.T) { s.run(t, w) })
		verdict := "held"
		if !held {
			verdict = "NOT HELD"
		}
		fmt.Printf("%-72s %s (%.1f s)\n", s.name, verdict, time.Since(began).Seconds())
		if s.always && !held {
			t.Fatal("the other scenarios need this one")
		}
	}
}

// scenario is one thing that has to hold. A scenario that fails does not stop the others.
type scenario struct {
	name   string
	run    func(t *testing.T, w *world)
	always bool // the others need it
}

var scenarios = []scenario{
	{"the cluster runs a pod without the driver", bare, true},
	{"kubectl apply of deploy/kubernetes, or of a release, starts the driver", deploy, true},
	{"operators see pods and namespaces", operators, false},
	{"the pods of examples/kubernetes run", examples, false},
	{"the commands of docs/how-to/kubernetes.md", pageCommands, false},
	{"a pod has a private checkout in an inline volume", inlineVolume, false},
	{"a read-only volume", readOnly, false},
	{"a Job prepares dependencies for the pods of its node", prepared, false},
	{"a persistent volume keeps its workspace", persistentVolume, false},
	{"a checkpoint of a running pod, and pods that begin with it", checkpoints, false},
	{"a container restarts in its pod", containerRestart, false},
	{"an fsGroup changes no file", fsGroup, false},
	{"Pod Security: the restricted profile allows an inline volume", restricted, false},
	{"attributes that claim what is not the pod's are refused", spoofed, false},
	{"a private repository, with the secret of nodePublishSecretRef", privateRepository, false},
	{"kubelet restarts, and is killed", kubeletRestart, false},
	{"the driver restarts, and is killed", driverRestart, false},
	{"containerd is killed", containerdRestart, false},
	{"a pod is deleted while no driver runs", deletedMeanwhile, false},
	{"pods are deleted by force", forceDeletion, false},
	{"the DaemonSet is rolled, and pods go on", rollingUpdate, false},
	{"the start of a pod with 10,000 files", startTime, false},
	{"50 pods at once", crowd, false},
	{"the node loses its power", reboot, false},
	{"the driver is deleted, and nothing is left", undeploy, false},
}

// newWorld starts a git server and a cluster with the images of the pods.
func newWorld(t *testing.T) *world {
	t.Helper()
	build := exec.Command("./build")
	build.Env = environ.Downloading()
	programs, err := build.Output()
	if err != nil {
		t.Fatalf("build: %v: run tests/kubernetes/build", err)
	}
	w := &world{}
	t.Cleanup(func() { w.close(t) })
	if err := os.Mkdir(scratch(), 0o755); err != nil {
		t.Fatal(err)
	}
	w.cluster, err = newCluster(t, scratch(), strings.TrimSpace(string(programs)))
	if err != nil {
		t.Fatal(err)
	}
	must(t, writeBox(w.path("box.tar")))
	for _, archive := range []string{w.path("box.tar"), archive(t)} {
		if _, err := w.ctr("images", "import", archive); err != nil {
			t.Fatal(err)
		}
	}
	w.remote = newRemote(t)
	must(t, w.serveRemote())
	// The cluster's controllers make it.
	must(t, w.await("the service account", func() error {
		return w.api.get(context.Background(), "/api/v1/namespaces/default/serviceaccounts/default", nil)
	}))
	return w
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must(t, err)
	return path
}

// close ends the cluster. Its processes, mounts and network end with the machine's process 1.
func (w *world) close(t *testing.T) {
	t.Helper()
	if w.cluster != nil {
		if t.Failed() {
			t.Logf("the end of kubelet's log:\n%s", w.tail("kubelet"))
		}
		if err := w.powerOff(); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(scratch()); err != nil {
		t.Error(err)
	}
}

// bare is the control of the scenarios: the cluster runs pods without the driver.
func bare(t *testing.T, w *world) {
	w.mustStart(t, newPod("bare", emptyDir()))
	w.mustSay(t, "bare", "echo $((1 + 1)); touch /w/file; ls /w", "2\nfile")
	w.mustDelete(t, "bare")
}
