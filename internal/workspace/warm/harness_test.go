package warm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/layer"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testworld"
)

// TestMain lets the test binary be the program that reads indexes.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

const (
	cloneKey = "s/c"
	user     = 4321
)

// world is a data directory with a Manager, and a tree with two files.
type world struct {
	t    *testing.T
	root string
	boot string
	tree string
	m    *Manager
	db   *meta.DB
	// placing is called before a layer gets its name. It may be nil.
	placing func()

	work sync.WaitGroup // background work
	stop func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := testdir.New(t, "warm")
	w := &world{t: t, root: dir, tree: filepath.Join(dir, "tree")}
	w.mkdir(filepath.Join(dir, "clones", cloneKey))
	w.write(filepath.Join(w.tree, "README"), "tree")
	w.write(filepath.Join(w.tree, "web", "package.json"), "tree")
	w.start("boot 1")
	return w
}

// start opens the data directory, as a plugin does when it starts.
func (w *world) start(boot string) {
	w.t.Helper()
	d := testdb.Open(w.t, w.root)
	ctx, cancel := context.WithCancel(context.Background())
	w.db = d.DB
	background := func(f func(context.Context)) { w.work.Go(func() { f(ctx) }) }
	w.boot = boot
	layers := layer.New(layer.Config{
		Root: w.root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Background: background,
		Now: func() time.Time {
			if w.placing != nil {
				w.placing()
			}
			return time.Now()
		},
	}, d.State)
	w.m = NewManager(Config{
		Root: w.root, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: time.Now, Layers: layers, Background: background, Wait: time.Minute, Git: testworld.Git(w.t, git.Config{UID: user, GID: user}), Metacopy: true,
		Clones: users{use: func() {}},
	}, d.State)
	w.stop = sync.OnceFunc(func() {
		w.work.Wait()
		cancel()
		if err := d.DB.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(w.stop)
}

func (w *world) restart(boot string) {
	w.t.Helper()
	w.stop()
	w.start(boot)
}

// want returns a Want of the main branch.
func (w *world) want(paths ...string) Want {
	return Want{
		Clone: cloneKey, Paths: paths, UID: user, GID: user, Ref: "refs/heads/main", Default: "refs/heads/main", Tree: []string{w.tree},
	}
}

// session is a workspace.
type session struct {
	*world
	Ended
	dir string // where it is mounted
}

// open makes a workspace with the layers that Select returns.
func (w *world) open(want Want) *session {
	w.t.Helper()
	paths, err := w.m.Select(w.t.Context(), want)
	if err != nil {
		w.t.Fatal(err)
	}
	dir := filepath.Join(w.root, "workspaces", newID())
	s := &session{w, Ended{
		Clone: want.Clone, Upper: filepath.Join(dir, "upper"), UID: want.UID, GID: want.GID, Ref: want.Ref, Text: want.Text, Paths: paths, Tree: want.Tree, Publish: true,
		Lower: append(w.m.Lower(cloneKey, paths), want.Tree...),
	}, filepath.Join(dir, "tree")}
	w.mkdir(s.Upper, filepath.Join(dir, "work"), s.dir)
	if err := overlay.Mount(overlay.Spec{
		Lower: s.Lower,
		Upper: s.Upper, Work: filepath.Join(dir, "work"), Target: s.dir, Volatile: true, Metacopy: true,
	}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// end unmounts the workspace and promotes what it wrote. Then it syncs, as Run does.
func (s *session) end() {
	s.t.Helper()
	detach(s.t, s.dir)
	if err := s.m.Promote(s.t.Context(), s.Ended); err != nil {
		s.t.Fatal(err)
	}
	s.m.Drop(s.Clone, s.Paths)
	s.work.Wait()
	if err := s.m.config.Layers.Sync(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

// run opens a workspace, calls f and ends the workspace.
func (w *world) run(want Want, f func(s *session)) {
	w.t.Helper()
	s := w.open(want)
	f(s)
	s.end()
}

// has checks that the directory rel of the workspace has exactly these files, sorted by
// path: "path=content", or "path->target" for a symbolic link.
func (s *session) has(rel string, want ...string) {
	s.t.Helper()
	if got := list(s.t, filepath.Join(s.dir, rel)); !slices.Equal(got, want) {
		s.t.Errorf("%s has %q, want %q", rel, got, want)
	}
}

// sees checks which files the next workspace has.
func (w *world) sees(want Want, rel string, files ...string) {
	w.t.Helper()
	w.run(want, func(s *session) { s.has(rel, files...) })
}

func (s *session) write(rel, data string) {
	s.t.Helper()
	s.world.write(filepath.Join(s.dir, rel), data)
}

func (s *session) remove(rel string) {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, rel)); err != nil {
		s.t.Fatal(err)
	}
}

func (w *world) write(path, data string) {
	w.t.Helper()
	w.mkdir(filepath.Dir(path))
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) mkdir(dirs ...string) {
	w.t.Helper()
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}

// dirOf returns the directory of a layer, or that of all layers for an empty ID.
func (w *world) dirOf(id string) string {
	return w.m.config.Layers.Set(cloneKey).Lower(meta.WarmLayer, id)[0]
}

// filesOf returns the directory of a layer that an overlay shows.
func (w *world) filesOf(id string) string { return filepath.Join(w.dirOf(id), filesPart) }

// layers lists the names of the layers' directories.
func (w *world) layers() []string {
	w.t.Helper()
	entries, err := os.ReadDir(w.dirOf(""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// records returns the content of the database.
func (w *world) records() meta.State {
	w.t.Helper()
	w.stop()
	state := testdb.Records(w.t, w.root)
	w.start(w.boot)
	return state
}

// chain returns the chain of the only head.
func (w *world) chain() []string {
	w.t.Helper()
	heads := w.m.Heads(cloneKey)
	if len(heads) != 1 {
		w.t.Fatalf("%d heads: %+v", len(heads), heads)
	}
	return heads[0].Chain
}

func detach(t *testing.T, path string) {
	t.Helper()
	release, err := overlay.Detach(path)
	if err == nil {
		err = release()
	}
	if err != nil && !errors.Is(err, overlay.ErrNotMounted) {
		t.Error(err)
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	var got []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) && path == dir {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(path, dir+"/")
		switch {
		case d.Type().IsRegular():
			data, err := os.ReadFile(path)
			got = append(got, rel+"="+string(data))
			return err
		case d.Type() == os.ModeSymlink:
			target, err := os.Readlink(path)
			got = append(got, rel+"->"+target)
			return err
		}
		got = append(got, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// users are Clones that calls use when a clone is used.
type users struct{ use func() }

func (u users) Use(context.Context, string) (func(), error) {
	u.use()
	return func() {}, nil
}

func (u users) Heavy(ctx context.Context, _, _ string) (context.Context, func(), error) {
	return ctx, func() {}, nil
}
