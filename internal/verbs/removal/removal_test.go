package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/verbs"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/internal/workspace/obstacle"
	"github.com/helmdeck/repos/janitor"
	"github.com/helmdeck/repos/tests/invariant"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testverbs"
	"github.com/helmdeck/repos/tests/wait"
)

func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world is a data directory with volumes, a Remover, and a remote with the repositories "r"
// and "other".
type world struct {
	*testverbs.World
	*Remover
	t       *testing.T
	server  *gitserver.Server
	removed []janitor.Eviction
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, World: testverbs.New(t), server: testgit.Remote(t, "r", gitserver.Spec{Seed: 1, Files: 40})}
	if _, err := gitserver.Generate(w.server.Path("other"), gitserver.Spec{Seed: 2, Files: 5}); err != nil {
		t.Fatal(err)
	}
	w.serve()
	return w
}

// serve makes a Remover for the open data directory.
func (w *world) serve() {
	w.Remover = New(Config{Clones: w.Clones, Workspaces: w.Workspaces, Forget: w.Workspaces.Warm().Evicting, Janitor: w, Log: w.Log})
}

func (w *world) EvictClone(ctx context.Context, key string) error {
	if w.Remover.config.Clones.Lookup(key) == nil {
		return janitor.ErrNoClone
	}
	return w.Clones.EvictClone(ctx, key, work.StopAll)
}

func (w *world) Removed(_ context.Context, e janitor.Eviction) { w.removed = append(w.removed, e) }

// create creates a volume of a repository, given its name, with options as names and values.
func (w *world) create(name, repo string, options ...string) {
	w.t.Helper()
	m := map[string]string{"repo": w.server.URL(repo)}
	for i := 0; i < len(options); i += 2 {
		m[options[i]] = options[i+1]
	}
	if err := w.Create(w.t.Context(), name, m); err != nil {
		w.t.Fatal(err)
	}
}

// mount mounts a volume, and writes text to the workspace unless it is empty.
func (w *world) mount(volume, id, text string) string {
	w.t.Helper()
	m, err := w.Acquire(w.t.Context(), verbs.Lease{Volume: volume, ID: id})
	if err != nil {
		w.t.Fatal(err)
	}
	if text != "" {
		if err := os.WriteFile(filepath.Join(m.Path, "mine"), []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	return m.Path
}

func (w *world) unmount(volume, id string) {
	w.t.Helper()
	if err := w.Release(w.t.Context(), verbs.Lease{Volume: volume, ID: id}); err != nil {
		w.t.Fatal(err)
	}
}

// keys returns the keys of all clones that have a directory, sorted.
func (w *world) keys() (keys []string) {
	w.t.Helper()
	dirs, err := filepath.Glob(filepath.Join(w.Root, "clones", "*", "*"))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, dir := range dirs {
		keys = append(keys, filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir))
	}
	return keys
}

// kinds lists obstacles as kind and volume, and fails unless err has obstacles.
func kinds(t *testing.T, err error) (list []string) {
	t.Helper()
	blocked, ok := errors.AsType[*obstacle.Error](err)
	if !ok {
		t.Errorf("got %v, want obstacles", err)
		return nil
	}
	for _, o := range blocked.List {
		text := o.Kind + " " + o.Volume
		if o.Forced {
			text += " forced"
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// idle waits until no work uses a clone.
func (w *world) idle(key string) {
	w.t.Helper()
	wait.For(w.t, "the end of the work on "+key, func() error {
		info, ok := w.Remover.config.Clones.Lookup(key).Info()
		return wait.Check(!ok || !info.Working, "%+v", info)
	})
}

// check waits for the end of all work, opens the data directory again, as a start of the plugin
// does, and checks its structure.
func (w *world) check() {
	w.t.Helper()
	wait.For(w.t, "the end of the workspaces", func() error {
		return wait.Check(!slices.ContainsFunc(w.Workspaces.Workspaces(), func(rec meta.Workspace) bool { return rec.Phase == meta.Ended }), "%+v", w.Workspaces.Workspaces())
	})
	w.Close()
	w.Start(w.Root)
	w.serve()
	trash := w.Trash
	w.Work.Go(trash.Run)
	if err := errors.Join(
		w.Workspaces.Sweep(w.t.Context()), w.Clones.SweepAll(w.t.Context()),
		trash.Hurry(w.t.Context(), func() bool { return false }), invariant.Structure(w.Root),
	); err != nil {
		w.t.Error(err)
	}
}

// TestFresh checks that a lease is never taken away, that work is listed and goes only by
// force, and that the next mount starts from nothing.
func TestFresh(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWorld(t)
	w.create("p", "r")
	w.create("k", "r", "mode", "keep")
	w.create("s", "r", "mode", "shared")
	cache := filepath.Join(w.mount("p", "1", "x"), ".git/hdcache", "entry")
	if err := os.WriteFile(cache, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	w.mount("k", "2", "kept")
	w.unmount("k", "2")
	w.mount("s", "3", "")
	key := w.keys()[0]
	w.idle(key)
	for _, force := range []bool{false, true} {
		_, err := w.Fresh(ctx, key, force)
		want := []string{"lease p", "lease s", "workspace k forced"}
		if got := kinds(t, err); !slices.Equal(got, want) {
			t.Errorf("force %t: in the way %q, want %q", force, got, want)
		}
	}
	w.unmount("s", "3")
	w.unmount("p", "1")
	_, err := w.Fresh(ctx, key, false)
	if got, want := kinds(t, err), []string{"checkpoint p forced", "workspace k forced"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	if strings.Contains(err.Error(), "force") { // which is another thing in commands: no question
		t.Errorf("the error %v", err)
	}
	freed, err := w.Fresh(ctx, key, true)
	if err != nil {
		t.Fatal(err)
	}
	if freed.Size.Bytes < 40*4096 || !slices.Equal(freed.Clones, []string{key}) || len(freed.Removed) != 2 {
		t.Errorf("freed %+v", freed)
	}
	if len(w.removed) != 1 || w.removed[0].Size != freed.Size || w.removed[0].Reason != janitor.OnDemand {
		t.Errorf("the janitor knows of %+v", w.removed)
	}
	if left := w.keys(); len(left) > 0 || len(w.Workspaces.Workspaces()) > 0 {
		t.Errorf("left are %q and %d workspaces", left, len(w.Workspaces.Workspaces()))
	}
	if _, err := w.Fresh(ctx, key, true); !errors.Is(err, ErrNone) {
		t.Errorf("once more: %v, want %v", err, ErrNone)
	}
	for _, v := range []string{"p", "k", "s"} {
		dir := w.mount(v, "4", "")
		for _, name := range []string{"mine", ".git/hdcache/entry"} {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("volume %s has %s: %v", v, name, err)
			}
		}
		w.unmount(v, "4")
	}
	w.check()
}

// TestFreshSubject checks that one clone in use keeps all of the subject's, and that others'
// clones stay.
func TestFreshSubject(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWorld(t)
	for i, subject := range []string{"team a", "team a", "b"} {
		name, repo := fmt.Sprint("v", i), []string{"r", "other", "r"}[i]
		w.create(name, repo, "subject", subject)
		w.mount(name, "1", "x")
		if i != 1 {
			w.unmount(name, "1")
		}
	}
	before := w.keys()
	_, err := w.FreshSubject(ctx, "team a", true)
	if got, want := kinds(t, err), []string{"checkpoint v0 forced", "lease v1"}; !slices.Equal(got, want) || len(w.keys()) != 3 {
		t.Errorf("in the way %q, want %q; clones %q", got, want, w.keys())
	}
	w.unmount("v1", "1")
	_, err = w.FreshSubject(ctx, "team a", false)
	if got, want := kinds(t, err), []string{"checkpoint v0 forced", "checkpoint v1 forced"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	freed, err := w.FreshSubject(ctx, "team a", true)
	if err != nil || len(freed.Clones) != 2 || len(freed.Removed) != 2 || freed.Size.Bytes == 0 {
		t.Errorf("freed %+v, %v", freed, err)
	}
	if left := w.keys(); len(left) != 1 || !slices.Contains(before, left[0]) || !strings.HasPrefix(left[0], "b/") {
		t.Errorf("left are %q", left)
	}
	for _, name := range []string{"team a", "unknown"} {
		if _, err := w.FreshSubject(ctx, name, true); !errors.Is(err, ErrNone) {
			t.Errorf("subject %q: %v, want %v", name, err, ErrNone)
		}
	}
	if _, err := w.FreshSubject(ctx, "", true); err == nil {
		t.Error("a subject without a name was accepted")
	}
	w.check()
}

// TestFreshOfKeptInUse checks that a kept workspace stays if a process or a container uses it,
// although it has no lease.
func TestFreshOfKeptInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("k", "r", "mode", "keep")
	dir := w.mount("k", "1", "kept")
	w.unmount("k", "1")
	key := w.keys()[0]
	w.idle(key)
	f, err := os.Open(filepath.Join(dir, "mine"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Fresh(t.Context(), key, true)
	if got, want := kinds(t, err), []string{"workspace k"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	if got, err := os.ReadFile(filepath.Join(w.mount("k", "2", ""), "mine")); string(got) != "kept" {
		t.Errorf("the workspace has %q, %v", got, err)
	}
	f.Close()
	w.unmount("k", "2")
	wait.For(t, "the removal", func() error {
		_, err := w.Fresh(t.Context(), key, true)
		return err
	})
	w.check()
}

// TestFreshDuringMount checks that without force a clone stays for which a Mount waits, and
// that with force the Mount fails, and can be repeated.
func TestFreshDuringMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("v", "r")
	w.mount("v", "1", "")
	w.unmount("v", "1")
	key := w.keys()[0]
	w.idle(key)
	if _, err := gitserver.Commit(w.server.Path("r"), "main", gitserver.Change{Path: "pushed", Content: "x"}); err != nil {
		t.Fatal(err)
	}
	w.create("w", "r", "refresh", "always")
	w.idle(key)
	release := make(chan struct{})
	defer close(release)
	w.server.Route("r", gitserver.Stall(release))
	mounted := make(chan error, 1)
	go func() {
		_, err := w.Acquire(t.Context(), verbs.Lease{Volume: "w", ID: "1"})
		mounted <- err
	}()
	wait.For(t, "the question of the mount", func() error {
		info, _ := w.Remover.config.Clones.Lookup(key).Info()
		return wait.Check(info.Attended, "no mount waits: %+v", info)
	})
	_, err := w.Fresh(t.Context(), key, false)
	if got, want := kinds(t, err), []string{"work  forced"}; !slices.Equal(got, want) {
		t.Errorf("in the way %q, want %q", got, want)
	}
	if _, err := w.Fresh(t.Context(), key, true); err != nil {
		t.Fatal(err)
	}
	if err := <-mounted; err == nil || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("the mount: %v", err)
	}
	w.server.Route("r")
	w.mount("w", "1", "")
	w.unmount("w", "1")
	w.check()
}

// TestFreshAtOnce checks that removals, evictions, Mounts and Unmounts of one clone at the same
// time leave a data directory in order, and that each Mount that succeeds is mounted.
func TestFreshAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 3 {
		w.create(fmt.Sprint("v", i), "r", "mode", []string{"private", "shared", "keep"}[i], "refresh", "never")
	}
	w.mount("v0", "0", "")
	w.unmount("v0", "0")
	key := w.keys()[0]
	var mounts, removals sync.WaitGroup
	stop := make(chan struct{})
	for i := range 6 {
		mounts.Go(func() {
			for n := range 12 {
				l := verbs.Lease{Volume: fmt.Sprint("v", i%3), ID: fmt.Sprint(i, "-", n)}
				m, err := w.Acquire(t.Context(), l)
				if err != nil {
					if !strings.Contains(err.Error(), "again") {
						t.Error(err)
					}
					continue
				}
				if err := os.WriteFile(filepath.Join(m.Path, fmt.Sprint("mine", i)), nil, 0o644); err != nil {
					t.Error(err)
				}
				if _, err := os.ReadFile(filepath.Join(m.Path, "README.md")); err != nil {
					t.Error(err)
				}
				if err := w.Release(t.Context(), l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 3 {
		removals.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var err error
				switch i {
				case 0:
					_, err = w.Fresh(t.Context(), key, true)
				case 1:
					_, err = w.FreshSubject(t.Context(), "default", true)
				case 2:
					_, err = w.Remover.Evict(t.Context(), key)
				}
				_, blocked := errors.AsType[*obstacle.Error](err)
				_, busy := errors.AsType[*work.BusyError](err)
				if err != nil && !blocked && !busy && !errors.Is(err, ErrNone) && !errors.Is(err, janitor.ErrNoClone) {
					t.Error(err)
					return
				}
			}
		})
	}
	mounts.Wait()
	close(stop)
	removals.Wait()
	w.check()
}

// TestFreshRefusedLate checks that all stays if the kernel knows of a mount that no record has.
func TestFreshRefusedLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("k", "r", "mode", "keep")
	w.mount("k", "1", "work")
	w.unmount("k", "1")
	key := w.keys()[0]
	w.idle(key)
	at := filepath.Join(w.Root, "clones", key, "left")
	if err := os.Mkdir(at, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	freed, err := w.Fresh(t.Context(), key, true)
	if _, refused := errors.AsType[*obstacle.Error](err); !refused || len(freed.Removed) > 0 {
		t.Errorf("freed %+v, %v, want a refusal that names the mount", freed, err)
	}
	if n := len(w.Workspaces.Workspaces()); n != 1 {
		t.Errorf("%d workspaces after a refusal, want the kept one", n)
	}
	if err := unix.Unmount(at, 0); err != nil {
		t.Fatal(err)
	}
	if freed, err := w.Fresh(t.Context(), key, true); err != nil || len(freed.Removed) != 1 {
		t.Errorf("without the mount: freed %+v, %v", freed, err)
	}
}
