package clone

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/volume"
)

// Many Mounts of several refs run while pushes, other refs that come and go, repacks and losses move the store. Each
// has the refs of one moment: its own is at its commit, a push that ended before the Mount began is there, and no object
// is missing.
func TestMountsWhileTheStoreMoves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.prepare(w.spec("ref", "main")).Release()
	c := w.clone(w.spec())
	var pushed atomic.Pointer[string]
	first := w.remote("rev-parse", "main")
	pushed.Store(&first)
	stop := make(chan struct{})
	var moving sync.WaitGroup
	moving.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			w.Advance(time.Second)
			w.remote("branch", "-f", "moves", "main")
			id, err := gitserver.Commit(w.Server.Path("r"), "main", gitserver.Change{Path: "pushed", Content: fmt.Sprint(i)})
			if err != nil {
				t.Error(err)
				return
			}
			pushed.Store(&id)
			w.remote("tag", "-a", "-m", "x", fmt.Sprint("v2.", i), "main")
			switch i % 32 {
			case 3, 13, 23:
				w.remote("tag", "-d", fmt.Sprint("v2.", i))
			case 5, 15, 25:
				unlock, err := c.remote.Lock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				store := c.remote.StoreDir("full")
				if i%32 == 25 {
					err = os.RemoveAll(store)
				} else if _, there := c.remote.Store(volume.History{}); there {
					err = w.m.config.Git.Repack(t.Context(), store)
				}
				if err != nil && !c.remote.StoreLost(w.spec().Source) {
					t.Error(err)
				}
				unlock()
			}
		}
	})
	var mounts sync.WaitGroup
	for i := range 8 {
		ref := []string{"main", "feature/x"}[i%2]
		mounts.Go(func() {
			for range 6 {
				before := *pushed.Load()
				co, err := c.Prepare(t.Context(), w.spec("ref", ref))
				if err != nil {
					t.Error(err)
					return
				}
				dir := w.Mount(co.Lower, 0)
				if got := run(t, dir, 0, "rev-parse", "HEAD", "origin/"+ref); got != co.Resolution.Commit+"\n"+co.Resolution.Commit {
					t.Errorf("%s: HEAD and its upstream are %s, want %s", ref, got, co.Resolution.Commit)
				}
				if ref == "main" {
					run(t, dir, 0, "merge-base", "--is-ancestor", before, "HEAD")
				}
				run(t, dir, 0, "fsck", "--connectivity-only")
				co.Release()
			}
		})
	}
	mounts.Wait()
	close(stop)
	moving.Wait()
}
