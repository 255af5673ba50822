package clone

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/wait"
)

// stall makes the remote fall silent in the middle of each pack, and reports each request
// for one.
func (w *world) stall() (asked <-chan struct{}) {
	requests := make(chan struct{}, 100)
	silent := gitserver.StallAfter(200, nil)
	w.Server.Wrap(gitserver.On(gitserver.Fetch, func(next http.Handler) http.Handler {
		next = silent(next)
		return http.HandlerFunc(func(response http.ResponseWriter, r *http.Request) {
			requests <- struct{}{}
			next.ServeHTTP(response, r)
		})
	}))
	return requests
}

// children returns the directories in /proc of the processes whose working directory is in
// a clone.
func (w *world) children(c *Clone) (list []string) {
	w.T.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		w.T.Fatal(err)
	}
	for _, link := range links {
		if dir, err := os.Readlink(link); err == nil && strings.HasPrefix(dir, c.Dir+"/") {
			list = append(list, filepath.Dir(link))
		}
	}
	return list
}

// Work without callers continues until an eviction of its clone cancels it.
func TestEvictionCancelsWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	asked := w.stall()
	s := w.spec("ref", "main")
	c := w.clone(s)
	ctx, cancel := context.WithCancel(work.WithOwner(t.Context(), work.Owner{Name: "a mount", Urgent: true}))
	prepared := make(chan error, 2)
	prepare := func(ctx context.Context) {
		_, err := c.Prepare(ctx, s)
		prepared <- err
	}
	go prepare(ctx)
	<-asked
	if info, ok := c.Info(); !ok || !info.Working || !info.Attended || !strings.Contains(info.Busy, "work for a mount, since ") {
		t.Errorf("while a mount waits: %+v, %v", info, ok)
	}
	cancel()
	if err := <-prepared; !errors.Is(err, context.Canceled) {
		t.Fatalf("a mount that gave up: %v", err)
	}
	if info, ok := c.Info(); !ok || !info.Working || info.Attended {
		t.Errorf("when it has given up: %+v, %v", info, ok)
	}
	wantBusy(t, "without stop", w.m.EvictClone(t.Context(), c.Key, work.StopNothing), "work for a mount")
	// A new caller of the work gets the error.
	go prepare(work.WithOwner(t.Context(), work.Owner{Name: "another mount", Urgent: true}))
	wait.For(t, "the mount waits", func() error { info, _ := c.Info(); return wait.Check(info.Attended, "no mount waits: %+v", info) })
	if err := w.m.EvictClone(t.Context(), c.Key, work.StopAll); err != nil {
		t.Fatal(err)
	}
	if err := <-prepared; !errors.Is(err, ErrEvicted) {
		t.Errorf("a mount of a clone that was evicted: %v", err)
	}
	if left := w.children(c); len(left) > 0 {
		t.Errorf("processes that are left: %q", left)
	}
	if got := testdir.Names(t, filepath.Join(w.Root, "clones")); len(got) > 0 {
		t.Errorf("directories that are left: %q", got)
	}
	if info, ok := c.Info(); ok {
		t.Errorf("it is still there: %+v", info)
	}
	w.Server.Wrap(nil)
	w.prepare(s).Release()
}

// A task that makes room does not wait for its own end.
func TestTaskDoesNotEvictItsOwnClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	c := w.clone(w.spec("ref", "main"))
	_, err := work.ShareTask(t.Context(), c.used, "task", func(ctx context.Context) (int, error) {
		return 0, w.m.EvictClone(ctx, c.Key, work.StopAll)
	})
	wantBusy(t, "by itself", err, "needs room")
}

// A fetch ends even if the remote never refuses.
func TestFetchTimesOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.git.FetchTimeout = 2 * time.Second
	w.restart("boot 1")
	w.stall()
	s := w.spec("ref", "main")
	c := w.clone(s)
	_, err := c.Prepare(t.Context(), s)
	var limit *work.LimitError
	if !errors.As(err, &limit) || !strings.Contains(err.Error(), "FETCH_TIMEOUT=2s") {
		t.Errorf("got %v, want that FETCH_TIMEOUT has passed", err)
	}
	if left := w.children(c); len(left) > 0 {
		t.Errorf("processes that are left: %q", left)
	}
	if info, ok := c.Info(); ok {
		t.Errorf("the clone is still held: %+v", info)
	}
}

// A fetch that has received its pack, and a checkout, wait for a CPU slot, and the status
// says so.
func TestStatusWhileWaitingForSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	one := work.Limits{Slots: 1, PerSubject: 1}
	scheduler := work.NewScheduler([3]work.Limits{work.CPU: one, work.Fetch: one, work.Question: one})
	w.git.Scheduler = scheduler
	w.restart("boot 1")
	slot, err := scheduler.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: "another"}), work.CPU, false)
	if err != nil {
		t.Fatal(err)
	}
	// Eight files, of which seven are sent as deltas. git says that it resolves deltas when it has
	// resolved the first of them. The others must take it longer than the plugin takes to stop it.
	random := make([]byte, 512<<10)
	rand.NewChaCha8([32]byte{}).Read(random)
	var large []gitserver.Change
	for i := range 8 {
		end := strconv.Itoa(i)
		large = append(large, gitserver.Change{Path: "large" + end, Content: hex.EncodeToString(random) + end})
	}
	w.Commit("main", large...)
	s := w.spec("ref", "main")
	c := w.clone(s)
	prepared := make(chan error, 1)
	go func() {
		co, err := c.Prepare(t.Context(), s)
		if err == nil {
			co.Release()
		}
		prepared <- err
	}()
	wait.For(t, "the fetch waits", func() error {
		doing := c.remote.Doing.String()
		return wait.Check(strings.HasPrefix(doing, "waiting for its turn behind other work: cloning "), "%s", doing)
	})
	if got := c.Status(s.History); got.State != "cloning" || !strings.Contains(got.Progress, "waiting for its turn") {
		t.Errorf("status: %+v", got)
	}
	// A process that was ready to run stops when its turn comes.
	wait.For(t, "all processes stop", func() error {
		for _, p := range w.children(c) {
			if stat, err := os.ReadFile(filepath.Join(p, "stat")); err == nil && !strings.Contains(string(stat), ") T ") {
				return fmt.Errorf("it runs: %s", stat)
			}
		}
		return nil
	})
	slot.Release()
	if err := <-prepared; err != nil {
		t.Fatal(err)
	}
}

// A user of a clone does not wait for its eviction, because the eviction waits for the
// user: a Mount gets an error at once if an eviction starts between two of its steps.
func TestUserDoesNotWaitForEviction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	c := w.clone(s)
	w.prepare(s).Release()
	w.idle(c)
	ctx := work.WithOwner(t.Context(), work.Owner{Name: "a mount", Urgent: true})
	release, err := c.Use(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	wantBusy(t, "by its user", w.m.EvictClone(ctx, c.Key, work.StopAll), "needs room")
	evicted := make(chan error, 1)
	go func() { evicted <- w.m.EvictClone(t.Context(), c.Key, work.StopAll) }()
	wait.For(t, "the eviction waits", func() error { info, _ := c.Info(); return wait.Equal(info.Busy, "it is being evicted") })
	if _, err := c.Prepare(ctx, s); !errors.Is(err, ErrEvicted) {
		t.Errorf("prepare: %v, want that the clone was evicted", err)
	}
	release()
	if err := <-evicted; err != nil {
		t.Error(err)
	}
}

// An eviction for space does not cancel a Mount that came after the eviction was planned.
func TestEvictionForSpaceDoesNotCancelMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	asked := w.stall()
	s := w.spec("ref", "main")
	c := w.clone(s)
	ctx, cancel := context.WithCancel(work.WithOwner(t.Context(), work.Owner{Name: "a mount", Urgent: true}))
	prepared := make(chan error, 1)
	go func() {
		_, err := c.Prepare(ctx, s)
		prepared <- err
	}()
	<-asked
	wantBusy(t, "while a mount waits", w.m.EvictClone(t.Context(), c.Key, work.StopUnattended), "work for a mount")
	cancel()
	if err := <-prepared; !errors.Is(err, context.Canceled) {
		t.Errorf("prepare: %v", err)
	}
	if err := w.m.EvictClone(t.Context(), c.Key, work.StopUnattended); err != nil {
		t.Error(err)
	}
}

// The error of a question that does not get a slot says so and does not blame the remote.
func TestQuestionGetsNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	one := work.Limits{Slots: 1, PerSubject: 1}
	scheduler := work.NewScheduler([3]work.Limits{work.CPU: one, work.Fetch: one, work.Question: one})
	w.git.Scheduler = scheduler
	w.restart("boot 1")
	w.m.config.AskTimeout = 100 * time.Millisecond
	slot, err := scheduler.Acquire(work.WithOwner(t.Context(), work.Owner{Subject: "another"}), work.Question, false)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	s := w.spec("ref", "main")
	_, err = w.clone(s).Prepare(t.Context(), s)
	if giterror.KindOf(err) != giterror.KindTimeout || !strings.Contains(err.Error(), "waited for its turn behind other work") || strings.Contains(err.Error(), "did not answer") {
		t.Errorf("got %v, want that the question waited for its turn", err)
	}
	if lsRefs, _, _ := w.requests(); lsRefs != 0 {
		t.Errorf("%d questions", lsRefs)
	}
}
