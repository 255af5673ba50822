package layer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdb"
	"github.com/helmdeck/repos/tests/testdir"
)

const owner = "s/c"

// world is a data directory with a Store.
type world struct {
	t     *testing.T
	root  string
	store *Store
	set   *Set
	work  sync.WaitGroup // background work
	stop  func()
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, root: testdir.New(t, "layer")}
	w.start("boot 1")
	return w
}

func (w *world) start(boot string) {
	w.t.Helper()
	d := testdb.Open(w.t, w.root)
	ctx, cancel := context.WithCancel(context.Background())
	w.store = New(Config{
		Root: w.root, Boot: boot, DB: d.DB, Trash: d.Trash, Log: d.Log, Now: time.Now,
		Background: func(f func(context.Context)) { w.work.Go(func() { f(ctx) }) },
	}, d.State)
	w.set = w.store.Set(owner)
	w.stop = sync.OnceFunc(func() {
		cancel()
		w.work.Wait()
		d.DB.Close()
	})
	w.t.Cleanup(w.stop)
}

func (w *world) restart(boot string) {
	w.t.Helper()
	w.stop()
	w.start(boot)
}

// temp makes the directory of an unpublished layer, with a file in it.
func (w *world) temp(k meta.Kind) string {
	w.t.Helper()
	temp, err := w.set.Temp(k)
	if err == nil {
		err = os.WriteFile(filepath.Join(temp, "file"), make([]byte, 10_000), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return temp
}

// publish makes and publishes a layer.
func (w *world) publish(k meta.Kind, id string, below ...string) meta.Layer {
	w.t.Helper()
	l := meta.Layer{Kind: k, ID: id}
	if k == meta.Tree {
		l.Chain = append([]string{id}, below...)
	}
	l, err := w.set.Publish(l, w.temp(k))
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// path returns the directory of a layer.
func (w *world) path(k meta.Kind, id string) string { return w.set.Lower(k, id)[0] }

// wants checks which trees exist in memory, in the database and on disk.
func (w *world) wants(ids ...string) {
	w.t.Helper()
	var known, dirs, records []string
	for _, l := range w.set.List(meta.Tree) {
		known = append(known, l.ID)
	}
	entries, err := os.ReadDir(w.path(meta.Tree, ""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	for _, e := range entries {
		dirs = append(dirs, e.Name())
	}
	w.restart(w.store.config.Boot)
	for _, l := range w.set.List(meta.Tree) {
		records = append(records, l.ID)
	}
	for where, got := range map[string][]string{"in memory": known, "on disk": dirs, "in the database": records} {
		slices.Sort(got)
		if !slices.Equal(got, ids) {
			w.t.Errorf("trees %s: %q, want %q", where, got, ids)
		}
	}
}

func (w *world) must(errs ...error) {
	w.t.Helper()
	if err := errors.Join(errs...); err != nil {
		w.t.Fatal(err)
	}
}
