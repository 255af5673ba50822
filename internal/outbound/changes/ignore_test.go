package changes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testdir"
)

// TestIgnoreBounds: neither wide nor deep directories of a container make more directories of ours, or
// more looks, than are allowed.
func TestIgnoreBounds(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) { writeFile(t, filepath.Join(dir, "begin"), "x") })
	deep := strings.Repeat("d/", 8)
	w.write(deep+".gitignore", "x\n")
	w.write(deep+"x", "x")
	w.write("e/.gitignore", "x\n")
	for _, tt := range []struct {
		most, mostMade, copied int
		paths                  []string
		why                    string
	}{
		{100, 100, 2, []string{deep + "x", "e/.gitignore"}, ""},
		{10, 100, 2, []string{"e/.gitignore", deep + "x", deep + "y", "e/z"}, ""},
		{8, 100, 1, []string{deep + "x"}, "more than 8 directories"},
		{9, 100, 1, []string{"e/.gitignore", deep + "x"}, "more than 9 directories"},
		{100, 8, 1, []string{"e/.gitignore", deep + "x"}, "there are too many such files"},
	} {
		src := w.source()
		f := w.reader.newFinder(src)
		must(t, f.find(t.Context()))
		f.found = &list{}
		for _, path := range tt.paths {
			must(t, f.found.add(Change{Path: path, Kind: Added}))
		}
		side := &ignorer{finder: f, side: src.After, ignored: f.ignored[1]}
		n, err := side.copyIgnores(t.Context(), filepath.Join(testdir.New(t, "ignores"), "work"), tt.most, tt.mostMade)
		found := slices.ContainsFunc(f.omitted, func(o Omitted) bool { return strings.Contains(o.Why, tt.why) })
		if err != nil || n != tt.copied || found != (tt.why != "") {
			t.Errorf("at most %d, %q: %d copied, left out %v, %v", tt.most, tt.paths, n, f.omitted, err)
		}
	}
}

// TestLargeIgnores: of files that are too large nothing is read, and what is read of those that are left out counts.
func TestLargeIgnores(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, func(dir string) { writeFile(t, filepath.Join(dir, "begin"), "x") })
	w.write("large", strings.Repeat("#", maxIgnore+1))
	const n = maxIgnores/maxIgnore + 1
	for i := range n {
		w.write(fmt.Sprintf("%02d/.gitignore", i), strings.Repeat("#", maxIgnore))
	}
	src := w.source()
	if data, err := readSmall(src.After.Root, "large", maxIgnore); len(data) != 0 || err != errLarge {
		t.Errorf("%d bytes of a large file, %v", len(data), err)
	}
	f := w.reader.newFinder(src)
	must(t, f.find(t.Context()))
	f.found = &list{}
	for i := range n {
		must(t, f.found.add(Change{Path: fmt.Sprintf("%02d/x", i), Kind: Added}))
	}
	side := &ignorer{finder: f, side: src.After, ignored: f.ignored[1]}
	made, err := side.copyIgnores(t.Context(), filepath.Join(testdir.New(t, "ignores"), "work"), 100, 0)
	if err != nil || made != 0 || len(f.omitted) != n || !strings.Contains(f.omitted[n-1].Why, errLarge.Error()) {
		t.Errorf("%d copied, left out %v, %v", made, f.omitted, err)
	}
}

// TestRemarkBounds: what a container names does not make the remarks of a patch as large as it likes.
func TestRemarkBounds(t *testing.T) {
	t.Parallel()
	p := &Patch{}
	for range 1000 {
		p.remark("left out: %s", strings.Repeat("x", 8<<10))
	}
	if r := p.remarks; r.bytes > maxRemarkBytes || r.more == 0 || len(r.lines)+r.more != 1000 {
		t.Errorf("%d bytes, %d remarks and %d more", r.bytes, len(r.lines), r.more)
	}
}
