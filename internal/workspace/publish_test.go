package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/workspace/upper"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// leave writes what a container leaves at a warm path and in its cache.
func leave(t *testing.T, dir, text string) {
	t.Helper()
	put(t, dir, "nm/x", text)
	put(t, dir, stored(text), text)
}

// finds checks that the next workspace has what the workspace with that text has left, and not what others with
// another text have.
func (w *world) finds(text string, others ...string) {
	w.t.Helper()
	_, dir := w.open("next", "1", "warm", "nm")
	wantFile(w.t, dir, "nm/x", text)
	if text != "" {
		wantFile(w.t, dir, stored(text), text)
	}
	for _, other := range others {
		wantFile(w.t, dir, stored(other), "")
	}
	w.end("next", "1")
}

// TestPublishNever: a job that is not trusted finds the state of its base, and may write there. It changes nothing for
// others, whatever it does, and leaves no checkpoint.
func TestPublishNever(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	never := []string{"warm", "nm", "publish", "never"}
	_, dir := w.open("first", "1", never...) // before there is anything
	leave(t, dir, "evil")
	put(t, dir, upper.Mark, "")
	w.end("first", "1")
	w.finds("", "evil")
	_, dir = w.open("good", "1", "warm", "nm")
	leave(t, dir, "good")
	w.end("good", "1")
	for what, do := range map[string]func(dir string) error{
		"write":  func(dir string) error { leave(t, dir, "evil"); return nil },
		"remove": func(dir string) error { return os.RemoveAll(filepath.Join(dir, "nm")) },
		"link": func(dir string) error {
			return os.Link(filepath.Join(dir, "nm/x"), filepath.Join(dir, ".git/hdcache/npm/_cacache/content-v2/evil"))
		},
		"mark": func(dir string) error { leave(t, dir, "evil"); put(t, dir, upper.Mark, "x"); return nil },
	} {
		for _, mode := range []string{"private", "shared"} {
			rec, dir := w.open(what+mode, "1", append(never, "mode", mode)...)
			wantFile(t, dir, "nm/x", "good")
			wantFile(t, dir, stored("good"), "good")
			if err := do(dir); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			_, err := w.m.PublishCache(t.Context(), rec.ID)
			refused(t, what, err, "publish=never")
			if n := w.m.Unpublished(rec.Clone); n != 0 {
				t.Errorf("%s: %d workspaces may publish", what, n)
			}
			w.end(what+mode, "1")
			w.finds("good", "evil")
		}
	}
	if got := w.m.Checkpoints(); len(got) != 0 {
		t.Errorf("checkpoints %+v", got)
	}
	rec, dir := w.open("kept", "1", append(never, "mode", "keep")...)
	leave(t, dir, "evil")
	w.release("kept", "1")
	published(t, w, rec)
	w.finds("good", "evil")
}

// TestPublishMarked: with publish=marked others get what a workspace leaves at its end if there is a mark then, which is a
// regular file and was made there. The mark is no change.
func TestPublishMarked(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	marked := []string{"warm", "nm", "publish", "marked"}
	_, dir := w.open("v", "good", marked...)
	put(t, dir, upper.Mark, "")
	leave(t, dir, "good") // after the mark
	w.end("v", "good")
	w.finds("good")
	at := func(dir string) string { return filepath.Join(dir, upper.Mark) }
	for what, mark := range map[string]func(dir string) error{
		"none":      func(string) error { return nil },
		"removed":   func(dir string) error { put(t, dir, upper.Mark, ""); return os.Remove(at(dir)) },
		"link":      func(dir string) error { return os.Symlink("config", at(dir)) },
		"directory": func(dir string) error { return os.Mkdir(at(dir), 0o755) },
		"fifo":      func(dir string) error { return unix.Mkfifo(at(dir), 0o644) },
		"elsewhere": func(dir string) error { put(t, dir, "helmdeck-publish", ""); return nil },
		"behind a link": func(dir string) error {
			put(t, dir, "git/helmdeck-publish", "")
			if err := os.RemoveAll(filepath.Join(dir, ".git/logs")); err != nil {
				return err
			}
			if err := os.Rename(filepath.Join(dir, ".git"), filepath.Join(dir, "old")); err != nil {
				return err
			}
			return os.Symlink("git", filepath.Join(dir, ".git"))
		},
		"no .git": func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".git")) },
	} {
		rec, dir := w.open("v", what, marked...)
		wantFile(t, dir, upper.Mark, "")
		wantFile(t, dir, "nm/x", "good")
		wantFile(t, dir, stored("good"), "good")
		leave(t, dir, "bad")
		if err := mark(dir); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		_, err := w.m.PublishCache(t.Context(), rec.ID)
		refused(t, what, err, "publish=marked", upper.Mark)
		w.end("v", what)
		w.finds("good", "bad")
	}
	checkpoints := len(w.m.Checkpoints())
	_, dir = w.open("v", "again", marked...)
	leave(t, dir, "better")
	put(t, dir, upper.Mark, "why not")
	w.end("v", "again")
	w.finds("better", "bad")
	if n := len(w.m.Checkpoints()); n != checkpoints {
		t.Errorf("%d checkpoints more", n-checkpoints)
	}
}

// TestPublishMarkedOnRequest: a running workspace with a mark publishes its cache on request, and at its end.
func TestPublishMarkedOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec, dir := w.open("v", "1", "warm", "nm", "publish", "marked")
	leave(t, dir, "a")
	put(t, dir, upper.Mark, "")
	if got, err := w.m.PublishCache(t.Context(), rec.ID); err != nil || got.Files != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	w.end("v", "1")
	w.finds("a")
}

// TestMarkOfCheckpoint: a workspace that is restored begins without the mark, so it can become a checkpoint again without one.
func TestMarkOfCheckpoint(t *testing.T) {
	t.Parallel()
	w := newCheckpointWorld(t)
	rec, dir := w.open("v", "1", "publish", "marked")
	put(t, dir, "mine", "x")
	put(t, dir, upper.Mark, "")
	w.end("v", "1")
	if _, err := os.Lstat(filepath.Join(w.m.mounter.Upper(rec), "mine")); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(w.m.mounter.Upper(rec), upper.Mark)); !os.IsNotExist(err) {
		t.Errorf("the mark of a checkpoint: %v", err)
	}
}

// TestPublishMarkedKept: a mark is for one publication of what a volume keeps. A mark that is left from before a crash is
// not that of the next container.
func TestPublishMarkedKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	options := []string{"warm", "nm", "mode", "keep", "publish", "marked"}
	rec, dir := w.open("v", "1", options...)
	release := func(id string) {
		t.Helper()
		w.release("v", id)
		published(t, w, rec)
		wantFile(t, dir, upper.Mark, "")
	}
	leave(t, dir, "a")
	release("1")
	w.finds("", "a")
	w.join("v", "2")
	put(t, dir, upper.Mark, "mark")
	release("2")
	_, next := w.open("next", "1")
	wantFile(t, next, stored("a"), "a")
	w.join("v", "3")
	leave(t, dir, "b")
	release("3")
	w.finds("", "b") // the warm directory is the volume's

	w.join("v", "4")
	_, err := w.m.PublishCache(t.Context(), rec.ID)
	refused(t, "publish", err, "publish=marked")
	put(t, dir, upper.Mark, "mark")
	if got, err := w.m.PublishCache(t.Context(), rec.ID); err != nil || got.Files != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	wantFile(t, dir, upper.Mark, "")
	leave(t, dir, "c")
	put(t, dir, upper.Mark, "mark")
	w.close()
	testdir.Unmount(t, w.root)
	w.restart()
	_, dir = w.join("v", "5")
	wantFile(t, dir, stored("c"), "c")
	release("5")
	w.finds("", "c")
	if got := testgit.GitAny(t, dir, "status", "--porcelain"); got != "?? nm/" {
		t.Errorf("status %q", got)
	}
	if err := w.m.End(t.Context(), "v", func(*meta.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	reaped(t, w)
}

// TestMountWhilePublishing: workspaces that begin while one publishes find the old state or the new one, whole, of all warm
// directories, also if one has hard links into the cache. They don't wait for its end here.
func TestMountWhilePublishing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	w.wait = time.Nanosecond
	w.start()
	options := []string{"warm", "nm,dist", "publish", "marked", "warm_files", "README.md"}
	files := []string{"nm/a", "nm/lib/b", "nm/lib/c", "dist/x"}
	var states []string
	for round := range 4 {
		state := fmt.Sprint(round)
		_, dir := w.open("publisher", state, options...)
		if err := os.RemoveAll(filepath.Join(dir, "nm")); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			put(t, dir, f, state)
		}
		put(t, dir, stored(state), state)
		if err := os.Link(filepath.Join(dir, stored(state)), filepath.Join(dir, "nm/linked")); err != nil {
			t.Fatal(err)
		}
		put(t, dir, upper.Mark, "")
		requests := make(chan Request, 30)
		for i := range cap(requests) {
			requests <- w.request("v", fmt.Sprint(state, "-", i), options...)
		}
		close(requests)
		states = append(states, state)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for r := range requests {
					rec, err := w.m.Open(t.Context(), r)
					if err != nil {
						t.Error(err)
						return
					}
					dir := w.m.Mountpoint(rec)
					got := content(t, filepath.Join(dir, files[0]))
					if got != "" && !slices.Contains(states[max(0, len(states)-2):], got) {
						t.Errorf("round %s: found the state %q", state, got)
					}
					for _, f := range files {
						wantFile(t, dir, f, got)
					}
					put(t, dir, "nm/a", "unmarked")
					if _, err := w.m.Release(t.Context(), r.Lease); err != nil {
						t.Error(err)
					}
				}
			})
		}
		w.release("publisher", state)
		all.Wait()
		reaped(t, w)
	}
	_, dir := w.open("last", "1", options...)
	for _, f := range files {
		wantFile(t, dir, f, "3")
	}
	for _, state := range states {
		wantFile(t, dir, stored(state), state)
	}
}

// TestWarmFiles: a push that changes a file of warm_files leads to another state, which begins with the newest, and one
// that changes it back to the first.
func TestWarmFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	options := []string{"warm", "nm", "warm_files", "lock,.nvmrc", "refresh", "always"}
	n := 0
	next := func(lock, want, leaves string) meta.Workspace {
		t.Helper()
		n++
		change := gitserver.Change{Path: "lock", Content: lock}
		if lock == "" {
			change = gitserver.Change{Path: "other", Content: fmt.Sprint(n)}
		}
		if _, err := gitserver.Commit(w.server.Path("r"), "main", change); err != nil {
			t.Fatal(err)
		}
		rec, dir := w.open("v", fmt.Sprint(n), options...)
		wantFile(t, dir, "nm/x", want)
		if leaves != "" {
			put(t, dir, "nm/x", leaves)
			put(t, dir, "lock", "of the container") // which does not matter
		}
		w.end("v", fmt.Sprint(n))
		return rec
	}
	next("", "", "none")
	next("", "none", "")
	next("1", "none", "one")
	next("", "one", "")
	next("2", "one", "two")
	next("1", "one", "")
	rec := next("2", "two", "")
	if p := rec.Warm[0]; p.From != "" || len(p.Chain) != 3 {
		t.Errorf("%+v", p)
	}
	options = append(options, "warm_exact", "true")
	rec = next("3", "", "")
	if why := upper.NotUsed(rec)["nm"]; !strings.Contains(why, "warm_exact") {
		t.Errorf("it is not used because %q", why)
	}
	w.restart()
	next("1", "one", "")
}
