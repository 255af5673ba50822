package csi

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"google.golang.org/grpc/codes"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/volume"
)

// volumes are the verbs of a single volume, which no remote has.
type volumes struct {
	verbs.Verbs
	subject  string // of the volume; empty: there is none
	created  chan struct{}
	proceed  chan struct{}
	acquired string // the subject whose workspace was given away
}

var errDone = errors.New("as far as this test goes")

func (v *volumes) Leases(string) []string { return nil }

func (v *volumes) Get(string) (verbs.Volume, error) {
	if v.subject == "" {
		return verbs.Volume{}, errDone
	}
	return verbs.Volume{Options: volume.Options{Mode: volume.ModeKeep, Subject: volume.Subject(v.subject)}, State: &verbs.State{}}, nil
}

func (v *volumes) Create(_ context.Context, _ string, options map[string]string) error {
	if v.subject = options["subject"]; v.subject == "k8s/a/default" {
		close(v.created)
		<-v.proceed
	}
	return nil
}

func (v *volumes) Acquire(context.Context, verbs.Lease) (verbs.Mount, error) {
	v.acquired = v.subject
	return verbs.Mount{}, errDone
}

func (v *volumes) Release(context.Context, verbs.Lease) error { return nil }

func (v *volumes) Remove(context.Context, string) error {
	v.subject = ""
	return nil
}

// newDriver returns a Driver over v.
func newDriver(t *testing.T, v verbs.Verbs) *Driver {
	t.Helper()
	dir := t.TempDir()
	db, state, err := meta.Open(filepath.Join(dir, "meta.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	log := logrus.New()
	log.SetOutput(io.Discard)
	return New(Config{Volumes: v, DB: db, Log: log, Now: time.Now, Kubelet: dir, Wait: time.Minute}, state)
}

// TestOneVolumeAtATime checks that a pod of another subject can't replace a persistent volume
// between the two steps of a publish, which would show its files to the pod of the first. Control:
// the second call, without the lock, removes the volume.
func TestOneVolumeAtATime(t *testing.T) {
	t.Parallel()
	for _, locked := range []bool{false, true} {
		v := &volumes{created: make(chan struct{}), proceed: make(chan struct{})}
		d := newDriver(t, v)
		of := func(namespace string) call {
			return call{
				request: request{pod: meta.Pod{Namespace: namespace}, options: map[string]string{"subject": "k8s/" + namespace + "/default"}},
				target:  overlay.Target{Dir: d.pods(), Rel: namespace}, volume: "pv",
			}
		}
		done := make(chan error)
		go func() { done <- d.publish(t.Context(), of("a")) }()
		<-v.created
		impatient, cancel := context.WithCancel(t.Context())
		cancel()
		if locked {
			if err := d.publish(impatient, of("b")); CodeOf(err) != codes.Aborted {
				t.Errorf("meanwhile: %v", err)
			}
		} else {
			_ = d.mayUse(impatient, of("b"))
			_ = v.Create(impatient, "pv", of("b").options)
		}
		close(v.proceed)
		if err := <-done; !errors.Is(err, errDone) {
			t.Errorf("%v", err)
		}
		if other := v.acquired != "k8s/a/default"; other == locked {
			t.Errorf("with the lock: %v, the pod got the workspace of %q", locked, v.acquired)
		}
	}
}

// TestSweepWithoutPods checks that a sweep undoes nothing while the directory of all pods is
// missing, which may be elsewhere by mistake. Control: with it, it does.
func TestSweepWithoutPods(t *testing.T) {
	t.Parallel()
	d := newDriver(t, &volumes{})
	p := meta.Publication{Target: filepath.Join(d.pods(), "uid/v/mount"), Volume: "v", Lease: "l"}
	if err := d.record(p); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(t.Context()); !errors.Is(err, fs.ErrNotExist) || len(d.Publications()) != 1 {
		t.Errorf("%v, left %+v", err, d.Publications())
	}
	if err := os.Mkdir(d.pods(), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := d.Sweep(t.Context()); err != nil || len(d.Publications()) > 0 {
		t.Errorf("control: %v, left %+v", err, d.Publications())
	}
}
