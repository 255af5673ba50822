package changes

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestList: a list yields each path once, in order, with its last kind, however many runs it has
// written; it has a bounded part in memory, and leaves no file.
func TestList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, runChanges - 1, runChanges, 5*runChanges + 7} {
		dir := testdir.New(t, "list")
		l, last := &list{dir: dir}, make(map[string]Kind)
		defer l.close()
		rnd := rand.New(rand.NewPCG(uint64(n), 1))
		for range n {
			path := fmt.Sprint(rnd.IntN(max(n/2, 1)), strings.Repeat("\xff", rnd.IntN(100)/99*200))
			last[path] = kinds[rnd.IntN(len(kinds))]
			must(t, l.add(Change{Path: path, Kind: last[path]}))
			if len(l.run) >= runChanges || l.bytes >= runBytes {
				t.Fatalf("%d changes with %d bytes are in memory", len(l.run), l.bytes)
			}
		}
		if got := len(testdir.Names(t, dir)); got > 0 {
			t.Errorf("%d files are in the directory", got)
		}
		if runs := len(l.ends); runs < n/runChanges {
			t.Errorf("%d changes are in %d runs", n, runs)
		}
		for range 2 { // it can be read again
			var got []string
			for c, err := range l.all() {
				must(t, err)
				if last[c.Path] != c.Kind {
					t.Fatalf("%q is %s, want %s", c.Path, c.Kind, last[c.Path])
				}
				got = append(got, c.Path)
			}
			if len(got) != len(last) || !slices.IsSorted(got) {
				t.Errorf("of %d changes there are %d, want %d, by path", n, len(got), len(last))
			}
		}
	}
}

// TestManyChanges: changes that do not fit into memory are those that git finds, ignored ones included.
func TestManyChanges(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) { writeFile(t, dir+"/old", "x") })
	must(t, os.Remove(w.path("old")))
	w.write(".gitignore", "*7\n")
	const n = 2 * runChanges
	for i := range n {
		w.write(fmt.Sprintf("dir%dx/file-%d", i/1000, i), "")
	}
	set, got := w.find()
	const ignored = (n + 2) / 10
	if set.Added != n-ignored+1 || set.Ignored != ignored || set.Deleted != 1 || len(got) != n+2 || len(set.found.ends) == 0 {
		t.Errorf("%d added, %d ignored, %d deleted, %d listed, %d runs", set.Added, set.Ignored, set.Deleted, len(got), len(set.found.ends))
	}
	for _, line := range got {
		if strings.HasPrefix(line, "! ") != strings.HasSuffix(line, "7") {
			t.Fatalf("%q", line)
		}
	}
}
