package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work/phase"
	"github.com/helmdeck/repos/internal/workspace"
)

// failing is a verbs.Verbs whose verbs fail.
type failing struct {
	verbs.Verbs
	err error
}

func (f failing) Create(context.Context, string, map[string]string) error { return f.err }
func (f failing) Acquire(context.Context, verbs.Lease) (verbs.Mount, error) {
	return verbs.Mount{}, f.err
}
func (f failing) Leases(string) []string                     { return []string{"1"} }
func (f failing) Release(context.Context, verbs.Lease) error { return f.err }
func (f failing) Remove(context.Context, string) error       { return f.err }

// TestObserveKinds checks that each request is reported once, with the kind of its error.
func TestObserveKinds(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancelCause(t.Context())
	stop(ErrStopping)
	for _, tt := range []struct {
		ctx  context.Context
		err  error
		want verbs.Kind
	}{
		{t.Context(), nil, ""},
		{t.Context(), fmt.Errorf("x: %w", workspace.ErrHeld), verbs.Held},
		{t.Context(), &giterror.Error{Kind: giterror.KindServer}, verbs.Unavailable},
		{t.Context(), &giterror.Error{Kind: giterror.KindAuth}, verbs.Denied},
		{t.Context(), &giterror.Error{Kind: giterror.KindNotFound}, verbs.NotFound},
		{t.Context(), context.DeadlineExceeded, verbs.Unfinished},
		{t.Context(), context.Canceled, verbs.Canceled},
		{t.Context(), errors.New("a bug"), verbs.Internal},
		{stopping, ErrStopping, verbs.Canceled},
	} {
		var got []Event
		log := logrus.New()
		log.SetLevel(logrus.PanicLevel)
		d := New(Config{Volumes: failing{err: tt.err}, Log: log, Now: time.Now, MountWait: time.Minute, Observe: func(e Event) { got = append(got, e) }})
		_, _ = d.Mount(tt.ctx, "v", "1")
		_ = d.Unmount(tt.ctx, "v", "1")
		_ = d.Create(tt.ctx, "v", nil)
		_ = d.Remove(tt.ctx, "v")
		ops := []Operation{OpMount, OpUnmount, OpCreate, OpRemove}
		if len(got) != len(ops) {
			t.Fatalf("%v: %d events", tt.err, len(got))
		}
		for i, e := range got {
			if e.Operation != ops[i] || e.Kind != tt.want || e.Took < 0 || (e.Phases != nil) != (e.Operation == OpMount) {
				t.Errorf("%v: got %+v, want kind %q", tt.err, e, tt.want)
			}
		}
	}
}

// TestObservePanic checks that a panic counts as an error of the plugin.
func TestObservePanic(t *testing.T) {
	t.Parallel()
	var got []Event
	d := New(Config{Now: time.Now, MountWait: time.Minute, Observe: func(e Event) { got = append(got, e) }}) // without Volumes
	for _, request := range []func(){
		func() { _, _ = d.Mount(t.Context(), "v", "1") }, func() { _ = d.Unmount(t.Context(), "v", "1") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			request()
		}()
	}
	if len(got) != 2 || got[0].Kind != verbs.Internal || got[1].Kind != verbs.Internal {
		t.Errorf("got %+v", got)
	}
}

// TestObserveMounts checks the events of real requests.
func TestObserveMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var got []Event
	w.config.Observe = func(e Event) { got = append(got, e) }
	last := func(what string, kind verbs.Kind, phases ...phase.Phase) {
		t.Helper()
		if len(got) != 1 {
			t.Fatalf("%s: events %+v, want one", what, got)
		}
		e := got[0]
		got = nil
		var have []phase.Phase
		for p := range phase.Count {
			if took, ok := e.Phases[p]; ok {
				have = append(have, p)
				if took < 0 || took > e.Took {
					t.Errorf("%s: phase %v took %v of %v", what, p, took, e.Took)
				}
			}
		}
		if e.Kind != kind || !slices.Equal(have, phases) {
			t.Errorf("%s: got kind %q and phases %v, want %q and %v", what, e.Kind, have, kind, phases)
		}
	}
	ctx := t.Context()
	if err := w.Create(ctx, "v", w.options("refresh", "1h")); err != nil {
		t.Fatal(err)
	}
	last("create", "")
	_ = w.Create(ctx, "v", w.options("refresh", "2h"))
	last("create with other options", verbs.Exists)
	_ = w.Create(ctx, "-", nil)
	last("create with a wrong name", verbs.Invalid)
	_ = w.Create(ctx, "x", map[string]string{"repo": w.server.URL("none")})
	last("create of an unknown repository", verbs.NotFound)
	w.mountOK("v", "1")
	if len(got) == 1 { // Create may have begun the fetch
		delete(got[0].Phases, phase.Fetch)
	}
	last("first mount", "", phase.Resolve, phase.Build, phase.Mount)
	w.mountOK("v", "2")
	last("warm mount", "", phase.Resolve, phase.Build, phase.Mount)
	w.mountOK("v", "2")
	last("docker cp", "")
	_ = w.Remove(ctx, "v")
	last("remove while mounted", verbs.InUse)
	_, _ = w.Mount(ctx, "none", "1")
	last("unknown volume", verbs.NotFound)
	_, _ = w.Mount(ctx, "v", "a#2")
	last("wrong mount ID", verbs.Invalid)
	_, _ = w.Mount(ctx, "v", podmanID)
	last("private volume of Podman", verbs.Denied)
	w.core.Reached = func() error { return errors.New("the mounts are lost") }
	_, _ = w.Mount(ctx, "v", "3")
	last("unreachable", verbs.Unreachable, phase.Resolve, phase.Build, phase.Mount)
	if _, err := w.Mount(ctx, "v", "1"); err != nil {
		t.Errorf("the answer is %v, want a path that can't exist", err)
	}
	last("unreachable, and answered with a path", verbs.Unreachable)
	for i, id := range []string{"1", "1", "2", "2", "2", "unknown"} {
		if err := w.Unmount(ctx, "v", id); err != nil {
			t.Error(err)
		}
		last(fmt.Sprint("unmount ", i), "")
	}
	if err := w.Remove(ctx, "v"); err != nil {
		t.Error(err)
	}
	last("remove", "")
}
