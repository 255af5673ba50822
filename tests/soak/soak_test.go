package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/daemon"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testdisk"
	"github.com/helmdeck/repos/tests/wait"
)

// A run of five minutes must have leastMounts and leastEvicted at least, other runs in proportion.
const (
	clones       = 30
	workers      = 16
	leastMounts  = 2000
	leastEvicted = 100
	// minFree is the setting MIN_FREE.
	minFree = "40%"
)

// overtime is how much longer than -duration a run may take until its work is done, on a busy
// machine.
const overtime = 15 * time.Minute

// soak is a plugin with the state that its answers promise.
type soak struct {
	*testing.T
	d      *daemon.Daemon
	config daemon.Config
	repos  []*repo
	// keptTexts has the text in the kept workspace of a worker, and is used by that worker alone.
	keptTexts [keepWorkers]string
	mounts    atomic.Int64
	limit     int64                    // MAX_SIZE, in bytes
	onMount   func(took time.Duration) // called after each mount; may be nil

	mu          sync.Mutex
	checkpoints map[string]string // the text in each checkpoint that must exist, by ID
	lost        []string          // IDs of checkpoints that could not be restored
	evicted     map[string]bool   // IDs of checkpoints and layers that the janitor reports as evicted
}

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	s := &soak{T: t, checkpoints: make(map[string]string), evicted: make(map[string]bool)}
	s.prepare()
	began := time.Now()
	open, err := invariant.Descriptors(s.d.Pid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	var all sync.WaitGroup
	for n := range workers {
		w := &worker{soak: s, n: n, rand: rand.New(rand.NewPCG(uint64(n), 5))}
		all.Go(func() {
			for ctx.Err() == nil {
				if err := w.work(); err != nil {
					stop(fmt.Errorf("worker %d, step %d: %w", n, w.step, err))
				}
			}
		})
	}
	share := duration.Seconds() / (5 * time.Minute).Seconds()
	samples := 0
	for ctx.Err() == nil {
		if err := s.sample(); err != nil {
			stop(err)
		}
		samples++
		took := time.Since(began)
		if took >= *duration && float64(s.mounts.Load()) >= share*leastMounts && float64(s.evictions()) >= share*leastEvicted {
			stop(context.Canceled)
		}
		if took > *duration+overtime {
			stop(fmt.Errorf("only %d mounts and %d evictions in %v", s.mounts.Load(), s.evictions(), took))
		}
	}
	all.Wait()
	if err := context.Cause(ctx); err != context.Canceled {
		t.Fatal(err)
	}
	fmt.Printf("%d mounts, %d evictions in %v; the budget of %d KiB held in %d samples\n",
		s.mounts.Load(), s.evictions(), time.Since(began).Round(time.Second), s.limit>>10, samples)
	s.finish(open)
}

// idleToServer is how many idle connections to one server the plugin keeps (internal/git/githttp).
const idleToServer = 4

// prepare starts the plugin, makes it clone every repository, and starts it again with a budget of
// a third of that size.
func (s *soak) prepare() {
	s.Helper()
	disk, repositories := filepath.Join(scratch, "disk"), filepath.Join(scratch, "repos")
	// The plugin deletes the trash slowly as long as minFree is free, which holds the files of
	// some seconds. The rest is full of trash after some more.
	if err := errors.Join(os.Mkdir(repositories, 0o755), testdisk.Ext4(disk, 8<<30, "-N", "32768")); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if s.Failed() {
			log := s.config.Log()
			s.Logf("the end of the plugin's log:\n%s", log[max(0, len(log)-20_000):])
		}
		if s.d != nil {
			_ = s.d.Kill() // it may have ended
		}
		if err := testdisk.Eject(s, disk); err != nil {
			s.Error(err)
		}
	})
	server, err := gitserver.Start(repositories)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { server.Close() })
	for n := range clones {
		r, err := newRepo(server, n)
		if err != nil {
			s.Fatal(err)
		}
		s.repos = append(s.repos, r)
	}
	s.config = daemon.Config{Program: program, Dir: scratch, Data: filepath.Join(disk, "data"), Env: []string{"MAX_SIZE=0"}}
	s.start()
	first := &worker{soak: s, n: workers, rand: rand.New(rand.NewPCG(0, 0))}
	for _, r := range s.repos {
		name, err := first.volume(r, "private", nil)
		if err != nil {
			s.Fatal(err)
		}
		dir, err := first.mount(name, "first")
		if err := errors.Join(err, r.check(dir, 1), s.d.Unmount(s.Context(), name, "first")); err != nil {
			s.Fatal(err)
		}
	}
	s.settle()
	sizes, err := s.sizes()
	if err != nil {
		s.Fatal(err)
	}
	for _, size := range sizes {
		s.limit += size / 3
	}
	stats, err := s.d.Admin.Stats(s.Context()) // the plugin's own files count too
	if err == nil {
		err = s.d.Stop()
	}
	if err != nil {
		s.Fatal(err)
	}
	s.mounts.Store(0)
	s.config.Env = []string{fmt.Sprintf("MAX_SIZE=%dB", s.limit+stats.Own.Bytes), "SWEEP_INTERVAL=5s", "MIN_FREE=" + minFree}
	s.start()
}

func (s *soak) start() {
	s.Helper()
	d, err := daemon.Start(s, s.config)
	if err != nil {
		s.Fatal(err)
	}
	s.d = d
}

// settle waits until the plugin's background work is done.
func (s *soak) settle() {
	s.Helper()
	if err := wait.Until(s, func() error { return invariant.Structure(s.config.DataDir()) }); err != nil {
		s.Fatalf("the data: %v", err)
	}
}

// addCheckpoint records that a workspace becomes a checkpoint, if a text was written to it.
func (s *soak) addCheckpoint(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, ownFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints[idOf(dir)] = string(text)
	return err
}

// idOf returns the ID of a workspace, which is also the ID of its checkpoint.
func idOf(dir string) string { return filepath.Base(dir) }

// claim removes a checkpoint from the list, so that no other worker begins with it.
func (s *soak) claim(id string) (text string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok = s.checkpoints[id]
	delete(s.checkpoints, id)
	return text, ok
}

// unclaim ends a claim.
func (s *soak) unclaim(id, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checkpoints[id] = text
}

// addLost records a checkpoint that is gone, because the janitor must have evicted it.
func (s *soak) addLost(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = append(s.lost, id)
}

// sample makes the janitor sweep until the clones are within the budget, and records the evictions. The first sweep may not
// be enough: what was built in the last second has no size yet (see soon in internal/clone).
func (s *soak) sample() error {
	if err := wait.Until(s, s.sweep); err != nil {
		return err
	}
	return s.recordEvictions()
}

// sweep makes the janitor sweep, and checks the size of the clones after that.
func (s *soak) sweep() error {
	began := time.Now()
	if _, err := s.d.Admin.Sweep(context.Background()); err != nil {
		return wait.Final(err)
	}
	sizes, err := s.sizes()
	if err != nil {
		return wait.Final(err)
	}
	var total, allowed int64
	for _, r := range s.repos {
		total += sizes[r.name]
		if r.inUseSince(began) {
			allowed += sizes[r.name]
		}
	}
	allowed += s.limit
	if total > allowed+allowed/10 {
		return fmt.Errorf("after a sweep the clones take %d KiB, want at most %d KiB: the budget and the clones in use", total>>10, allowed>>10)
	}
	return nil
}

// recordEvictions records the IDs in the janitor's events.
func (s *soak) recordEvictions() error {
	events, err := s.d.Admin.Events(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if e.Type == string(janitor.Evicted) && e.ID != "" {
			s.evicted[e.ID] = true
		}
	}
	return err
}

// evictions returns the number of the janitor's evictions since the start.
func (s *soak) evictions() (n int64) {
	stats, err := s.d.Admin.Stats(context.Background())
	if err != nil {
		s.Error(err)
	}
	for _, c := range stats.Counts {
		if c.Type == string(janitor.Evicted) {
			n += c.Times
		}
	}
	return n
}

// finish checks all checkpoints and kept workspaces, removes all volumes, stops the plugin, and checks
// that nothing is left. open is the number of the plugin's file descriptors at the start.
func (s *soak) finish(open int) {
	s.Helper()
	if err := s.d.AwaitEmptyTrash(); err != nil {
		s.Fatal(err)
	}
	s.settle()
	data := s.config.DataDir()
	if err := invariant.Content(data); err != nil {
		s.Errorf("the content: %v", err)
	}
	state, err := invariant.State(data)
	if err != nil {
		s.Fatal(err)
	}
	if err := s.recordEvictions(); err != nil { // after the state: the janitor may have swept meanwhile
		s.Error(err)
	}
	for id, text := range s.checkpoints {
		switch rec, ok := state.Workspaces[id]; {
		case ok && rec.Phase == meta.Checkpoint:
			if err := invariant.ViewWorkspace(data, rec, func(dir string) error { return wantText(dir, text) }); err != nil {
				s.Errorf("checkpoint %s: %v", id, err)
			}
		case ok || !s.evicted[id]:
			s.Errorf("checkpoint %s with %q is gone, and the janitor reports no eviction: %+v", id, text, rec)
		}
	}
	for _, id := range s.lost {
		if !s.evicted[id] {
			s.Errorf("checkpoint %s is gone, and the janitor reports no eviction", id)
		}
	}
	for n, text := range s.keptTexts {
		if text == "" {
			continue
		}
		w := &worker{soak: s, n: n, rand: rand.New(rand.NewPCG(0, 0)), step: -1}
		if err := w.keep(); err != nil {
			s.Errorf("the kept workspace of worker %d: %v", n, err)
		}
	}
	list, err := s.d.List(s.Context())
	if err != nil {
		s.Error(err)
	}
	for _, v := range list {
		if err := s.d.Remove(s.Context(), v.Name); err != nil {
			s.Error(err)
		}
	}
	s.settle()
	if err := wait.Until(s, func() error {
		left, err := invariant.Descriptors(s.d.Pid())
		// The workers' connections stay open, and those to the one server for its next question.
		if err == nil && left > open+workers+idleToServer {
			err = fmt.Errorf("the plugin has %d open file descriptors, and had %d at the start", left, open)
		}
		return errors.Join(err, invariant.Leaks(scratch, s.d.Pid()))
	}); err != nil {
		s.Error(err)
	}
	if err := s.d.Stop(); err != nil {
		s.Error(err)
	}
	s.d = nil
	if err := invariant.Ended(data); err != nil {
		s.Errorf("at the end: %v", err)
	}
}
