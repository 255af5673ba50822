package tree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/disk"
	"github.com/helmdeck/repos/internal/disk/durable"
	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/internal/repo/checkout"
	"github.com/helmdeck/repos/internal/repo/remote"
	"github.com/helmdeck/repos/internal/work"
	"github.com/helmdeck/repos/tests/testworld"
	"github.com/helmdeck/repos/tests/wait"
)

// TestMain lets the test binary be the program that checks out.
func TestMain(m *testing.M) {
	checkout.ServeJob()
	os.Exit(m.Run())
}

// world is a testworld.World with the Collection of its repository.
type world struct {
	*testworld.World
	data   testworld.Data
	common *Common
	c      *Collection
}

// newWorld makes a world with the git of a root filesystem, or with the machine's if system
// is empty.
func newWorld(t *testing.T, system string) *world {
	t.Helper()
	w := &world{World: testworld.New(t, system)}
	w.start("boot 1")
	return w
}

// start opens the data directory, as a plugin that starts in a boot.
func (w *world) start(boot string) {
	w.T.Helper()
	d := w.Open(boot, git.Config{})
	const key = "holder/r"
	dir := filepath.Join(w.Root, "clones", key)
	var r *remote.Remote
	c := remote.Config{
		Dir:  dir,
		Used: &work.Resource{Group: d.Work, Name: key, Gone: errors.New("gone"), Report: func(err error) { w.T.Error(err) }},
		Git:  d.Git, Trash: d.Trash, Log: remote.Log{Logger: d.Log, Clone: key}, Now: w.Now, AskTimeout: 20 * time.Second,
		Credential: func(context.Context, string, string) (*git.Auth, error) { return nil, nil },
		WithRoom:   func(_ context.Context, _ disk.Size, f func() error) error { return f() },
		MakeDir:    func() error { return durable.MkdirAll(filepath.Join(dir, "store"), 0o755) },
		SyncDir:    func() error { return nil },
		RemoveDir:  func() error { return nil },
		Save: func() error {
			return d.DB.Update(func(tx *meta.Tx) error { return tx.PutClone(meta.Clone{Key: key, Stores: r.Stores()}) })
		},
		Measure: func(...string) { d.Work.Go(w.measure) },
	}
	r = remote.New(c, d.State.Clones[key].Stores)
	w.data, w.common = d, new(Common)
	w.c = New(w.common, Config{
		Repo: r, Dir: c.Dir, Layers: d.Layers.Set(key), Used: c.Used, Git: c.Git, Log: c.Log, Now: c.Now, Doing: &r.Doing,
		WithRoom: c.WithRoom, Measure: c.Measure,
	})
	d.Work.Go(d.Layers.Run)
}

// measure measures the layers, and then flattens the trees that should be flattened.
func (w *world) measure(ctx context.Context) {
	list, err := w.c.layers.Measure(ctx, disk.NewPace(0))
	if err == nil {
		err = w.data.DB.Update(func(tx *meta.Tx) error { return w.c.layers.Save(tx, list...) })
	}
	if err != nil && ctx.Err() == nil {
		w.T.Error(err)
	}
	w.c.FlattenSoon()
}

// restart closes the data directory and opens it again.
func (w *world) restart(boot string) {
	w.T.Helper()
	w.data.Close()
	w.start(boot)
}

// spec returns the Spec of a volume of the repository with these options.
func (w *world) spec(options ...string) Spec {
	w.T.Helper()
	o := w.Options(options...)
	return Spec{
		Source: remote.Source{URL: o.Repo, Ref: o.Ref, History: o.History, Refresh: o.Refresh, StaleIfError: o.StaleIfError},
		Files:  o.Files, UID: o.UID, GID: o.GID, CacheLink: o.CacheLink,
	}
}

// held has a tree and a git layer, which are held until Release is called.
type held struct {
	Layers
	Lower []string
}

// prepare builds the layers of a workspace.
func (w *world) prepare(s Spec) *held {
	w.T.Helper()
	var h *held
	err := w.c.repo.Snapshot(w.T.Context(), s.Source, func(snap *remote.Snapshot) error {
		l, err := w.c.Build(w.T.Context(), snap, s)
		if err == nil {
			h = &held{l, w.c.Lower(l.Tree.Chain, l.GitLayer.ID)}
		}
		return err
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return h
}

// idle waits until no work is running and all layers are measured.
func (w *world) idle() {
	w.T.Helper()
	wait.For(w.T, "the end of all work", func() error {
		return wait.Check(!w.c.used.Usage().Used && len(w.c.layers.Unmeasured()) == 0, "%+v, %d layers to measure", w.c.used.Usage(), len(w.c.layers.Unmeasured()))
	})
}

// dirOf returns the directory of a tree; for the empty ID that of all trees.
func (w *world) dirOf(id string) string { return w.c.layers.Lower(meta.Tree, id)[0] }
