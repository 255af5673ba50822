package remote

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/trash"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdir"
)

// holder has one Remote in its own directory, of the repository "r" of a server.
type holder struct {
	t        *testing.T
	server   *gitserver.Server
	r        *Remote
	saved    map[string]meta.Store
	err      error // of Save
	removed  int   // how often RemoveDir was called
	measured []string
}

func newHolder(t *testing.T) *holder {
	t.Helper()
	repos, dir := testdir.New(t, "remote"), testdir.New(t, "remote")
	if _, err := gitserver.Generate(filepath.Join(repos, "r.git"), gitserver.Spec{Seed: 1, Files: 10, Commits: 2}); err != nil {
		t.Fatal(err)
	}
	s, err := gitserver.Start(repos)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	program, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	g, err := git.New(git.Config{Program: program, UID: 64125, GID: 64125, Schemes: []string{"http"}})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trash.Open(filepath.Join(dir, "trash"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	group := work.NewGroup()
	t.Cleanup(group.Close)
	h := &holder{t: t, server: s}
	h.r = New(Config{
		Dir:  filepath.Join(dir, "held"),
		Used: &work.Resource{Group: group, Name: "remote r", Gone: errors.New("gone"), Report: func(err error) { t.Error(err) }},
		Git:  g, Trash: tr, Log: Log{log, t.Name()}, Now: time.Now, AskTimeout: 20 * time.Second,
		Credential: func(context.Context, string, string) (*git.Auth, error) { return nil, nil },
		WithRoom:   func(_ context.Context, _ disk.Size, f func() error) error { return f() },
		MakeDir:    func() error { return os.MkdirAll(filepath.Join(h.r.config.Dir, "store"), 0o755) },
		SyncDir:    func() error { return nil },
		RemoveDir:  func() error { h.removed++; return nil },
		Save: func() error {
			if h.err == nil {
				h.saved = h.r.Stores()
			}
			return h.err
		},
		Measure: func(stores ...string) { h.measured = append(h.measured, stores...) },
	}, nil)
	return h
}

// source names a ref of the repository.
func (h *holder) source(name string) Source {
	h.t.Helper()
	u, err := volume.ParseURL(h.server.URL("r"), volume.AllSchemes())
	if err != nil {
		h.t.Fatal(err)
	}
	ref, err := volume.ParseRef(name)
	if err != nil {
		h.t.Fatal(err)
	}
	return Source{URL: u, Ref: ref}
}

// resolve fails the test on an error.
func (h *holder) resolve(s Source) meta.Resolution {
	h.t.Helper()
	r, err := h.try(h.t.Context(), s)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// try resolves a ref, and leaves the others as they are.
func (h *holder) try(ctx context.Context, s Source) (r meta.Resolution, err error) {
	s.Others = OthersIgnored
	err = h.r.Snapshot(ctx, s, func(snap *Snapshot) error {
		r = snap.Resolution
		return nil
	})
	return r, err
}

// reuse is try with an answer that still serves the source.
func (h *holder) reuse(s Source, a Answer) (meta.Resolution, error) {
	h.keep(s, a)
	s.Since = Since{At: a.res.At, For: time.Hour}
	return h.try(h.t.Context(), s)
}

// kept returns all answers in memory.
func (h *holder) kept() map[string]*keptAnswer {
	h.r.kept.mu.Lock()
	defer h.r.kept.mu.Unlock()
	return maps.Clone(h.r.kept.last)
}

// setKept replaces all answers in memory.
func (h *holder) setKept(last map[string]*keptAnswer) {
	h.r.kept.mu.Lock()
	defer h.r.kept.mu.Unlock()
	h.r.kept.last = last
}

// keep makes an answer the last one.
func (h *holder) keep(s Source, a Answer) {
	h.setKept(nil)
	h.r.kept.keep(s.key(), question{said: said{number: a.number, at: a.res.At}, answer: a}, keptMost)
}

// A fetch that cannot be saved has no effect, and the next one is saved.
func TestFetchIsNotSaved(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	h.err = errors.New("refused")
	if _, err := h.try(t.Context(), s); !errors.Is(err, h.err) || h.r.Fetched() {
		t.Errorf("resolve: %v, fetched %v", err, h.r.Fetched())
	}
	h.err = nil
	r := h.resolve(s)
	if got := h.saved["full"].Refs["main"]; got.Commit != r.Commit || r.Commit == "" || !slices.Equal(h.measured, []string{"full"}) {
		t.Errorf("saved %+v, want %+v; measured %q", got, r, h.measured)
	}
	if got := h.server.Stats("r").Clones; got != 2 {
		t.Errorf("%d clones, want 2", got)
	}
	if got := h.r.Doing.String(); got != "" {
		t.Errorf("doing %q", got)
	}
}

// A store has its name, and all that its record says of it, when the record is saved: a crash leaves no record of a store
// that is not there.
func TestStoreIsThereBeforeItsRecord(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	save, seen := h.r.config.Save, make(map[string]bool)
	h.r.config.Save = func() error {
		for name, store := range h.r.Stores() {
			refs, err := h.r.config.Git.Refs(h.r.StoreDir(name))
			if err != nil || snapshot(refs, store.Head) != store.Snapshot {
				t.Errorf("the store %s is recorded, and has the refs %v, %v", name, refs, err)
			}
			seen[name] = true
		}
		return save()
	}
	h.resolve(h.coldSource("main"))
	s := h.source("main")
	h.resolve(s)
	s.History.Depth = 1
	h.resolve(s)
	h.push("1") // into stores that are there
	h.resolve(s)
	h.resolve(h.source("main"))
	if got, want := slices.Sorted(maps.Keys(seen)), []string{"cold", "depth-1", "full"}; !slices.Equal(got, want) {
		t.Errorf("saved %q, want %q", got, want)
	}
}

// After a first fetch that fails, RemoveDir is called.
func TestFirstFetchFails(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.server.Wrap(gitserver.On(gitserver.Fetch, gitserver.Fail(500)))
	if _, err := h.try(t.Context(), h.source("main")); giterror.KindOf(err) != giterror.KindServer || h.removed != 1 {
		t.Errorf("resolve: %v, removed %d times", err, h.removed)
	}
	if left, err := os.ReadDir(filepath.Join(h.r.config.Dir, "store")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// A Snapshot has the refs of its time, and links the packs with the lock held. If the store has other refs than its
// record, they are fetched again.
func TestSnapshot(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	linked := 0
	look := func(snap *Snapshot) error {
		refs, err := snap.Refs(t.Context())
		if err != nil {
			return err
		}
		if r, ok := LookUp(refs, "refs/heads/main", time.Now()); !ok || r.Commit != snap.Resolution.Commit {
			t.Errorf("main is at %+v, want %+v", r, snap.Resolution)
		}
		return snap.Link(t.Context(), func() error {
			linked++
			if _, err := h.r.TryLock(); err == nil || !strings.Contains(err.Error(), "remote r is in use: its lock is taken") {
				t.Errorf("the lock: %v", err)
			}
			return nil
		})
	}
	var old *Snapshot
	if err := h.r.Snapshot(t.Context(), s, func(snap *Snapshot) error { old = snap; return look(snap) }); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(h.r.StoreDir("full"), "packed-refs")); err != nil {
		t.Fatal(err)
	}
	if err := h.r.Snapshot(t.Context(), s, look); err != nil || linked != 2 {
		t.Errorf("with lost refs: %v, linked %d times, want twice", err, linked)
	}
	var before *Snapshot // the file is not read until the store has moved on
	if err := h.r.Snapshot(t.Context(), s, func(snap *Snapshot) error { before = snap; return nil }); err != nil {
		t.Fatal(err)
	}
	h.git("branch", "other", "main~1")
	for i, move := range []func(){
		func() { h.push("1") },
		func() { h.git("branch", "-D", "other") }, // align
		func() { h.push("2") },
	} {
		move()
		if err := h.r.Snapshot(t.Context(), s, look); err != nil {
			t.Error(err)
		}
		for _, snap := range []*Snapshot{old, before} {
			if err := look(snap); err != nil {
				t.Errorf("a Snapshot from before move %d: %v", i, err)
			}
		}
	}
	if _, err := h.r.setAside("full", "damaged-store"); err != nil {
		t.Fatal(err)
	}
	if err := h.r.Snapshot(t.Context(), s, look); err != nil {
		t.Error(err)
	}
	if err := look(old); err != ErrAgain {
		t.Errorf("a Snapshot of the store that was set aside: %v", err)
	}
}

// The remote is only asked for commits that the store lacks.
func TestCommits(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	first := h.source(h.resolve(h.source("main")).Commit)
	h.server.Reset()
	for range 2 {
		h.resolve(first)
	}
	if got := h.server.Stats("r").Infos; got != 0 {
		t.Errorf("%d requests for a commit that is there", got)
	}
	id, err := gitserver.Commit(h.server.Path("r"), "main", gitserver.Change{Path: "new", Content: "x"})
	if err != nil {
		t.Fatal(err)
	}
	h.resolve(h.source(id))
	if n, err := h.r.Ahead(t.Context(), first, id, first.Ref.String()); n != 1 || err != nil {
		t.Errorf("%d commits ahead, %v; want 1", n, err)
	}
}

// Sweep deletes the record of a store without a directory, and of one with another owner, except of the
// last store: that is left to the holder.
func TestSweep(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	sweep := func(what string, left bool, failure error) {
		t.Helper()
		h.err = failure
		if got, err := h.r.Sweep(); got != left || !errors.Is(err, failure) {
			t.Errorf("%s: %v, %v; want %v, %v", what, got, err, left, failure)
		}
		h.err = nil
	}
	sweep("nothing was fetched", false, nil)
	s := h.source("main")
	shallow := s
	shallow.History.Depth = 1
	h.resolve(s)
	h.resolve(shallow)
	lock := filepath.Join(h.r.StoreDir("full"), "packed-refs.lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sweep("all is there", true, nil)
	if _, err := os.Lstat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock of a git that was killed: %v", err)
	}
	if err := os.RemoveAll(h.r.StoreDir("depth-1")); err != nil {
		t.Fatal(err)
	}
	sweep("a save that fails", true, errors.New("refused"))
	if !h.r.HasStore("depth-1.git") {
		t.Error("after a save that failed the store is forgotten")
	}
	sweep("a store is gone", true, nil)
	if h.r.HasStore("depth-1.git") || len(h.saved) != 1 {
		t.Errorf("saved %v, want the store that is there", h.saved)
	}
	full := h.r.StoreDir("full")
	uid, gid := h.r.config.Git.Owner()
	if err := os.Chown(full, uid+1, gid); err != nil {
		t.Fatal(err)
	}
	sweep("a copy that has lost its owner", false, nil)
	if err := os.Chown(full, uid, gid); err != nil {
		t.Fatal(err)
	}
	sweep("it has its owner again", true, nil)
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	sweep("all are gone", false, nil)
	if !h.r.HasStore("full.git") {
		t.Error("the last store is forgotten")
	}
}

// Answered is about answers, not about questions.
func TestAnswered(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	s := h.source("main")
	h.server.Wrap(gitserver.On(gitserver.LsRefs, gitserver.Fail(500)))
	if err := h.r.Ask(t.Context(), s); err == nil || !h.r.Answered().IsZero() {
		t.Errorf("%v, answered %v, want an error and never", err, h.r.Answered())
	}
	h.server.Wrap(nil)
	if a := h.ask(s); !h.r.Answered().Equal(a.res.At) {
		t.Errorf("answered %v, want %+v", h.r.Answered(), a)
	}
}

// A caller that joins a question to a silent server asks again after its timeout, and gets
// an answer if the server is back. The test waits for AskTimeout.
func TestJoinedQuestionIsStuck(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	h.r.config.AskTimeout = time.Second
	s := h.source("main")
	arrived, silent := make(chan struct{}, 10), gitserver.Stall(nil)
	h.server.Wrap(func(next http.Handler) http.Handler {
		next = silent(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			arrived <- struct{}{}
			next.ServeHTTP(w, r)
		})
	})
	ask := func() <-chan error {
		answered := make(chan error, 1)
		go func() {
			answered <- h.r.Ask(t.Context(), s)
		}()
		return answered
	}
	first := ask()
	<-arrived
	joined := ask()
	h.server.Wrap(nil) // it answers new questions
	if err := <-first; giterror.KindOf(err) != giterror.KindTimeout {
		t.Errorf("the first: %v, want a timeout", err)
	}
	if err := <-joined; err != nil {
		t.Errorf("who joined: %v", err)
	}
}

// TestChecked checks that a Snapshot counts as checked only if its fetch brought the commit, and not if the record
// alone lacked the ref.
func TestChecked(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	try := func(what, ref string, want bool) {
		t.Helper()
		if err := h.r.Snapshot(t.Context(), h.source(ref), func(snap *Snapshot) error {
			if snap.Checked != want {
				t.Errorf("%s: checked is %v", what, snap.Checked)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	try("first fetch", "main", true)
	try("another name", "refs/heads/main", false)
	h.push("1")
	try("after a push", "main", true)
	h.git("branch", "copy", "main")
	try("another branch", "copy", false)
}
