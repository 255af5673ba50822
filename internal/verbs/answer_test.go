package verbs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testverbs"
	"github.com/helmdeck/repos/tests/wait"
)

// world is a data directory with a warm clone of the repository "r", and a clock that stands still.
type world struct {
	*testverbs.World
	t       *testing.T
	ctx     context.Context // of all calls
	server  *gitserver.Server
	clock   atomic.Int64 // nanoseconds since began
	changes atomic.Int64 // of credentials
	pushes  int
	leases  atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), World: testverbs.New(t), server: testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 10})}
	began := time.Now()
	w.Now = func() time.Time { return began.Add(time.Duration(w.clock.Load())) }
	w.CredentialChanges = w.changes.Load
	w.restart()
	w.push()
	w.create("warm")
	w.acquire("warm", 1)
	return w
}

func (w *world) restart() {
	w.t.Helper()
	w.Close()
	w.Start(w.Root)
}

// push adds a commit to main, which has the number of pushes in the file "pushed".
func (w *world) push() {
	w.t.Helper()
	w.pushes++
	if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "pushed", Content: strconv.Itoa(w.pushes)}); err != nil {
		w.t.Fatal(err)
	}
}

// tryCreate creates a volume of the branch main, with more options as names and values.
func (w *world) tryCreate(name string, options ...string) error {
	m := map[string]string{"repo": w.server.URL("r"), "ref": "main"}
	for i := 0; i < len(options); i += 2 {
		m[options[i]] = options[i+1]
	}
	return w.Create(w.ctx, name, m)
}

// create creates a volume, and waits for the end of its own fetch.
func (w *world) create(name string, options ...string) {
	w.t.Helper()
	if err := w.tryCreate(name, options...); err != nil {
		w.t.Fatal(err)
	}
	w.idle()
}

func (w *world) idle() {
	w.t.Helper()
	wait.For(w.t, "the end of the work in the background", func() error {
		list := w.Clones.Inventory()
		return wait.Check(len(list) == 1 && !list[0].Working && !w.prefetching(), "the clones %+v", list)
	})
}

// stacks returns the stacks of all goroutines.
func stacks() []string {
	buf := make([]byte, 16<<20)
	return strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
}

// prefetching reports whether a Create's own fetch runs, or a goroutine has not come to its work yet that may be one.
func (w *world) prefetching() bool {
	return slices.ContainsFunc(stacks(), func(stack string) bool {
		_, calls, _ := strings.Cut(stack, "\n")
		calls, _, _ = strings.Cut(calls, "created by ")
		if strings.Contains(calls, "verbs.(*Volumes).prefetch(") {
			return strings.Contains(calls, fmt.Sprintf("verbs.(*Volumes).prefetch(%p,", w.Volumes))
		}
		top := strings.TrimPrefix(calls, "github.com/helmdeck/repos/internal/")
		beginning := []string{"sync.(*WaitGroup).Go.", "work.(*Group).Go.", "work.WithOwner", "origin.Bind.", "context.With", "verbs.(*Volumes).create."}
		return slices.ContainsFunc(beginning, func(name string) bool { return strings.HasPrefix(top, name) }) ||
			strings.Contains(calls, "verbs.(*Volumes).create.func")
	})
}

// acquire gives a new lease of a volume a workspace, which must have that many pushes, or any number if
// pushes is 0, and releases it.
func (w *world) acquire(volume string, pushes int) {
	w.t.Helper()
	l := verbs.Lease{Volume: volume, ID: strconv.FormatInt(w.leases.Add(1), 10)}
	m, err := w.Acquire(w.ctx, l)
	if err != nil {
		w.t.Error(err)
		return
	}
	if got, err := os.ReadFile(filepath.Join(m.Path, "pushed")); pushes > 0 && string(got) != strconv.Itoa(pushes) {
		w.t.Errorf("volume %s has %s pushes (%v), want %d", volume, got, err, pushes)
	}
	if err := w.Release(w.t.Context(), l); err != nil {
		w.t.Error(err)
	}
}

// wantAsked checks how many questions the remote got since the last Reset.
func (w *world) wantAsked(what string, questions int) {
	w.t.Helper()
	if got := w.server.Stats("r"); got.LsRefs != questions {
		w.t.Errorf("%s: %d questions (%+v), want %d", what, got.LsRefs, got, questions)
	}
	w.server.Reset()
}

// run is the name of a volume without one, as an engine makes it.
var run = generated(1)

// generated returns the n-th name that an engine could make.
func generated(n int) string { return fmt.Sprintf("%064x", n) }

// TestCreateAsksForARun checks that the answer to Create serves the first two Acquires of a volume that an engine has
// named, for two seconds, with the commit from before Create, and that a push in that time is seen after them.
func TestCreateAsksForARun(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"private", "shared", "keep"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			for i, moved := range []bool{false, true} {
				if moved {
					w.push()
				}
				w.server.Reset()
				w.create(generated(i), "mode", mode)
				w.acquire(generated(i), w.pushes)
				w.acquire(generated(i), w.pushes) // as the engine does with a working directory
				w.idle()
				w.wantAsked("Create and two mounts", 1)
			}
		})
	}
	w := newWorld(t)
	w.create(generated(1))
	w.create(generated(2))
	w.push()
	w.server.Reset()
	w.clock.Add(int64(2*time.Second - 1))
	w.acquire(generated(1), 1)
	w.acquire(generated(1), 1)
	w.wantAsked("two mounts just before two seconds", 0)
	w.acquire(generated(1), 2)
	w.wantAsked("a third mount", 1)
	w.clock.Add(1)
	w.acquire(generated(2), 2)
	w.wantAsked("the first mount after two seconds", 1)
}

// TestMountHasPush checks that each Acquire of a volume that a person has named asks, the first one too: it has each push
// that ended before it came, and each change of a branch.
func TestMountHasPush(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"v", run[1:], run + "0", strings.ToUpper(generated(0xabc)), "g" + run[1:]} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(name)
			w.push()
			w.acquire(name, 2) // the first
			w.server.Reset()
			w.acquire(name, 2)
			w.wantAsked("nothing new", 1)
			w.push()
			w.acquire(name, 3)
			testgit.Git(t, "", "--git-dir="+w.server.Path("r"), "update-ref", "refs/heads/main", "main~1")
			w.acquire(name, 2)
			w.idle()
		})
	}
}

// TestMountsDuringAQuestion checks that Acquires that come while a question is under way do not use its answer, which may
// be older than a push before them, and share the next question. It is not parallel because it counts goroutines.
func TestMountsDuringAQuestion(t *testing.T) {
	const mounts = 64
	w := newWorld(t)
	release := w.holdQuestion()
	w.push()
	w.server.Reset()
	var wg sync.WaitGroup
	for range mounts {
		wg.Go(func() { w.acquire("warm", w.pushes) })
	}
	wait.For(t, "the Acquires wait for the answer", func() error { return wait.Equal(asking(), 1+mounts) })
	release()
	wg.Wait()
	w.idle()
	// The first one asks again if the others' fetch is quicker than its look at the store.
	if got := w.server.Stats("r"); got.LsRefs < 1 || got.LsRefs > 2 || got.Fetches != 1 {
		t.Errorf("the server saw %+v, want one question of all, and a fetch", got)
	}
}

// TestCreateDoesNotAskForARun checks when the answer to Create does not serve a volume that an engine has named: each
// case ends with a push, which the next Acquire must see.
func TestCreateDoesNotAskForARun(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []string
		do      func(w *world)
	}{
		{"refresh=always", []string{"refresh", "always"}, func(*world) {}},
		{"refresh=0s", []string{"refresh", "0s"}, func(*world) {}},
		{"refresh=1ns", []string{"refresh", "1ns"}, func(w *world) { w.clock.Add(1) }},
		{"clock set back", nil, func(w *world) { w.clock.Add(-1) }},
		{"clock set back and forth", nil, func(w *world) { w.clock.Add(-1); w.acquire(run, 1); w.clock.Add(2) }},
		{"clock set back after the time", nil, func(w *world) {
			w.clock.Add(int64(2 * time.Second))
			w.acquire(run, 1)
			w.clock.Add(-int64(time.Second))
		}},
		{"credential removed", nil, func(w *world) { w.changes.Add(1) }},
		{"restart", nil, (*world).restart},
		{"created again", nil, func(w *world) { w.push(); w.create(run); w.acquire(run, 2) }},
		{"removed and created again", nil, func(w *world) {
			if err := w.Remove(w.t.Context(), run); err != nil {
				w.t.Fatal(err)
			}
			w.push()
			w.create(run)
			w.acquire(run, 2)
			w.clock.Add(int64(2 * time.Second))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.create(run, tt.options...)
			tt.do(w)
			w.push()
			w.acquire(run, w.pushes)
		})
	}
}

// TestCredentialChangeInARequest removes a credential between Create and Acquire of one request, as
// kubelet's are: no answer from before the removal counts.
func TestCredentialChangeInARequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ctx = origin.Begin(t.Context(), origin.Actor{Kind: origin.Kubelet})
	w.create("v")
	w.changes.Add(1)
	w.push()
	w.acquire("v", w.pushes)
}

// TestNoAnswerForAcquires checks that a Create that got no answer, or used an old one, leaves the
// question to its Acquires.
func TestNoAnswerForAcquires(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		options []string
	}{
		{"failed", nil},
		{"stale", []string{"stale_if_error", "24h"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.push()
			w.server.Route("r", gitserver.Fail(503))
			w.create(run, tt.options...)
			w.server.Route("r")
			w.acquire(run, 2)
		})
	}
}

// holdQuestion sends a question for an Acquire of the volume "warm", and keeps its answer until release
// is called, which waits for the end of the Acquire.
func (w *world) holdQuestion() (release func()) {
	h := testgit.Hold()
	w.server.Script("r", gitserver.LsRefs, h.Fault)
	w.clock.Add(int64(time.Minute))
	var wg sync.WaitGroup
	wg.Go(func() { w.acquire("warm", 0) })
	<-h.Answered
	return func() { close(h.Open); wg.Wait() }
}

// asking counts the goroutines that wait for the answer to a question.
func asking() (n int) {
	for _, stack := range stacks() {
		header, calls, _ := strings.Cut(stack, "\n")
		if strings.Contains(header, "[select") && strings.Contains(calls, "remote.(*Remote).ask(") {
			n++
		}
	}
	return n
}

// TestCreateDuringAQuestion checks that Creates do not use the answer to a question from before them:
// they share the next one. It is not parallel because it counts goroutines.
func TestCreateDuringAQuestion(t *testing.T) {
	const creates = 5
	w := newWorld(t)
	release := w.holdQuestion()
	w.push()
	w.server.Reset()
	var wg sync.WaitGroup
	for i := range creates {
		wg.Go(func() {
			if err := w.tryCreate(generated(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wait.For(t, "the Creates wait for the answer", func() error { return wait.Equal(asking(), 1+creates) })
	release()
	wg.Wait()
	for i := range creates {
		w.acquire(generated(i), 2)
	}
	w.idle()
	w.wantAsked("all Creates", 1)
}

// TestMountAfterCreateGaveUp checks that the first Acquire of a volume does not use the answer to a
// question from before Create either if Create did not wait for its end.
func TestMountAfterCreateGaveUp(t *testing.T) {
	w := newWorld(t)
	release := w.holdQuestion()
	w.push()
	if err := w.tryCreate("v"); err != nil { // after createWait
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { w.acquire("v", 2) })
	wait.For(t, "the Acquires and the fetch of Create wait for the answer", func() error { return wait.Equal(asking(), 3) })
	release()
	wg.Wait()
}
