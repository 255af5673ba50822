package ready

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/clone"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world is a testworld.World with a Keeper that a test calls.
type world struct {
	*testworld.World
	data   testworld.Data
	clones *clone.Manager
	k      *Keeper
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: testworld.New(t, "")}
	w.data = w.Open("boot", git.Config{})
	w.data.Work.Go(w.data.Layers.Run)
	var err error
	w.clones, err = clone.NewManager(clone.Config{
		Root: w.Root, DB: w.data.DB, Trash: w.data.Trash, Log: w.data.Log, Now: w.Now, Layers: w.data.Layers, Work: w.data.Work, Git: w.data.Git,
	}, w.data.State)
	if err != nil {
		t.Fatal(err)
	}
	schemes, err := volume.ParseSchemes("")
	if err != nil {
		t.Fatal(err)
	}
	w.k = New(Config{
		Targets: Targets(w.clones), Clone: Clones(w.clones), Defaults: map[string]string{"uid": "7"}, Work: w.data.Work, Schemes: schemes, Interval: 5 * time.Minute, Now: w.Now, Log: w.data.Log,
	})
	w.k.random = func() float64 { return 0.5 }
	return w
}

// mount mounts a volume with these options, and unmounts it.
func (w *world) mount(options ...string) (*clone.Clone, *clone.Checkout) {
	w.T.Helper()
	o := w.Options(options...)
	c := w.clones.Get(o.Subject, o.Repo)
	co, err := c.Prepare(w.T.Context(), clone.SpecOf(o))
	if err == nil {
		record, _ := c.FirstMount()
		err = w.data.DB.Update(record)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	c.Mounted(w.T.Context(), o)
	co.Release()
	return c, co
}

// wantReady mounts a volume, and fails unless it has the commit, asks once, and fetches and builds
// nothing.
func (w *world) wantReady(commit string, options ...string) {
	w.T.Helper()
	o := w.Options(options...)
	before, _ := w.clones.Get(o.Subject, o.Repo).Info()
	w.Server.Reset()
	_, co := w.mount(options...)
	if s := w.Server.Stats("r"); s.LsRefs != 1 || s.Fetches != 0 || co.Resolution.Commit != commit {
		w.T.Errorf("the Mount has %s, want %s, with %d questions and %d fetches", co.Resolution.Commit, commit, s.LsRefs, s.Fetches)
	}
	for _, id := range []string{co.Tree.ID, co.GitLayer.ID} {
		if !slices.ContainsFunc(before.Layers, func(l clone.LayerInfo) bool { return l.ID == id }) {
			w.T.Errorf("the Mount has built layer %s", id)
		}
	}
}

// refresh refreshes, and fails unless the results have these refs.
func (w *world) refresh(r Request, want ...string) []Result {
	w.T.Helper()
	r.Repo = w.Server.URL("r")
	list, err := w.k.Refresh(w.T.Context(), r)
	var got []string
	for _, r := range list {
		got = append(got, r.Subject+" "+r.Ref)
		if r.Error != "" || r.Commit == "" {
			w.T.Errorf("result %+v", r)
		}
	}
	if err != nil || !slices.Equal(got, want) {
		w.T.Errorf("%+v: %q, %v, want %q", r, got, err, want)
	}
	return list
}

func TestRefresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	shapes := [][]string{{"ref", "main"}, {}, {"ref", "feature/x", "depth", "1", "uid", "1000"}, {"ref", "main", "subject", "b", "sparse", "dir0"}}
	for _, s := range shapes {
		w.mount(s...)
	}
	main, feature := w.Push("main"), w.Push("feature/x")
	w.refresh(Request{}, "b main", "default feature/x", "default HEAD", "default main")
	w.wantReady(main, shapes[0]...)
	w.wantReady(main, shapes[1]...)
	w.wantReady(feature, shapes[2]...)
	w.wantReady(main, shapes[3]...)
	main = w.Push("main")
	for _, ref := range []string{"refs/heads/main", "main"} {
		if list := w.refresh(Request{Ref: ref, Subject: "default"}, "default HEAD", "default main"); len(list) > 0 && list[0].Commit != main {
			t.Errorf("got %+v, want %s", list, main)
		}
	}
	w.wantReady(main, shapes[0]...)
	w.refresh(Request{Ref: "unused"})
	w.Advance(25 * time.Hour)
	w.Server.Reset()
	w.refresh(Request{})
	if s := w.Server.Stats("r"); s.Infos != 0 {
		t.Errorf("%d requests for what nobody mounted for a day", s.Infos)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mount("ref", "main")
	url := w.Server.URL("r")
	for _, tt := range []struct {
		r    Request
		want string // in an *OptionError; empty: there is no clone
	}{
		{Request{}, "empty value"},
		{Request{Repo: "https://u:secret@h/x"}, "contains a password"},
		{Request{Repo: "ssh://h/x"}, "https"},
		{Request{Repo: url, Ref: "a..b"}, "contains .."},
		{Request{Repo: url, Subject: strings.Repeat("s", 257)}, "longer than 256 bytes"},
		{Request{Repo: url, Subject: "s"}, ""},
		{Request{Repo: url + "2"}, ""},
	} {
		_, err := w.k.Refresh(t.Context(), tt.r)
		wrong, ok := errors.AsType[*volume.OptionError](err)
		if ok != (tt.want != "") || ok && !strings.Contains(wrong.Error(), tt.want) || !ok && !errors.Is(err, ErrNoClone) {
			t.Errorf("%+v: %v", tt.r, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

// awaitRequests waits until so many refreshes were begun or wait.
func (w *world) awaitRequests(n int) {
	w.T.Helper()
	wait.For(w.T, "the refresh to begin", func() error {
		w.k.mu.Lock()
		defer w.k.mu.Unlock()
		return wait.Check(w.k.called >= n, "%d began, want %d", w.k.called, n)
	})
}

// A refresh does not share a question that began before, which may have another answer.
func TestQuestionIsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mount("ref", "main")
	g := gitserver.NewGate()
	w.Server.Script("r", gitserver.LsRefs, g.Fault)
	var both sync.WaitGroup
	both.Go(func() { w.mount("ref", "main") })
	<-g.Arrived
	commit := w.Push("main")
	both.Go(func() {
		if list := w.refresh(Request{}, "default main"); len(list) > 0 && list[0].Commit != commit {
			t.Errorf("got %+v, want %s", list, commit)
		}
	})
	w.awaitRequests(1)
	close(g.Open)
	both.Wait()
}

// Run keeps ready what was mounted, a Mount joins what is under way and makes it urgent, and an
// eviction ends it.
func TestKeepReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begin := func(want bool) {
		t.Helper()
		running := func() bool {
			w.k.mu.Lock()
			defer w.k.mu.Unlock()
			return slices.ContainsFunc(w.k.config.Targets(), func(c Target) bool { p := w.k.plans[c.Key]; return p != nil && p.running })
		}
		w.k.begin()
		if got := w.Server.Stats("r").Infos > 0 || running(); got != want {
			t.Errorf("it has begun: %v, want %v", got, want)
		}
		wait.For(t, "the end of the refresh", func() error { return wait.Check(!running(), "it runs") })
	}
	c, _ := w.mount("ref", "main")
	commit := w.Push("main")
	w.Advance(4 * time.Minute)
	w.Server.Reset()
	begin(false)
	w.Advance(2 * time.Minute)
	begin(true)
	w.wantReady(commit, "ref", "main")

	g := gitserver.NewGate()
	w.Server.Wrap(gitserver.On(gitserver.Fetch, g.Fault))
	commit = w.Push("main")
	refreshed := make(chan []Result)
	refresh := func() {
		list, err := w.k.Refresh(t.Context(), Request{Repo: w.Server.URL("r")})
		if err != nil {
			t.Error(err)
		}
		refreshed <- list
	}
	go refresh()
	<-g.Arrived
	mounted := make(chan string)
	go func() {
		o := w.Options("ref", "main")
		co, err := c.Prepare(work.WithOwner(t.Context(), work.Owner{Name: "a mount", Urgent: true}), clone.SpecOf(o))
		if err != nil {
			t.Error(err)
			mounted <- ""
			return
		}
		co.Release()
		mounted <- co.Resolution.Commit
	}()
	wait.For(t, "the mount", func() error { info, _ := c.Info(); return wait.Check(info.Attended, "no mount waits: %+v", info) })
	if err := w.clones.EvictClone(t.Context(), c.Key, work.StopUnattended); err == nil {
		t.Error("evicted while a mount waits")
	}
	close(g.Open)
	if list := <-refreshed; len(list) != 1 || list[0].Commit != commit || <-mounted != commit {
		t.Errorf("got %+v, want %s", list, commit)
	}

	g = gitserver.NewGate()
	w.Server.Wrap(gitserver.On(gitserver.Fetch, g.Fault))
	w.Push("main")
	go refresh()
	<-g.Arrived
	if info, _ := c.Info(); info.Working || info.Busy != "" {
		t.Errorf("a refresh keeps the clone: %+v", info)
	}
	if err := w.clones.EvictClone(t.Context(), c.Key, work.StopNothing); err != nil {
		t.Fatal(err)
	}
	if list := <-refreshed; len(list) != 1 || !strings.Contains(list[0].Error, "evicted") {
		t.Errorf("got %+v", list)
	}
	close(g.Open)
	if _, err := w.k.Refresh(t.Context(), Request{Repo: w.Server.URL("r")}); !errors.Is(err, ErrNoClone) {
		t.Errorf("after the eviction: %v", err)
	}
	if got := testdir.Names(t, w.Root+"/clones"); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}

// The work goes on when the client hangs up, and ends when the plugin does.
func TestEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _ := w.mount("ref", "main")
	g := gitserver.NewGate()
	w.Server.Wrap(gitserver.On(gitserver.LsRefs, g.Fault))
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := w.k.Refresh(ctx, Request{Repo: w.Server.URL("r")})
		ended <- err
	}()
	<-g.Arrived
	hangUp()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if state := c.Doing().State; state != "asking" {
		t.Errorf("state %q, want asking", state)
	}
	go func() {
		list, err := w.k.Refresh(t.Context(), Request{Repo: w.Server.URL("r")})
		if err == nil && (len(list) != 1 || list[0].Error == "") {
			t.Errorf("got %+v", list)
		}
		ended <- nil
	}()
	w.awaitRequests(2) // it waits for the question of the first
	w.data.Close()
	<-ended
	if _, err := w.k.Refresh(t.Context(), Request{Repo: w.Server.URL("r")}); !errors.Is(err, work.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
