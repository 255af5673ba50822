package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/tests/testdir"
)

// The content of each clone of crowd.
const (
	crowdTrees       = 3
	crowdCheckpoints = 2
)

// crowd returns the records of many clones, each of a subject of its own, with a store, trees, a
// git layer, a warm layer, a cache, a volume with a parked workspace, and checkpoints. Each part
// has a size of one byte.
func crowd(t testing.TB, clones int) meta.State {
	t.Helper()
	s := meta.State{
		Volumes: make(map[string]meta.Volume), Clones: make(map[string]meta.Clone), Workspaces: make(map[string]meta.Workspace),
		Trees: make(map[string]meta.Layer), GitLayers: make(map[string]meta.Layer), WarmLayers: make(map[string]meta.Layer),
	}
	now := time.Now()
	size := meta.Measured{Size: disk.Size{Bytes: 1, Inodes: 1}, At: now}
	for i := range clones {
		o, err := volume.Parse(map[string]string{"repo": fmt.Sprintf("https://host/org/%d", i), "subject": fmt.Sprint("subject ", i), "mode": "keep"}, nil, volume.AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		key, name := clone.Key(o.Subject, o.Repo), fmt.Sprint("volume", i)
		refs := make(map[string]meta.Resolution)
		for n := range 20 {
			refs[fmt.Sprint("branch", n)] = meta.Resolution{Ref: fmt.Sprint("refs/heads/branch", n), Commit: fmt.Sprint(n), At: now}
		}
		s.Clones[key] = meta.Clone{
			Key: key, Subject: string(o.Subject), Repo: o.Repo.Normalized(), CreatedAt: now, FirstMount: now, LFS: size,
			Stores: map[string]meta.Store{"full": {Format: "sha1", Refs: refs, Size: size}},
		}
		for n := range crowdTrees {
			id := fmt.Sprint("tree", n)
			s.Trees[key+"/"+id] = meta.Layer{Kind: meta.Tree, Clone: key, ID: id, Chain: []string{id}, CreatedAt: now, Size: size, Durable: true}
		}
		s.GitLayers[key+"/git"] = meta.Layer{Kind: meta.GitLayer, Clone: key, ID: "git", CreatedAt: now, Size: size, Durable: true}
		s.WarmLayers[key+"/warm"] = meta.Layer{Kind: meta.WarmLayer, Clone: key, ID: "warm", CreatedAt: now, Size: size, Durable: true}
		s.WarmLayers[key+"/cache"] = meta.Layer{Kind: meta.WarmLayer, Clone: key, ID: "cache", Cache: meta.CacheFiles, CreatedAt: now, Size: size, Durable: true}
		s.Volumes[name] = meta.Volume{Name: name, Options: o.Map(), CreatedAt: now}
		for n := range 1 + crowdCheckpoints {
			id := fmt.Sprintf("%015x%x", i, n)
			w := meta.Workspace{
				ID: id, Mode: "keep", Clone: key, Volume: name, Tree: "tree0", Chain: []string{"tree0"}, GitLayer: "git", Options: o.Map(),
				Phase: meta.Parked, MountedAt: now.Add(time.Duration(n)), Size: size,
			}
			if n > 0 {
				w.Phase, w.EndedAt = meta.Checkpoint, now
			}
			s.Workspaces[id] = w
		}
	}
	return s
}

// buildCrowd builds the parts of a plugin with crowd. Nothing runs.
func buildCrowd(t testing.TB, clones int) (*parts, machine) {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	set, err := loadSettings(environment())
	if err != nil {
		t.Fatal(err)
	}
	set.metrics.subjects = true
	at := places{data: filepath.Join(testdir.New(t, "plugin"), "data"), git: git, fetchUID: fetchUID}
	unlock, err := lock(t.Context(), at.data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	m, err := prepare(at, set, log)
	if err != nil {
		t.Fatal(err)
	}
	db, state, err := openMeta(at.data, m.boot, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	more := crowd(t, clones)
	more.Subjects, more.WarmHeads = state.Subjects, state.WarmHeads
	p, err := build(m, db, more, log)
	if err != nil {
		t.Fatal(err)
	}
	return p, m
}

// TestFigures checks the sums over many clones.
func TestFigures(t *testing.T) {
	t.Parallel()
	const n = 50
	p, m := buildCrowd(t, n)
	f := p.figures(m)
	if f.Volumes != n || f.Clones != n || f.Leases != 0 || f.Swept || f.Damaged || f.Space.Total.Bytes == 0 {
		t.Errorf("%+v", f)
	}
	for class, want := range map[string]int64{
		"store": n, "lfs": n, "cache": n, "tree": crowdTrees * n, "git_layer": n, "warm_layer": n, "workspace": n, "checkpoint": crowdCheckpoints * n,
	} {
		if got := f.Disk[class]; got != (disk.Size{Bytes: want, Inodes: want}) {
			t.Errorf("%s: %v, want %d", class, got, want)
		}
	}
	if len(f.Disk) != 8 {
		t.Errorf("classes: %v", f.Disk)
	}
	if f.Workspaces["parked"] != n || f.Workspaces["checkpoint"] != crowdCheckpoints*n || len(f.Workspaces) != len(phaseNames) {
		t.Errorf("workspaces: %v", f.Workspaces)
	}
	if of := f.Subjects["subject 7"]; len(f.Subjects) != n || of.Bytes != 3+crowdTrees+2+1+crowdCheckpoints {
		t.Errorf("%d subjects, the 7th has %+v", len(f.Subjects), of)
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkScrape measures a scrape by the processor time of all threads, the garbage collector's
// included.
func BenchmarkScrape(b *testing.B) {
	for _, clones := range []int{0, 1000, 10_000} {
		b.Run(fmt.Sprint(clones, " clones"), func(b *testing.B) {
			p, _ := buildCrowd(b, clones)
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				w := httptest.NewRecorder()
				if p.metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil)); w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
			b.ReportMetric((processorTime(b)-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}
