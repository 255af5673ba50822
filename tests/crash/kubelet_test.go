package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testgit"
)

// published are the scenarios with the driver for Kubernetes.
var published = []scenario{{
	name: "a pod with an inline volume", between: serveKubelet, do: podOf(true),
	points: []string{
		"csi/publish/recorded", "csi/publish/created", "workspace/open/recorded", "csi/publish/acquired", "csi/publish/made", "csi/publish/mounted",
		"csi/unpublish/unmounted", "csi/unpublish/removed", "csi/unpublish/released", "verbs/remove/recorded", "csi/unpublish/volume",
	},
}, {
	name: "a pod with a persistent volume", between: serveKubelet, do: podOf(false),
	points: []string{"csi/publish/acquired", "csi/publish/mounted", "csi/unpublish/unmounted", "csi/unpublish/released"},
}}

func init() { scenarios = append(scenarios, published...) }

func (w *world) kubeletDir() string { return filepath.Join(w.dir, "disk", "k") }

// serveKubelet lets the next runs of the plugin serve kubelet too.
func serveKubelet(w *world) {
	w.config.Env = append(w.config.Env, "CSI_ENDPOINT="+filepath.Join(w.kubeletDir(), "csi.sock"), "CSI_NODE=node", "KUBELET_DIR="+w.kubeletDir())
	w.must(os.MkdirAll(filepath.Join(w.kubeletDir(), "pods"), 0o755))
}

// podOf returns a scenario's operation: kubelet publishes a volume for a pod, and unpublishes it. After
// that nothing of it is left, unless it is kept.
func podOf(ephemeral bool) func(w *world) error {
	return func(w *world) error {
		name := fmt.Sprintf("csi-ephemeral-%v", ephemeral)
		w.unsure[name] = true
		target := filepath.Join(w.kubeletDir(), "pods", name, "volumes", "kubernetes.io~csi", "repo", "mount")
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		k, err := dialKubelet(filepath.Join(w.kubeletDir(), "csi.sock"))
		if err != nil {
			return err
		}
		defer k.Close()
		for range 2 { // kubelet repeats calls
			if err := k.publish(w.Context(), name, target, map[string]string{
				"repo": server.URL(w.repo), "csi.storage.k8s.io/ephemeral": fmt.Sprint(ephemeral), "csi.storage.k8s.io/pod.name": "p",
				"csi.storage.k8s.io/pod.namespace": "n", "csi.storage.k8s.io/pod.uid": name, "csi.storage.k8s.io/serviceAccount.name": "s",
			}); err != nil {
				return err
			}
		}
		commit, err := testgit.Run(testgit.Command(target, "rev-parse", "HEAD"))
		if err == nil {
			err = checkWorkspace(held{dir: target, commit: commit})
		}
		for range 2 {
			err = errors.Join(err, k.unpublish(w.Context(), name, target))
		}
		if err != nil {
			return err
		}
		return w.checkUnpublished(name, target, ephemeral)
	}
}

// checkUnpublished checks that nothing is left of a publication.
func (w *world) checkUnpublished(name, target string, ephemeral bool) error {
	state, err := invariant.State(w.config.DataDir())
	if err != nil {
		return err
	}
	if len(state.Publications) > 0 {
		err = fmt.Errorf("left: %+v", state.Publications)
	}
	if _, left := state.Volumes[name]; left == ephemeral {
		err = errors.Join(err, fmt.Errorf("volume %q: exists is %v, ephemeral is %v", name, left, ephemeral))
	}
	for _, rec := range state.Workspaces {
		if rec.Volume == name && len(rec.Leases) > 0 {
			err = errors.Join(err, fmt.Errorf("left: the leases %v of volume %q", rec.Leases, name))
		}
	}
	if _, lerr := os.Lstat(target); !errors.Is(lerr, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("%s: %w, want none", target, lerr))
	}
	return err
}
