package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/wait"
)

// wantStatus checks that the plugin refused a request with a status.
func wantStatus(t *testing.T, what string, err error, status int) *api.Error {
	t.Helper()
	var refused *api.Error
	if !errors.As(err, &refused) || refused.Status != status {
		t.Errorf("%s: %v, want %d", what, err, status)
		return &api.Error{}
	}
	return refused
}

// TestFresh checks what is in the way of a fresh start, that force does not take a lease away,
// and that an operator releases the lease of a container that is gone.
func TestFresh(t *testing.T) {
	t.Parallel()
	data, s, ctx := scratch(t), remote(t), t.Context()
	p := start(t, data)
	p.create("v", map[string]string{"repo": s.URL("sample"), "subject": "team a"})
	p.create("k", map[string]string{"repo": s.URL("sample"), "subject": "team a", "mode": "keep"})
	for _, name := range []string{"v", "k"} {
		if err := os.WriteFile(filepath.Join(p.mount(name, "gone"), "mine"), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.unmount("k", "gone")
	for _, force := range []bool{false, true} {
		_, err := p.admin().FreshSubject(ctx, "team a", force)
		if got := wantStatus(t, "with a lease", err, 409).Obstacles; len(got) != 2 || got[0].Kind != "lease" || got[0].Forced || got[1].Kind != "workspace" || !got[1].Forced {
			t.Errorf("in the way %+v", got)
		}
	}
	wantStatus(t, "release of a new lease", p.admin().ReleaseLease(ctx, "v", "gone"), 409)
	p.stop()
	p = startWith(t, data, func(at *places) { at.startWait = 1 })
	wantStatus(t, "release of an unknown lease", p.admin().ReleaseLease(ctx, "v", "other"), 404)
	wait.For(t, "the release", func() error { return p.admin().ReleaseLease(ctx, "v", "gone") })
	p.unmount("v", "gone") // the engine is late
	wantStatus(t, "a second release", p.admin().ReleaseLease(ctx, "v", "gone"), 404)
	wait.For(t, "the checkpoint", func() error {
		list, err := p.admin().Checkpoints(ctx, api.Filter{})
		return wait.Check(err == nil && len(list) == 1, "%+v, %v", list, err)
	})
	// The kernel's count of who has a workspace can be too high for a moment, while others mount. Then nothing is removed.
	var freed api.Freed
	var err error
	wait.For(t, "the kernel to say that no container has a workspace", func() error {
		freed, err = p.admin().FreshSubject(ctx, "team a", true)
		if err != nil && strings.Contains(err.Error(), "a container has the workspace") {
			return err
		}
		return nil
	})
	if err != nil || freed.Freed < 300*4096 || len(freed.Clones) != 1 || len(freed.Removed) != 2 {
		t.Errorf("freed %+v, %v", freed, err)
	}
	if left, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*")); err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	events, err := p.admin().Events(ctx)
	if err != nil || len(events) != 2 || events[0].Kind != "checkpoint" || events[1].Reason != string(janitor.OnDemand) || events[1].Size.Bytes != freed.Freed {
		t.Errorf("events %+v, %v", events, err)
	}
	wantStatus(t, "fresh again", func() error { _, err := p.admin().FreshSubject(ctx, "team a", true); return err }(), 404)
	for _, name := range []string{"v", "k"} {
		if _, err := os.Lstat(filepath.Join(p.mount(name, "new"), "mine")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("volume %s is not fresh: %v", name, err)
		}
		p.unmount(name, "new")
	}
	var clones []api.Clone
	wait.For(t, "the end of the workspaces", func() error {
		clones, err = p.admin().Clones(ctx, api.Filter{})
		return wait.Check(err == nil && len(clones) == 1, "%+v, %v", clones, err)
	})
	wantStatus(t, "eviction under a kept workspace", func() error { _, err := p.admin().EvictClone(ctx, clones[0].Clone); return err }(), 409)
	if err := p.Remove(ctx, "k"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the eviction", func() error {
		freed, err = p.admin().EvictClone(ctx, clones[0].Clone)
		return err
	})
	if freed.Freed < 300*4096 || len(freed.Clones) != 1 {
		t.Errorf("evicted %+v", freed)
	}
}

// TestOwnLimits checks that the limits of a subject take the place of the settings, also for one
// without clones, and survive a restart, and that the janitor obeys a new one at once.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	data, s, ctx := scratch(t), remote(t), t.Context()
	p := start(t, data)
	repo := map[string]string{"repo": s.URL("sample"), "subject": "team a"}
	if err := p.admin().SetLimits(ctx, "team a", api.OwnLimits{MaxLeases: new(1)}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p.create("v", repo)
		p.mount("v", "1")
		if err := p.tryMount("v", "2"); err == nil {
			t.Error("a second mount is above the limit")
		}
		p.unmount("v", "1")
		p.stop()
		p = start(t, data)
	}
	if err := p.admin().SetLimits(ctx, "team a", api.OwnLimits{}); err != nil {
		t.Fatal(err)
	}
	p.mount("v", "1")
	p.mount("v", "2")
	p.unmount("v", "1")
	p.unmount("v", "2")
	p.create("other", map[string]string{"repo": s.URL("sample"), "subject": "b"})
	p.mount("other", "1")
	p.unmount("other", "1")
	// The clone exceeds the limit on its own, so it is evicted when nobody has used it for ten
	// minutes; an own limit on size names that in Status.
	if err := p.admin().SetLimits(ctx, "team a", api.OwnLimits{MaxSize: new(int64(4096))}); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the finding", func() error {
		stats, err := p.admin().Stats(ctx)
		return wait.Check(err == nil && len(stats.Findings) == 1 && stats.Findings[0].Reason == string(janitor.SubjectMaxSize), "%+v, %v", stats.Findings, err)
	})
}

// TestWarm checks that a client sees how far the work is, that the work ends with its client, and
// that the first mount after it fetches nothing.
func TestWarm(t *testing.T) {
	t.Parallel()
	s, ctx := remote(t), t.Context()
	p := start(t, scratch(t))
	gate := gitserver.NewGate()
	s.Route("sample", gitserver.On(gitserver.Fetch, gate.Fault))
	want := api.Warm{Repo: s.URL("sample"), Ref: "main", Subject: "team a", Options: map[string]string{"uid": "7"}}
	going, goAway := context.WithCancel(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := p.admin().Warm(going, want, nil)
		gone <- err
	}()
	<-gate.Arrived
	goAway()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that went: %v", err)
	}
	wait.For(t, "the end of the work", func() error {
		list, err := p.admin().Clones(ctx, api.Filter{})
		return wait.Check(err == nil && len(list) == 0, "%+v, %v", list, err)
	})
	s.Route("sample")
	var progress []string
	res, err := p.admin().Warm(ctx, want, func(p api.Progress) { progress = append(progress, p.Status) })
	if err != nil || res.Subject != "team a" || res.Ref != "main" || len(progress) == 0 {
		t.Fatalf("got %+v, %v; progress %q", res, err, progress)
	}
	s.Reset()
	p.create("v", map[string]string{"repo": want.Repo, "ref": "main", "subject": "team a", "uid": "7"})
	if got := s.Stats("sample"); got.Fetches != 0 {
		t.Errorf("Create fetched %+v", got)
	}
	dir := p.mount("v", "1")
	if got := s.Stats("sample"); got.Fetches != 0 {
		t.Errorf("the mount fetched %+v", got)
	}
	if head, err := os.ReadFile(filepath.Join(dir, ".git", "helmdeck.json")); err != nil || !strings.Contains(string(head), res.Commit) || !strings.Contains(string(head), `"reused": false`) {
		t.Errorf("the workspace is %s, %v; want commit %s, not reused", head, err, res.Commit)
	}
	p.unmount("v", "1")
	var refused *api.Error
	if _, err := p.admin().Warm(ctx, api.Warm{Repo: s.URL("none")}, nil); !errors.As(err, &refused) {
		t.Errorf("an unknown repository: %v", err)
	}
	wantStatus(t, "a wrong option", func() error {
		_, err := p.admin().Warm(ctx, api.Warm{Repo: want.Repo, Options: map[string]string{"mode": "x"}}, nil)
		return err
	}(), 400)
}
