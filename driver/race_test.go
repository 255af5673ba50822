package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace"
)

// TestRaces runs mounts, fetches, sweeps, measurements, evictions and queries at the same time, for
// the race detector. The users check their mounts.
func TestRaces(t *testing.T) {
	t.Parallel()
	const (
		mounts = 4 // for each volume and user
		pause  = 25 * time.Millisecond
	)
	w := newWorld(t)
	volumes := map[string][]string{
		"private": {"warm", "node_modules"},
		"shared":  {"mode", "shared", "depth", "1"},
		"keep":    {"mode", "keep", "sparse", "docs"},
		"default": {"refresh", "1h"},
	}
	for name, options := range volumes {
		w.create(name, options...)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var background sync.WaitGroup
	background.Go(func() { w.core.Trash.Run(ctx) })
	background.Go(func() { w.core.Workspaces.Meter(ctx) })

	var users, others sync.WaitGroup
	var over atomic.Bool
	// besides calls do repeatedly, with pauses, until the users are done.
	besides := func(do func(round int) error) {
		others.Go(func() {
			for round := 0; !over.Load(); round++ {
				if err := do(round); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(pause)
			}
		})
	}
	besides(func(round int) error { // pushes, with time to mount in between
		time.Sleep(10 * pause)
		_, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "pushed", Content: strconv.Itoa(round)})
		return err
	})
	besides(func(int) error {
		for _, info := range w.core.Clones.Inventory() {
			var ids []string
			for _, l := range info.Layers {
				ids = append(ids, l.ID)
			}
			errs := []error{w.core.Clones.EvictLayers(ctx, info.Key, ids), w.core.Clones.EvictClone(ctx, info.Key, work.StopNothing, w.core.Workspaces.Warm().Evicting)}
			for _, h := range w.core.Workspaces.Warm().Heads(info.Key) {
				_ = w.core.Workspaces.Warm().Evict(ctx, info.Key, h.Key) // it may be in use or gone
			}
			for _, l := range w.core.Workspaces.Warm().CacheLayers(info.Key) {
				errs = append(errs, w.core.Workspaces.Warm().EvictCacheLayer(ctx, info.Key, l.ID))
			}
			_, err := w.core.Workspaces.Warm().DropCache(ctx, info.Key, nil, "")
			errs = append(errs, err)
			for _, err := range errs {
				if busy := (*work.BusyError)(nil); err != nil && !errors.As(err, &busy) {
					return err
				}
			}
		}
		for _, d := range w.core.Workspaces.Checkpoints() {
			none, inUse := (*workspace.NoCheckpointError)(nil), (*workspace.InUseError)(nil)
			if err := w.core.Workspaces.EvictCheckpoint(d.ID); err != nil && !errors.As(err, &none) && !errors.As(err, &inUse) {
				return err
			}
		}
		return nil
	})
	besides(func(int) error {
		return errors.Join(w.core.Workspaces.Sweep(ctx), w.core.Clones.SweepAll(ctx), w.core.Sweep(ctx), w.core.Clones.Sync(ctx))
	})
	besides(func(int) error { // encodes the answers as JSON
		answers := []any{w.List(), w.core.Clones.Inventory(), w.core.Workspaces.Workspaces(), w.core.Workspaces.Checkpoints()}
		for name := range volumes {
			v, err := w.Get(name)
			if err != nil {
				return err
			}
			answers = append(answers, v)
		}
		_, err := json.Marshal(answers)
		return err
	})
	var mounted [4]atomic.Int64
	i := 0
	for name := range volumes {
		n := &mounted[i]
		i++
		for _, user := range []string{"a", "b"} {
			users.Go(func() {
				for round := range mounts {
					id := fmt.Sprint(user, round)
					dir, err := w.Mount(ctx, name, id)
					if err != nil {
						continue // the ref moves all the time
					}
					n.Add(1)
					if _, err := os.Stat(filepath.Join(dir, ".git", "helmdeck.json")); err != nil {
						t.Errorf("the mount of %s is not a workspace: %v", name, err)
					}
					if err := errors.Join(os.MkdirAll(filepath.Join(dir, "node_modules"), 0o755),
						os.WriteFile(filepath.Join(dir, "node_modules", id), []byte(id), 0o644)); err != nil {
						t.Errorf("write into %s: %v", name, err)
					}
					if err := w.Unmount(ctx, name, id); err != nil {
						t.Errorf("unmount %s: %v", name, err)
					}
				}
			})
		}
	}
	users.Wait()
	over.Store(true)
	others.Wait()
	cancel()
	background.Wait()
	for i := range mounted {
		if mounted[i].Load() == 0 {
			t.Errorf("volume %d was never mounted", i)
		}
	}
}
