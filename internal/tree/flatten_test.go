package tree

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testdir"
)

// flat waits for the flat tree beside one.
func (w *world) flat(t meta.Layer) meta.Layer {
	w.t.Helper()
	var flat meta.Layer
	testdir.Eventually(w.t, "the flat tree", func() (ok bool) {
		flat, ok = w.c.flat(t.Shape, t.Commit)
		return ok
	})
	return flat
}

// TestFlatten: a long chain, or a heavy one, is replaced in the background. The new
// tree is the same, and as good as any other: its index is valid, so that a first
// status reads nothing.
func TestFlatten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		at     int
		from   int64
		layers int                     // with which it is flattened
		world  func(*testing.T) *world // with the machine's git, or that of the root filesystem
	}{
		{"by length", 3, flattenFrom, 3, newWorld},
		{"by weight", 100, 1, 2, newWorld},
		{"by length, rootfs", 3, flattenFrom, 3, newShippedWorld},
		{"by weight, rootfs", 100, 1, 2, newShippedWorld},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := tt.world(t)
			w.shared.flattenAt = 1000
			s := w.spec("ref", "main")
			c := w.c
			w.prepare(s).Release()
			for i := 1; i < tt.layers; i++ {
				w.advance(time.Minute) // another content
				if _, err := gitserver.Commit(w.server.Path("r"), "main",
					gitserver.Change{Path: "heavy", Content: strings.Repeat(w.clock().String(), 20_000)}); err != nil {
					t.Fatal(err)
				}
				if i+1 < tt.layers {
					w.prepare(s).Release()
				}
			}
			deep := w.prepare(s)
			if len(deep.Tree.Chain) != tt.layers {
				t.Fatalf("chain %q, want %d", deep.Tree.Chain, tt.layers)
			}
			before := w.mount(deep, 0)
			w.idle()
			// Only now, for it could be done before the last one is held.
			c.mu.Lock()
			w.shared.flattenAt, w.shared.flattenFrom = tt.at, tt.from
			c.mu.Unlock()
			c.flattenLater(s, deep.Tree)
			w.measure(t.Context())
			flat := w.flat(deep.Tree)
			built := time.Now()
			w.server.Reset()
			co := w.prepare(s)
			if co.Tree.ID != flat.ID || !slices.Equal(co.Tree.Chain, []string{flat.ID}) || co.GitLayer.ID != deep.GitLayer.ID {
				t.Fatalf("a mount stands on %+v, want the flat %s", co.Tree, flat.ID)
			}
			dir := w.mount(co, 0)
			if !maps.Equal(testdir.Contents(t, before), testdir.Contents(t, dir)) {
				t.Error("the flat tree has other files")
			}
			if err := filepath.WalkDir(w.dirOf(flat.ID), func(path string, d os.DirEntry, err error) error {
				if err != nil || d.IsDir() || d.Name() == "index" {
					return err
				}
				info, err := d.Info()
				if err == nil && info.ModTime().Unix() >= built.Unix() {
					t.Errorf("%s is of %v, which is the second of %v", path, info.ModTime(), built)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for _, at := range []string{before, dir} {
				if got := run(t, at, 0, "diff-files", "--name-only"); got != "" {
					t.Errorf("lstat says that these have changed: %q", got)
				}
				if got := run(t, at, 0, "status", "--porcelain"); got != "" {
					t.Errorf("status %q", got)
				}
				if _, err := os.Lstat(filepath.Join(filepath.Dir(at), "upper/.git/index")); !os.IsNotExist(err) {
					t.Errorf("the index was rewritten (%v)", err)
				}
			}
			// What stands on the chain keeps it; then it goes.
			if err := c.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := testdir.Names(t, w.dirOf("")); len(got) != tt.layers+1 {
				t.Errorf("trees %q, want the chain and the flat one", got)
			}
			deep.Release()
			if err := c.collect(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := testdir.Names(t, w.dirOf("")); !slices.Equal(got, []string{flat.ID}) {
				t.Errorf("trees %q, want the flat one %s", got, flat.ID)
			}
			co.Release()
			w.idle()
			w.restart("boot 1")
			co = w.prepare(s)
			if co.Tree.ID != flat.ID {
				t.Errorf("after a restart: tree %s, want %s", co.Tree.ID, flat.ID)
			}
			co.Release()
			w.advance(time.Minute)
			w.push("main")
			co = w.prepare(s)
			defer co.Release()
			if want := []string{co.Tree.ID, flat.ID}; !slices.Equal(co.Tree.Chain, want) {
				t.Errorf("the next tree stands on %q, want %q", co.Tree.Chain, want)
			}
			if got := run(t, w.mount(co, 0), 0, "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
		})
	}
}

// TestFlattenOverALeftover: the plugin was killed after the directory had its name
// and before there was a record, or while it was built.
func TestFlattenOverALeftover(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.shared.flattenAt = 1000
	s := w.spec("ref", "main")
	c := w.c
	w.prepare(s).Release()
	w.advance(time.Minute)
	w.push("main")
	deep := w.prepare(s)
	defer deep.Release()
	left := filepath.Join(w.dirOf(flatID(deep.Tree.Shape, deep.Tree.Commit)), "left")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds it done
		if err := c.flatten(t.Context(), s, deep.Tree); err != nil {
			t.Fatal(err)
		}
	}
	co := w.prepare(s)
	defer co.Release()
	if len(co.Tree.Chain) != 1 {
		t.Errorf("chain %q, want the flat tree", co.Tree.Chain)
	}
	if got := run(t, w.mount(co, 0), 0, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if _, err := os.Lstat(left); !os.IsNotExist(err) {
		t.Errorf("the leftover is in the tree: %v", err)
	}
}

// TestFlattenWhatIsNeeded: a tree that no ref is at any more is left alone, also
// while another one stands on it.
func TestFlattenWhatIsNeeded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("ref", "main")
	c := w.c
	w.prepare(s).Release()
	var trees []meta.Layer
	for range 2 {
		w.advance(time.Minute)
		w.push("main")
		co := w.prepare(s)
		defer co.Release()
		trees = append(trees, co.Tree)
	}
	w.idle()
	c.toFlatten()
	w.shared.flattenAt = 2
	for i, want := range []int{0, 1} {
		c.flattenLater(s, trees[i])
		if got := c.toFlatten(); len(got) != want {
			t.Errorf("tree %d: %d to flatten, want %d", i, len(got), want)
		}
	}
}
