package main

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/api"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/wait"
)

// TestReadyWithoutAVolume checks that what a volume mounted is kept ready after the volume was
// removed, by KEEP_READY and on request, so that the next Mount fetches and builds nothing.
func TestReadyWithoutAVolume(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s := remote(t)
	url := s.URL("sample")
	var ahead atomic.Int64
	p := startWith(t, scratch(t), func(at *places) {
		at.now, at.idle = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, true
	}, "KEEP_READY=1m")
	admin := api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
	layers := func() (list []string) {
		t.Helper()
		for _, kind := range []string{"trees", "refs"} {
			dirs, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*", kind))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("%q, %v", dirs, err)
			}
			for _, name := range testdir.Names(t, dirs[0]) {
				if !durable.IsTemp(name) {
					list = append(list, kind+" "+name)
				}
			}
		}
		return list
	}
	// use mounts a volume that is removed afterwards, and returns its commit.
	use := func(name string) string {
		t.Helper()
		p.create(name, map[string]string{"repo": url, "ref": "main"})
		commit := testgit.About(t, p.mount(name, "1"))["commit"].(string)
		p.unmount(name, "1")
		if err := p.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		return commit
	}
	push := func(content string) string {
		t.Helper()
		commit, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: "new", Content: content})
		if err != nil {
			t.Fatal(err)
		}
		return commit
	}
	wantReady := func(when, commit string) {
		t.Helper()
		before := layers()
		s.Reset()
		if got := use(when); got != commit || s.Stats("sample").Fetches > 0 {
			t.Errorf("%s: the Mount has %s, want %s, and fetches %d times", when, got, commit, s.Stats("sample").Fetches)
		}
		for _, l := range layers() {
			if !slices.Contains(before, l) {
				t.Errorf("%s: the Mount has built %s", when, l)
			}
		}
	}
	use("first")
	commit, before := push("a"), layers()
	wait.For(t, "a tree and a git layer of the pushed commit", func() error {
		ahead.Add(int64(time.Second)) // with each poll
		built := make(map[string]bool)
		for _, l := range layers() {
			if !slices.Contains(before, l) {
				kind, _, _ := strings.Cut(l, " ")
				built[kind] = true
			}
		}
		return wait.Check(len(built) == 2, "%v", built)
	})
	wantReady("kept", commit)
	commit = push("b")
	list, err := admin.Refresh(t.Context(), api.Refresh{Repo: url, Ref: "refs/heads/main", Subject: "default"})
	if err != nil || len(list) != 1 || list[0].Commit != commit || list[0].Ref != "main" || list[0].Clone == "" {
		t.Errorf("refreshed %+v, %v", list, err)
	}
	wantReady("requested", commit)
	for _, tt := range []struct {
		r      api.Refresh
		status int
	}{{api.Refresh{Repo: url, Subject: "other"}, 404}, {api.Refresh{Repo: "file:///x"}, 400}} {
		var refused *api.Error
		if _, err := admin.Refresh(t.Context(), tt.r); !errors.As(err, &refused) || refused.Status != tt.status {
			t.Errorf("%+v: %v, want %d", tt.r, err, tt.status)
		}
	}
}

// TestStopDuringARefresh checks that the plugin stops while a refresh waits for its remote.
func TestStopDuringARefresh(t *testing.T) {
	t.Parallel()
	p, s, gate, _ := startBeforeAQuestion(t)
	answer := make(chan error)
	go func() {
		admin := api.Dial(filepath.Join(filepath.Dir(p.at.socket), adminSocket))
		_, err := admin.Refresh(t.Context(), api.Refresh{Repo: s.URL("sample")})
		answer <- err
	}()
	<-gate.Arrived
	p.stop()
	var refused *api.Error
	if err := <-answer; !errors.As(err, &refused) || refused.Status != 503 {
		t.Errorf("got %v, want 503", err)
	}
}
