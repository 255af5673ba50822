package tree

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/checkout"
	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/layer"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/internal/remote"
	"github.com/helmdeck/repos/internal/volume"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// fetcher owns the stores of these tests.
const fetcher = 64124

// world is a data directory with the stores and layers of one repository, and a remote
// that has it as "r".
type world struct {
	t      *testing.T
	root   string
	system string // the root filesystem whose git works here; empty: the machine's
	server *gitserver.Server
	git    *git.Git
	db     *meta.DB
	shared *Shared
	c      *Collection
	close  func()

	mu  sync.Mutex
	now time.Time
}

func scratch(t *testing.T) string {
	t.Helper()
	return testdir.New(t, "tree")
}

// withBothGits runs a test in a world with the machine's git, and in one with that
// of the plugin's root filesystem.
func withBothGits(t *testing.T, f func(t *testing.T, w *world)) {
	t.Run("machine", func(t *testing.T) { f(t, newWorld(t)) })
	t.Run("rootfs", func(t *testing.T) { f(t, newShippedWorld(t)) })
}

// newShippedWorld is newWorld with the git of the plugin's root filesystem.
func newShippedWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, testroot.New(t))
}

// newWorld is a world with the machine's git.
func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, "")
}

// newWorldIn is newWorld with the git of a root filesystem, and the data below it.
func newWorldIn(t *testing.T, system string) *world {
	t.Helper()
	repos := scratch(t)
	if _, err := gitserver.Generate(filepath.Join(repos, "r.git"), gitserver.Spec{
		Seed: 1, Files: 60, Commits: 3, Changes: 5, Branches: []string{"feature/x"},
	}); err != nil {
		t.Fatal(err)
	}
	s, err := gitserver.Start(repos)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	data := scratch(t)
	if system != "" {
		data = testdir.NewIn(t, filepath.Join(system, "var/tmp"), "tree")
	}
	w := &world{t: t, system: system, root: filepath.Join(data, "data"), server: s, now: time.Now()}
	if err := os.Mkdir(w.root, 0o755); err != nil {
		t.Fatal(err)
	}
	w.start("boot 1")
	return w
}

// start opens what is in the data directory, as a plugin that starts in a boot.
func (w *world) start(boot string) {
	w.t.Helper()
	config := git.Config{
		Root: w.system, Self: testroot.Self(w.system), Program: "/usr/bin/git", UID: fetcher, GID: fetcher, Schemes: []string{"http", "https"},
	}
	if w.system == "" {
		var err error
		if config.Program, err = exec.LookPath("git"); err != nil {
			w.t.Fatal(err)
		}
	}
	g, err := git.New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	d := testdb.Open(w.t, w.root)
	group := work.NewGroup()
	layers := layer.New(layer.Config{
		Root: w.root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: w.clock, Background: group.Go,
	}, d.State)
	const key = "holder/r"
	var r *remote.Remote
	r = remote.New(remote.Config{
		Dir: filepath.Join(w.root, "clones", key), LockFile: filepath.Join(w.root, "lock"),
		Used: &work.Resource{Group: group, Name: key, Gone: errors.New("gone"), Report: func(err error) { w.t.Error(err) }},
		Git:  g, Trash: d.Trash, Log: d.Log.WithField("key", key), Now: w.clock, AskTimeout: 20 * time.Second,
		Credential: func(string, string) (*git.Auth, error) { return nil, nil },
		WithRoom:   func(_ context.Context, _ disk.Size, f func() error) error { return f() },
		MakeDir:    func() error { return durable.MkdirAll(filepath.Join(r.Dir, "store"), 0o755) },
		RemoveDir:  func() error { return nil },
		Save: func() error {
			return d.DB.Update(func(tx *meta.Tx) error { return tx.PutClone(meta.Clone{Key: key, Stores: r.Stores()}) })
		},
		Measure: func(...string) { group.Go(w.measure) },
	}, d.State.Clones[key].Stores)
	w.git, w.db, w.shared = g, d.DB, new(Shared)
	w.c = New(w.shared, r, layers.Set(key), nil)
	group.Go(layers.Run)
	w.close = sync.OnceFunc(func() {
		group.Close()
		if err := d.DB.Close(); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(w.close)
}

// measure measures the layers, and flattens what is to be flattened then.
func (w *world) measure(ctx context.Context) {
	list, err := w.c.layers.Measure(ctx, disk.NewPace(0))
	if err == nil {
		err = w.db.Update(func(tx *meta.Tx) error { return w.c.layers.Save(tx, list...) })
	}
	if err != nil && ctx.Err() == nil {
		w.t.Error(err)
	}
	w.c.FlattenSoon()
}

// restart is close and start.
func (w *world) restart(boot string) {
	w.t.Helper()
	w.close()
	w.start(boot)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// spec reads options as a Create does; repo is the remote's.
func (w *world) spec(options ...string) Spec {
	w.t.Helper()
	given := map[string]string{"repo": w.server.URL("r")}
	for i := 0; i < len(options); i += 2 {
		given[options[i]] = options[i+1]
	}
	o, err := volume.Parse(given, nil, volume.AllSchemes())
	if err != nil {
		w.t.Fatal(err)
	}
	return Spec{
		Source: remote.Source{URL: o.Repo, Ref: o.Ref, History: o.History, Refresh: o.Refresh, StaleIfError: o.StaleIfError},
		Files:  o.Files, UID: o.UID, GID: o.GID,
	}
}

// held is a tree and a git layer that are held until Release.
type held struct {
	Tree, GitLayer meta.Layer
	Lower          []string
	Release        func()
}

// prepare builds what a workspace stands on.
func (w *world) prepare(s Spec) *held {
	w.t.Helper()
	c, ctx := w.c, w.t.Context()
	r, _, err := c.remote.Resolve(ctx, s.Source, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for {
		tree, err := c.Tree(ctx, s, r.Commit)
		if err != nil {
			w.t.Fatal(err)
		}
		store, _ := c.remote.Store(s.History)
		l, err := c.GitLayer(ctx, s, r, store, tree)
		if err != nil {
			w.t.Fatal(err)
		}
		if c.HoldKnown(tree, l) {
			return &held{tree, l, c.Lower(tree.Chain, l.ID), func() { c.Drop(tree.Chain, l.ID) }}
		}
	}
}

// idle waits until nothing is at work.
func (w *world) idle() {
	w.t.Helper()
	testdir.Eventually(w.t, "the end of all work", func() bool {
		return !w.c.remote.Used.Usage().Used && len(w.c.layers.Unmeasured()) == 0
	})
}

// dirOf returns the directory of a tree, or that of all.
func (w *world) dirOf(id string) string { return w.c.layers.Lower(meta.Tree, id)[0] }

// mount mounts what a workspace would get, and returns where.
func (w *world) mount(co *held, uid int) string {
	w.t.Helper()
	dir := scratch(w.t)
	for _, d := range []string{"upper", "work", "tree"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, d), uid, uid); err != nil {
			w.t.Fatal(err)
		}
	}
	target := filepath.Join(dir, "tree")
	if err := overlay.Mount(overlay.Spec{
		Lower: co.Lower, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: target, Volatile: true,
	}); err != nil {
		w.t.Fatal(err)
	}
	return target
}

// push adds a commit to a branch of the remote, and returns its ID.
func (w *world) push(branch string) string {
	w.t.Helper()
	id, err := gitserver.Commit(w.server.Path("r"), branch, gitserver.Change{Path: "pushed", Content: w.clock().String() + branch})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// run runs git in dir as uid, as a container would.
func run(t *testing.T, dir string, uid int, args ...string) string {
	t.Helper()
	return strings.TrimSpace(testgit.GitAs(t, uid, dir, args...))
}
