package git

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/gitindex"
)

// TestWritersShareDirectories: several processes write files below directories that
// none of them finds.
func TestWritersShareDirectories(t *testing.T) {
	t.Parallel()
	withBothGits(t, testWritersShareDirectories)
}

func testWritersShareDirectories(t *testing.T, g *Git) {
	dir := store(t, g)
	w := trees{t, dir}
	files, id := make(map[string]string), w.blob("x\n")
	for i := range 4 * filesPerWriter {
		files[fmt.Sprintf("src/main/java/com/example/%d/%d", i/1000, i)] = "100644 " + id
	}
	commit := w.commit(files)
	for range 10 {
		co := Checkout{Store: dir, Commit: commit, Dir: checkoutDir(t, scratchIn(t, g.root), "x")}
		if _, err := g.Checkout(t.Context(), co); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSplitNames: what is written first is what the parts have in common, and what
// says how they are written.
func TestSplitNames(t *testing.T) {
	t.Parallel()
	names := []string{"a/.gitattributes", "a/b/1", "a/b/2", "a/b/3", "a/c/1", "b"}
	for _, tt := range []struct {
		n     int
		first []string
		parts [][]string
	}{
		{1, nil, [][]string{{"a/b/1", "a/b/2", "a/b/3", "a/c/1", "b"}}},
		{2, []string{"a/b/1", "a/b/3"}, [][]string{{"a/b/2"}, {"a/c/1", "b"}}},
	} {
		attributes, first, parts := splitNames(names, tt.n)
		if !slices.Equal(attributes, names[:1]) || !slices.Equal(first, tt.first) || !reflect.DeepEqual(parts, tt.parts) {
			t.Errorf("%d parts: %q and %q, want %q and %q", tt.n, first, parts, tt.first, tt.parts)
		}
	}
}

// TestMissingObjects: a store that lacks what a checkout needs is corrupt, whatever
// it lacks.
func TestMissingObjects(t *testing.T) {
	t.Parallel()
	withBothGits(t, testMissingObjects)
}

func testMissingObjects(t *testing.T, g *Git) {
	for _, lacks := range []string{"^{tree}", ":d", ":d/f"} {
		dir := store(t, g)
		w := trees{t, dir}
		commit := w.commit(map[string]string{"d/f": "100644 " + w.blob("x\n")})
		id := w.git("", nil, "rev-parse", commit+lacks)
		if err := os.Remove(filepath.Join(dir, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		_, err := g.Checkout(t.Context(), Checkout{Store: dir, Commit: commit, Dir: checkoutDir(t, scratchIn(t, g.root), "x")})
		if KindOf(err) != KindCorrupt {
			t.Errorf("without %s: %v, of kind %q, want %q", lacks, err, KindOf(err), KindCorrupt)
		}
	}
}

// TestWritersKnowAttributes: several processes write the files, each as the
// attributes say.
func TestWritersKnowAttributes(t *testing.T) {
	t.Parallel()
	withBothGits(t, testWritersKnowAttributes)
}

func testWritersKnowAttributes(t *testing.T, g *Git) {
	dir := store(t, g)
	w := trees{t, dir}
	id := w.blob("one\ntwo\n")
	files := map[string]string{
		".gitattributes":     "100644 " + w.blob("* text\n"),
		"9/z/.gitattributes": "100644 " + w.blob("* eol=crlf\n"),
	}
	for i := range 3 * filesPerWriter {
		files[fmt.Sprintf("%d/z/%d", i%10, i)] = "100644 " + id
	}
	co := Checkout{Store: dir, Commit: w.commit(files), Dir: checkoutDir(t, scratchIn(t, g.root), "x")}
	if _, err := g.Checkout(t.Context(), co); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		want := "one\ntwo\n"
		if strings.HasPrefix(name, "9/") {
			want = "one\r\ntwo\r\n"
		}
		data, err := os.ReadFile(filepath.Join(co.Dir, name))
		if err != nil || filepath.Base(name) != gitindex.Attributes && string(data) != want {
			t.Errorf("%s: %q, %v; want %q", name, data, err, want)
		}
	}
}
