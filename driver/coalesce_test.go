package driver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/wait"
)

// waiting counts the goroutines that wait for others in a function.
func waiting(function string) (n int) {
	buf := make([]byte, 16<<20)
	buf = buf[:runtime.Stack(buf, true)]
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		header, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "[select") && strings.Contains(calls, function+"(") {
			n++
		}
	}
	return n
}

// TestMountsShareAQuestion checks that 64 concurrent Mounts of one ref ask the remote twice, and fetch once if the ref
// has moved: those that come during the question of the first one share the next. It is not parallel because it counts
// goroutines.
func TestMountsShareAQuestion(t *testing.T) {
	const mounts = 64
	w := newWorld(t)
	w.patience.most = 5 * time.Minute
	w.create("v")
	w.mountOK("v", "first")
	w.unmountOK("v", "first")
	wait.For(t, "the Create's own fetch", func() error { return wait.Check(!w.core.Clones.Inventory()[0].Working, "it runs") })
	for _, tt := range []struct {
		name  string
		moved bool
		// The server is known, so a question is one request, and the fetch is another.
		want gitserver.Stats
	}{
		{"nothing new", false, gitserver.Stats{LsRefs: 2}},
		{"a new commit", true, gitserver.Stats{LsRefs: 2, Fetches: 1}},
	} {
		if tt.moved {
			if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "new", Content: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		g := gitserver.NewGate()
		w.server.Route("r", g.Fault)
		w.server.Reset()
		var wg sync.WaitGroup
		dirs := make([]string, mounts)
		for i := range mounts {
			wg.Go(func() {
				var err error
				if dirs[i], err = w.Mount(t.Context(), "v", fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
			})
			if i == 0 {
				<-g.Arrived
			}
		}
		wait.For(t, "64 Mounts wait for the answer", func() error {
			return wait.Equal(waiting("remote.(*Remote).ask"), mounts)
		})
		close(g.Open)
		wg.Wait()
		got := w.server.Stats("r")
		got.BytesOut = 0
		if got != tt.want {
			t.Errorf("%s: the server saw %+v, want %+v", tt.name, got, tt.want)
		}
		for i, dir := range dirs {
			if _, err := os.Lstat(filepath.Join(dir, "new")); (err == nil) != tt.moved {
				t.Errorf("%s: mount %d: file \"new\": %v", tt.name, i, err)
			}
			wantErr(t, "unmount", w.Unmount(t.Context(), "v", fmt.Sprint(i)))
		}
	}
}

// TestSlowRemoteDelaysNoOtherVolume checks that other clones can be mounted and all volumes listed
// while the remote of one clone does not answer or sends no pack.
func TestSlowRemoteDelaysNoOtherVolume(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		kind  gitserver.Kind
		state string
	}{
		{"no answer", gitserver.LsRefs, "asking"},
		{"no pack", gitserver.Fetch, "cloning"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.patience.most = 5 * time.Minute
			if _, err := gitserver.Generate(w.server.Path("slow"), gitserver.Spec{Seed: 2, Files: 20, Commits: 1}); err != nil {
				t.Fatal(err)
			}
			w.create("other")
			w.create("slow", "repo", w.server.URL("slow"), "refresh", "never")
			wait.For(t, "the Creates' own fetches", func() error {
				list := w.core.Clones.Inventory()
				return wait.Check(len(list) == 2 && !list[0].Working && !list[1].Working, "the clones %+v", list)
			})
			// Each call below ends at once or never.
			ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t))
			defer cancel()
			g := gitserver.NewGate()
			w.server.Route("slow", gitserver.On(tt.kind, g.Fault))
			// Another subject's clone of the same repository: nothing was fetched for it.
			ended := make(chan error, 1)
			go func() {
				err := w.core.Create(ctx, "stalled", w.options("repo", w.server.URL("slow"), "subject", "s"))
				if err == nil {
					_, err = w.Mount(ctx, "stalled", "1")
				}
				ended <- err
			}()
			<-g.Arrived
			for i := range 3 { // twice at the commit that is there, and once at a new one
				if i == 2 {
					if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "new", Content: "x"}); err != nil {
						t.Fatal(err)
					}
				}
				for _, name := range []string{"other", "slow"} {
					dir, err := w.Mount(ctx, name, fmt.Sprint(i))
					if err != nil {
						t.Fatal(err)
					}
					if _, err := os.Lstat(filepath.Join(dir, "new")); (err == nil) != (i == 2 && name == "other") {
						t.Errorf("%s, mount %d: file \"new\": %v", name, i, err)
					}
				}
				if got := w.List(); len(got) < 2 {
					t.Errorf("List: %+v", got)
				}
				for _, name := range []string{"other", "slow"} {
					if v, err := w.Get(name); err != nil || v.Status["state"] != "ready" {
						t.Errorf("Get: %+v, %v", v, err)
					}
				}
			}
			wait.For(t, "the volume is there", func() error { _, err := w.Get("stalled"); return err })
			if v, err := w.Get("stalled"); err != nil || v.Status["state"] != tt.state {
				t.Errorf("Get of the stalled volume: %+v, %v; want state %s", v, err, tt.state)
			}
			for _, name := range []string{"other", "slow"} {
				for i := range 3 {
					wantErr(t, "unmount", w.Unmount(ctx, name, fmt.Sprint(i)))
				}
				wantErr(t, "remove", w.core.Remove(ctx, name))
			}
			close(g.Open)
			wantErr(t, "the stalled Mount", <-ended)
		})
	}
}
