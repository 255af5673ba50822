package csi

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// from returns the request for a pod's volume that begins with a checkpoint.
func (w *world) from(r *csi.NodePublishVolumeRequest, id string) *csi.NodePublishVolumeRequest {
	delete(r.VolumeContext, "ref")
	r.VolumeContext["from"] = id
	return r
}

// checkpoint makes a checkpoint of the only workspace of a volume.
func (w *world) checkpoint(volume string) string {
	w.t.Helper()
	list, err := w.daemon.Admin.Workspaces(w.t.Context(), api.Filter{Volume: volume})
	w.ok(err)
	for _, one := range list {
		if one.Phase == "checkpoint" {
			continue
		}
		d, err := w.daemon.Admin.Draft(w.t.Context(), one.ID, api.Note{})
		w.ok(err)
		made, err := w.daemon.Admin.Keep(w.t.Context(), d.ID)
		w.ok(err)
		return made.ID
	}
	w.t.Fatalf("volume %q has no workspace: %+v", volume, list)
	return ""
}

func (w *world) write(dir, name string) {
	w.ok(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
}

// wantFiles checks which of the tests' files a checkout has.
func (w *world) wantFiles(what, dir string, names ...string) {
	w.t.Helper()
	for _, name := range []string{"one", "two", "three"} {
		got, want := exists(filepath.Join(dir, name)), false
		for _, n := range names {
			want = want || n == name
		}
		if got != want {
			w.t.Errorf("%s: file %s: got %v, want %v", what, name, got, want)
		}
	}
}

// TestFrom checks inline volumes that begin with a checkpoint of a running pod, and that pods begin only with those of
// their own subject on their own node.
func TestFrom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.publish(aPod)
	w.write(first, "one")
	id := w.checkpoint(aPod.volume)
	w.write(first, "two")

	fork := w.from(w.request(pod{"default", "fork", "default", "csi-2"}), id)
	w.ok(w.try(fork))
	w.wantFiles("the fork", fork.TargetPath, "one")
	w.write(fork.TargetPath, "three")
	w.wantFiles("the first", first, "one", "two")

	var last string
	for name, r := range map[string]*csi.NodePublishVolumeRequest{
		"an unknown ID":           w.from(w.request(pod{"default", "a", "default", "csi-3"}), "0123456789abcdef"),
		"another namespace":       w.from(w.request(pod{"other", "b", "default", "csi-4"}), id),
		"another service account": w.from(w.request(pod{"default", "c", "other", "csi-5"}), id),
		"a workspace":             w.from(w.request(pod{"other", "d", "other", "csi-6"}), w.liveOf(aPod.volume)),
	} {
		err := w.try(r)
		want(t, name, err, codes.NotFound, "on this node (node-1)", "nodeName", "same namespace and service account")
		if exists(r.TargetPath) {
			t.Errorf("%s: the target exists", name)
		}
		last = status.Convert(err).Message()
	}
	if last == "" {
		t.Error("no error")
	}
	withRef := w.from(w.request(pod{"default", "e", "default", "csi-7"}), id)
	withRef.VolumeContext["ref"] = "main"
	want(t, "from with ref", w.try(withRef), codes.InvalidArgument, "can't be with from")
	if _, err := w.daemon.Admin.Rewind(t.Context(), aPod.volume, id); err == nil {
		t.Error("an inline volume went back")
	}

	w.unpublish(aPod)
	w.wantFiles("the fork, when the first has ended", fork.TargetPath, "one", "three")
	w.ok(w.tryUnpublish("csi-2", fork.TargetPath))
	w.wantNothing()
}

// liveOf returns the ID of a volume's workspace.
func (w *world) liveOf(volume string) string {
	w.t.Helper()
	list, err := w.daemon.Admin.Workspaces(w.t.Context(), api.Filter{Volume: volume, Phase: "mounted"})
	w.ok(err)
	if len(list) != 1 {
		w.t.Fatalf("got %+v, want one workspace", list)
	}
	return list[0].ID
}

// rewind lets a volume go back. An overlay that was just unmounted is in use until its files are on disk, and while a process
// that starts in a mount namespace of its own has a copy of it, so the plugin may refuse at first.
func (w *world) rewind(volume, id string) {
	w.t.Helper()
	w.ok(wait.Until(w.t, func() error {
		_, err := w.daemon.Admin.Rewind(w.t.Context(), volume, id)
		return err
	}))
}

// TestFromOfPersistentVolume checks a persistent volume that begins with a checkpoint: it keeps what its pods write, can go
// back while no pod uses it, and goes on when the checkpoint that it began with is gone.
func TestFromOfPersistentVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(w.publish(aPod), "one")
	id := w.checkpoint(aPod.volume)
	w.unpublish(aPod)

	publish := func(name string) *csi.NodePublishVolumeRequest {
		r := w.from(w.kept(pod{"default", name, "default", "pv"}), id)
		w.ok(w.try(r))
		return r
	}
	r := publish("a")
	w.wantFiles("begun", r.TargetPath, "one")
	w.write(r.TargetPath, "two")
	if _, err := w.daemon.Admin.Rewind(t.Context(), "pv", id); err == nil {
		t.Error("a volume in use went back")
	}
	w.ok(w.tryUnpublish("pv", r.TargetPath))
	r = publish("b")
	w.wantFiles("kept", r.TargetPath, "one", "two")
	w.ok(w.tryUnpublish("pv", r.TargetPath))
	w.rewind("pv", id)
	r = publish("c")
	w.wantFiles("gone back", r.TargetPath, "one")
	w.ok(w.tryUnpublish("pv", r.TargetPath))

	// It goes back to a checkpoint that does not stand on the first, which then goes.
	other := pod{"default", "q", "default", "csi-2"}
	w.write(w.publish(other), "three")
	newer := w.checkpoint(other.volume)
	w.unpublish(other)
	w.rewind("pv", newer)
	w.ok(wait.Until(t, func() error { // what the volume had stands on it
		list, err := w.daemon.Admin.Checkpoints(t.Context(), api.Filter{})
		for _, d := range list {
			if err == nil && d.ID != newer && d.ID != id {
				err = w.daemon.Admin.RemoveCheckpoint(t.Context(), d.ID)
			}
		}
		if err != nil {
			return err
		}
		return w.daemon.Admin.RemoveCheckpoint(t.Context(), id)
	}))
	r = publish("d")
	w.wantFiles("gone back to another", r.TargetPath, "three")
	w.ok(w.tryUnpublish("pv", r.TargetPath))

	// Begun afresh, it has nothing to begin with.
	_, err := w.daemon.Admin.FreshSubject(t.Context(), "k8s/default/default", true)
	w.ok(err)
	r = w.from(w.kept(pod{"default", "e", "default", "pv"}), id)
	want(t, "without its checkpoint", w.try(r), codes.NotFound, "there is no checkpoint", "on this node (node-1)")
	if names := testdir.Names(t, filepath.Dir(r.TargetPath)); len(names) > 0 {
		t.Errorf("left: %q", names)
	}
}
