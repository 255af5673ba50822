package main

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

func (p *process) list() []string {
	p.t.Helper()
	volumes, err := p.List(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	var names []string
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return names
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func mounts(t *testing.T, dir string) []overlay.Point {
	t.Helper()
	points, err := testdir.Mounts(dir)
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// TestRestart checks that volumes and leases survive a restart, that containers notice nothing, and
// that the next mount reuses the clone.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, data := remote(t), scratch(t)
	p := start(t, data)
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	p.create("w", map[string]string{"repo": s.URL("sample"), "ref": "v1.0.0"})
	dir := p.mount("v", "1")
	p.mount("v", "1") // docker cp
	write(t, filepath.Join(dir, "mine"), "x")
	before := p.get("v").Status["leases"]
	p.stop()

	p = start(t, data)
	if got := p.list(); !reflect.DeepEqual(got, []string{"v", "w"}) {
		t.Errorf("volumes %q", got)
	}
	if got := p.get("v"); !reflect.DeepEqual(got.Status["leases"], before) || got.Mountpoint != dir {
		t.Errorf("leases %v at %s, want %v at %s", got.Status["leases"], got.Mountpoint, before, dir)
	}
	p.unmount("v", "1")
	if got := read(t, filepath.Join(dir, "mine")); got != "x" {
		t.Errorf("the file of the container has %q", got)
	}
	p.unmount("v", "1")
	s.Reset()
	dir = p.mount("v", "2")
	if got := testgit.About(t, dir)["reused"]; got != true {
		t.Errorf("reused %v, want true", got)
	}
	if got := s.Stats("sample"); got.LsRefs != 1 || got.Fetches != 0 {
		t.Errorf("the server saw %+v, want one question", got)
	}
	p.unmount("v", "2")
	if got := mounts(t, data); len(got) > 0 {
		t.Errorf("mounts left: %v", got)
	}
}

// TestMountsVanished starts the plugin after the engine has removed all mounts. The leases must be
// gone and the workspaces removed, and Unmount of the old IDs must succeed.
func TestMountsVanished(t *testing.T) {
	t.Parallel()
	s, data := remote(t), scratch(t)
	p := start(t, data)
	p.create("v", map[string]string{"repo": s.URL("sample")})
	dir := p.mount("v", "1")
	p.stop()
	own, err := filepath.Glob(filepath.Join(p.at.data, "clones/*/*/workspaces", filepath.Base(dir)))
	if err != nil || len(own) != 1 {
		t.Fatalf("the workspace's directory: %q, %v", own, err)
	}
	testdir.Unmount(t, data)
	p = start(t, data, "LOG_LEVEL=debug")
	p.unmount("v", "1")
	if got := p.get("v"); got.Mountpoint != "" || len(got.Status["leases"].([]any)) > 0 {
		t.Errorf("volume %+v, want no mount and no lease", got)
	}
	p.waitFor("trash: deleted map[entry:workspace-")
	if _, err := os.Stat(own[0]); !os.IsNotExist(err) {
		t.Errorf("the workspace's directory: %v, want it removed", err)
	}
	p.mount("v", "1")
}

// TestDamagedDatabase checks that a damaged database is set aside and rebuilt. Volumes are still
// listed, a mounted workspace is unchanged, and the next mount works without a new clone.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		data []byte // nil: the file is gone
	}{{"garbage", []byte(strings.Repeat("garbage ", 10000))}, {"empty", []byte{}}, {"gone", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			s, data := remote(t), scratch(t)
			if _, err := gitserver.Commit(s.Path("sample"), "main", gitserver.Change{Path: ".hdcache", Content: "tracked"}); err != nil {
				t.Fatal(err)
			}
			main := map[string]string{"repo": s.URL("sample"), "ref": "main"}
			p := start(t, data)
			p.create("v", main)
			commit := p.mount("v", "0")
			head := testgit.Git(t, commit, "rev-parse", "HEAD")
			p.create("w", map[string]string{"repo": s.URL("sample"), "ref": head, "subject": "default"})
			dir := p.mount("v", "1")
			write(t, filepath.Join(dir, "mine"), "x")
			p.stop()

			path := filepath.Join(p.at.data, "meta.db")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			s.Reset()
			if tt.data == nil {
				p = start(t, data)
			} else {
				if err := os.WriteFile(path, tt.data, 0o600); err != nil {
					t.Fatal(err)
				}
				p = start(t, data)
				p.waitFor("the database is damaged: it is set aside as meta.db.damaged-")
				if aside, err := filepath.Glob(path + ".damaged-*"); err != nil || len(aside) != 1 || read(t, aside[0]) != string(tt.data) {
					t.Errorf("set aside: %q, %v", aside, err)
				}
			}
			if got := p.list(); !reflect.DeepEqual(got, []string{"v", "w"}) {
				t.Errorf("volumes %q", got)
			}
			p.create("v", main)
			if got := testgit.Git(t, dir, "status", "--porcelain"); got != "?? mine" {
				t.Errorf("status of the mounted workspace: %q", got)
			}
			// The volume w comes first because it needs no fetch: nothing has filled the record yet.
			for _, name := range []string{"w", "v"} {
				next := p.mount(name, "2")
				if got := testgit.Git(t, next, "status", "--porcelain"); got != "" {
					t.Errorf("status %q, want clean", got)
				}
				if got := testgit.About(t, next)["reused"]; got != true {
					t.Errorf("reused %v, want true", got)
				}
				p.unmount(name, "2")
			}
			if got := s.Stats("sample").Clones; got != 0 {
				t.Errorf("%d clones, want none", got)
			}
			p.unmount("v", "1")
			p.unmount("v", "0")
			if got := mounts(t, data); len(got) > 0 {
				t.Errorf("mounts left: %v", got)
			}
		})
	}
}

// TestSecondInstance starts a second instance, which waits 5 s for the first to end, then fails, even if
// the first one's database is gone.
func TestSecondInstance(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	data := scratch(t)
	p := start(t, data)
	if err := os.Remove(filepath.Join(p.at.data, databaseFile)); err != nil {
		t.Fatal(err)
	}
	second := p.at
	second.socket = filepath.Join(data, "second.sock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := run(ctx, second, environment(), logrus.New())
	if err == nil || !strings.Contains(err.Error(), "another instance is using it") || !strings.Contains(err.Error(), strconv.Quote(second.data)) {
		t.Errorf("a second instance: %v", err)
	}
	if got := p.list(); len(got) > 0 {
		t.Errorf("volumes %q", got)
	}
	if _, err := os.Lstat(second.socket); !os.IsNotExist(err) {
		t.Errorf("the socket of the second instance: %v, want it missing", err)
	}
}

// TestEngineHangsUp checks that the workspace is removed if the connection ends during a Mount, and
// that the next Mount works.
func TestEngineHangsUp(t *testing.T) {
	t.Parallel()
	s, data := remote(t), scratch(t)
	p := start(t, data)
	gate := gitserver.NewGate()
	p.create("v", map[string]string{"repo": s.URL("sample"), "ref": "main"})
	p.mount("v", "0")
	p.unmount("v", "0")
	s.Wrap(gate.Fault)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Mount(ctx, "v", "1")
		ended <- err
	}()
	<-gate.Arrived
	cancel()
	if err := <-ended; err == nil {
		t.Error("a Mount whose client hung up succeeded")
	}
	p.waitFor("mount: failed")
	close(gate.Open)
	if got := p.get("v").Status["leases"].([]any); len(got) > 0 {
		t.Errorf("leases %v", got)
	}
	if got := mounts(t, data); len(got) > 0 {
		t.Errorf("mounts left: %v", got)
	}
	p.mount("v", "1")
}

// TestMountWait checks that a Mount waits as long as MOUNT_WAIT says.
func TestMountWait(t *testing.T) {
	t.Parallel()
	s := remote(t)
	p := start(t, scratch(t), "MOUNT_WAIT=1s")
	release := make(chan struct{})
	s.Wrap(gitserver.Stall(release))
	p.create("v", map[string]string{"repo": s.URL("sample")}) // works although the server is silent
	err := p.tryMount("v", "1")
	if err == nil || !strings.Contains(err.Error(), "not done after "+time.Second.String()) {
		t.Errorf("Mount: %v", err)
	}
	close(release)
}
