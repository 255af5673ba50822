package warm

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/meta"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestEditedLeftOut checks that a change at a warm path that the commit has is one of the files from which the others were
// built.
func TestEditedLeftOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, edit := range []bool{false, true} {
		w.run(w.want("nm", "web"), func(s *session) {
			s.write("nm/x", fmt.Sprint(i))
			if edit {
				s.write("web/package.json", "edited")
			}
		})
		if l, _ := w.m.config.Layers.Set(cloneKey).Get(meta.WarmLayer, w.chain()[0]); l.Edited != edit {
			t.Errorf("edited %v: %+v", edit, l)
		}
	}
}

// TestSharedIndexes checks that an index that layers share with the tree counts in none of them.
func TestSharedIndexes(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	w := newWorld(t)
	w.write(filepath.Join(w.tree, ".git/index"), strings.Repeat("x", size))
	want := w.want("a", "b", "c")
	for i := range flattenAt + 2 { // some are flattened
		w.run(want, func(s *session) {
			for _, path := range want.Paths {
				s.write(path+"/x", fmt.Sprint(i))
			}
		})
	}
	links, err := filepath.Glob(filepath.Join(w.dirOf(""), "*", basePart, "index"))
	if err != nil || len(links) != len(w.layers()) || len(links) != 3*3 {
		t.Errorf("%d layers have %q, %v", len(w.layers()), links, err)
	}
	if got := w.m.Size(cloneKey); got.Bytes == 0 || got.Bytes >= size {
		t.Errorf("the layers have %+v", got)
	}
}

// TestUnlikeOnce checks that two commits that are too different for a layer of times are compared once.
func TestUnlikeOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	index := func(dir, id string) {
		t.Helper()
		var list strings.Builder
		for i := range 20_001 {
			fmt.Fprintf(&list, "100644 %s\tf%d\n", strings.Repeat(id, 40), i)
		}
		testgit.Git(t, w.root, "init", "-q", dir)
		cmd := testgit.Command(dir, "update-index", "--index-info")
		cmd.Stdin = strings.NewReader(list.String())
		if _, err := testgit.Run(cmd); err != nil {
			t.Fatal(err)
		}
	}
	index(w.tree, "1")
	nm := w.want("nm")
	w.run(nm, func(s *session) { s.write("nm/x", "x") })
	other := nm
	other.Tree = []string{filepath.Join(w.root, "other")}
	index(other.Tree[0], "2")
	before := w.m.config.Trash.Stats().Entries
	for i, tt := range []struct {
		tree     string
		compared int
	}{{"second", 1}, {"second", 1}, {"third", 2}, {"second", 2}} {
		other.Built.ID = tt.tree
		paths, err := w.m.Select(t.Context(), other)
		if err != nil || paths[0].LeftOut != tooDifferent || paths[0].Base.Times != "" {
			t.Fatalf("%+v, %v", paths, err)
		}
		w.m.Drop(cloneKey, paths)
		if got := w.m.config.Trash.Stats().Entries - before; got != tt.compared { // each leaves the layer that it did not make
			t.Errorf("%d comparisons for %d mounts, want %d", got, i+1, tt.compared)
		}
	}
	w.sees(nm, "nm", "x=x")
}
