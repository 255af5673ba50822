package kubernetes

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// driverName is the name of the CSI driver.
const driverName = "repos.helmdeck.dev"

// world is the cluster with what the scenarios need.
type world struct {
	*cluster
}

// TestKubernetes runs the scenarios on one cluster, in their order. Each leaves the cluster as it found it.
func TestKubernetes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("run the tests as root: they mount")
	}
	began := time.Now()
	w := newWorld(t)
	fmt.Printf("kubernetes: the cluster runs after %.1f s\n", time.Since(began).Seconds())
	for _, s := range scenarios {
		began := time.Now()
		held := t.Run(s.name, func(t *testing.T) { s.run(t, w) })
		verdict := "held"
		if !held {
			verdict = "NOT HELD"
		}
		fmt.Printf("%-60s %s (%.1f s)\n", s.name, verdict, time.Since(began).Seconds())
	}
}

// scenario is one thing that has to hold. A scenario that fails does not stop the others.
type scenario struct {
	name string
	run  func(t *testing.T, w *world)
}

var scenarios = []scenario{
	{"a pod with an emptyDir", bare},
}

func newWorld(t *testing.T) *world {
	t.Helper()
	programs, err := exec.Command("./build").Output()
	if err != nil {
		t.Fatalf("build: %v: run tests/kubernetes/build", err)
	}
	w := &world{}
	t.Cleanup(func() { w.close(t) })
	if err := os.Mkdir(scratch(), 0o755); err != nil {
		t.Fatal(err)
	}
	w.cluster, err = newCluster(scratch(), strings.TrimSpace(string(programs)))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeBox(w.path("box.tar")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.ctr("images", "import", w.path("box.tar")); err != nil {
		t.Fatal(err)
	}
	return w
}

// close ends the cluster and checks that nothing of it is left.
func (w *world) close(t *testing.T) {
	t.Helper()
	if w.cluster != nil {
		if t.Failed() {
			for _, name := range []string{"kubelet", "containerd"} {
				t.Logf("the end of the log of %s:\n%s", name, w.tail(name))
			}
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
	_, took, err := w.startPod("default", newPod("bare", emptyDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("running after %v", took)
	if out, err := w.sh("default", "bare", "echo $((1 + 1)); touch /w/file; ls /w"); err != nil || out != "2\nfile" {
		t.Errorf("got %q, %v", out, err)
	}
	if err := w.deletePod("default", "bare"); err != nil {
		t.Error(err)
	}
}
