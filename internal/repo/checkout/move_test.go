package checkout

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestCheckoutsMatchGit checks that a checkout, made or moved from any other commit, is
// identical to that of git alone, to the last byte of the index.
func TestCheckoutsMatchGit(t *testing.T) { withBothGits(t, testCheckoutsMatchGit) }

func testCheckoutsMatchGit(t *testing.T, g tester) {
	dir, n := store(t, g), 0
	scratch := testgit.Scratch(t, g.root)
	var infos []string
	w := testgit.Trees{T: t, Store: dir}
	for _, content := range []string{"", "one\n", "two\n", "a/b"} {
		id := w.Blob(content)
		infos = append(infos, "100644 "+id, "100755 "+id)
		if content != "" {
			infos = append(infos, "120000 "+id)
		}
	}
	infos = append(infos, "160000 "+strings.Repeat("1", 40), "160000 "+strings.Repeat("2", 40))
	names := []string{"a", "a/b", "a/b/c", "a/b/d", "a/bb", "a/x/y/z", "a-", "a.b", "b", "b/c", "b/c/d", "long/er", "c", ".gitignore"}
	draw := rapid.Custom(func(t *rapid.T) map[string]string {
		files := make(map[string]string)
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(names), rapid.ID).Draw(t, "names") {
			if !clashes(files, name) {
				files[name] = rapid.SampledFrom(infos).Draw(t, name)
			}
		}
		return files
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := testgit.Trees{T: t, Store: dir}
		cone := rapid.SampledFrom([]gitindex.Cone{nil, nil, {"a"}, {"a/b", "b"}, {"none"}}).Draw(t, "cone")
		files := draw.Draw(t, "from")
		from := w.Commit(files)
		if rapid.Bool().Draw(t, "few changes") {
			for name := range files {
				if rapid.IntRange(0, 3).Draw(t, "change "+name) == 0 {
					files[name] = rapid.SampledFrom(infos).Draw(t, name)
				}
			}
		} else {
			files = draw.Draw(t, "to")
		}
		to := w.Commit(files)
		root := filepath.Join(scratch, fmt.Sprint(n))
		defer os.RemoveAll(root)

		plain := checkoutDir(t, root, "plain")
		plainCheckout(t, w, plain, to, cone)
		want := state(t, plain)

		whole := Spec{Store: dir, Commit: to, Cone: cone, Dir: checkoutDir(t, root, "whole")}
		_, err := g.make(t.Context(), whole)
		if got := state(t, whole.Dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("whole: %v\n%s\nwant:\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		moved := Spec{Store: dir, Commit: from, Cone: cone, Dir: checkoutDir(t, root, "moved")}
		if _, err = g.make(t.Context(), moved); err != nil {
			t.Fatalf("from: %v", err)
		}
		moved.Commit = to
		_, err = g.move(t.Context(), moved, from)
		if got := state(t, moved.Dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("moved: %v\n%s\nwant:\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		left, err := os.ReadDir(filepath.Join(moved.Dir, ".git"))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range left {
			if d.Name() != IndexFile && d.Name() != "info" {
				t.Errorf("left in .git: %s", d.Name())
			}
		}
	})
}

// TestMovesStack checks that the layers of successive moves show what git makes of the last
// commit, with the attributes that only the lowest layer has.
func TestMovesStack(t *testing.T) {
	g := newGit(t)
	dir, n := store(t, g), 0
	scratch := testgit.Scratch(t, g.root)
	w := testgit.Trees{T: t, Store: dir}
	attributes := map[string]string{
		gitindex.Attributes:        "100644 " + w.Blob("*.x text eol=crlf\n"),
		"d/" + gitindex.Attributes: "100644 " + w.Blob("y text eol=crlf\n"),
	}
	infos := []string{"100644 " + w.Blob("one\n"), "100644 " + w.Blob("two\ntwo\n"), "120000 " + w.Blob("d"), "160000 " + strings.Repeat("1", 40)}
	// Each name of a pair is a directory of the other's.
	names := [][]string{{"a", "a/b/c"}, {"a/b", "a/b/d.x"}, {"d/e", "d/e/y"}, {"d/y", "d/y/y"}, {"e.x/f", "e.x"}, {"g/h/i", "g/h"}}
	draw := rapid.Custom(func(t *rapid.T) map[string]string {
		files := maps.Clone(attributes)
		for _, pair := range names {
			if name := rapid.SampledFrom(append(pair, "")).Draw(t, "name"); name != "" && !clashes(files, name) {
				files[name] = rapid.SampledFrom(infos).Draw(t, "content")
			}
		}
		return files
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		root := filepath.Join(scratch, fmt.Sprint(n))
		defer os.RemoveAll(root)
		w := testgit.Trees{T: t, Store: dir}
		var layers []string // topmost first
		last := ""
		for i := range rapid.IntRange(2, 5).Draw(t, "commits") {
			commit := w.Commit(draw.Draw(t, "files"))
			c := Spec{Store: dir, Commit: commit, Dir: checkoutDir(t, root, fmt.Sprint(i)), Below: layers}
			var err error
			if i == 0 {
				_, err = g.make(t.Context(), c)
			} else {
				_, err = Move(t.Context(), g.Git, c, last)
			}
			if err != nil {
				t.Fatal(err)
			}
			layers, last = append([]string{c.Dir}, layers...), commit
		}
		plain := checkoutDir(t, root, "plain")
		plainCheckout(t, w, plain, last, nil)
		if err := withOverlay(layers, filepath.Join(root, "tree"), func(tree string) error {
			if got, want := state(t, tree), state(t, plain); !slices.Equal(got, want) {
				t.Errorf("%d layers:\n%s\nwant:\n%s", len(layers), strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// clashes reports whether a name is a directory of one of the files' names, or the reverse.
func clashes(files map[string]string, name string) bool {
	for other := range files {
		if strings.HasPrefix(name+"/", other+"/") || strings.HasPrefix(other+"/", name+"/") {
			return true
		}
	}
	return false
}

// TestMoveRefuses checks that a move puts nothing into an index that git would refuse. It
// also fails for a checkout of another commit than the given one, and for a commit that an
// index can't represent, because the next checkout would be incomplete.
func TestMoveRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	g := newGit(t)
	w := newTrees(t, g)
	x, y, link := w.Blob("x\n"), w.Blob("y\n"), w.Blob("/etc")
	inner, none := w.Tree(w.Entry("100644", "f", y)), w.Tree()
	wide := none // a million directories
	for range 6 {
		var entries []string
		for i := range 10 {
			entries = append(entries, w.Entry("40000", fmt.Sprint(i), wide))
		}
		wide = w.Tree(entries...)
	}
	const attributes, plain = ".gitattributes", "100644 "
	base := map[string]string{"a": plain + x, "d/f": plain + x, "link": "120000 " + link, attributes: plain + x}
	with := func(name, info string) string {
		files := maps.Clone(base)
		files[name] = info
		return w.Commit(files)
	}
	from := w.Commit(base)
	entries := []string{w.Entry("100644", attributes, x), w.Entry("100644", "a", x), w.Entry("120000", "link", link)}
	and := func(more ...string) string { return w.CommitTree(slices.Concat(entries, more)...) }
	oneZ := and(w.Entry("100644", "z", x))
	for _, tt := range []struct {
		name     string
		from, is string // is: what is there, if it is not from
		to       string
		want     string
	}{
		{"attributes change", from, "", with(attributes, plain+y), "too different"},
		{"attributes come", from, "", with("d/"+attributes, plain+y), "too different"},
		{"attributes are a link, and others change", with("d/"+attributes, "120000 "+link), "", w.Commit(map[string]string{"d/" + attributes: "120000 " + link}), "too different"},
		{"a million directories", from, "", and(w.Entry("40000", "w", wide)), "too different"},
		{"a name of 5000 bytes", from, "", and(w.Entry("100644", strings.Repeat("n", 5000), x)), "too different"},
		{"a .git", from, "", and(w.Entry("40000", ".git", inner)), "refuses some of the names"},
		{"a path upwards", from, "", and(w.Entry("40000", "..", inner)), "refuses some of the names"},
		{"a slash in a name", from, "", and(w.Entry("100644", "../f", y)), "refuses some of the names"},
		{"a link that is a directory too", from, "", and(w.Entry("40000", "link", inner)), "does not match"},
		{"a name twice", from, "", and(w.Entry("100644", "z", x), w.Entry("100644", "z", y)), "refuses some of the names"},
		{"an empty directory", from, "", and(w.Entry("40000", "z", none)), "does not match"},
		{"a mode of old", from, "", and(w.Entry("100664", "z", x)), "does not match"},
		{"a mode of old instead", and(w.Entry("100644", "z", x)), "", and(w.Entry("100664", "z", x)), "does not match"},
		{"a name was twice", and(w.Entry("100644", "z", x), w.Entry("100644", "z", x)), "", oneZ, "does not match"},
		{"a name was twice, with two contents", and(w.Entry("100644", "z", x), w.Entry("100644", "z", y)), "", oneZ, "does not match"},
		{"a directory was twice", and(w.Entry("40000", "q", inner), w.Entry("40000", "q", inner)), "", and(w.Entry("40000", "q", inner)), "does not match"},
		{"a file was a directory too", and(w.Entry("100644", "q", x), w.Entry("40000", "q", inner)), "", and(w.Entry("100644", "q", x)), "does not match"},
		{"another base with more", with("b", plain+y), from, from, "the index is of another commit"},
		{"another base with other files", with("b", plain+y), w.Commit(map[string]string{"b": plain + x}), oneZ, "of another commit"},
		{"a base that the store lacks", strings.Repeat("1", 40), from, from, "1111"},
	} {
		co := newSpec(t, g, w, cmp.Or(tt.is, tt.from))
		_, err := g.make(t.Context(), co)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		co.Commit = tt.to
		_, err = g.move(t.Context(), co, tt.from)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
