package changes

import (
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
		most, copied int
		paths        []string
		why          string
	}{
		{100, 2, []string{deep + "x", "e/.gitignore"}, ""},
		{8, 1, []string{deep + "x"}, "more than 8 directories"},
		{9, 2, []string{"e/.gitignore", deep + "x"}, "more than 9 directories"},
		{8, 1, []string{"e/.gitignore", deep + "x"}, "there are too many such files"},
	} {
		src := w.source()
		f, err := find(t.Context(), src)
		must(t, err)
		n, err := f.copyIgnores(t.Context(), src, tt.paths, filepath.Join(testdir.New(t, "ignores"), "work"), tt.most)
		found := slices.ContainsFunc(f.omitted, func(o Omitted) bool { return strings.Contains(o.Why, tt.why) })
		if err != nil || n != tt.copied || found != (tt.why != "") {
			t.Errorf("at most %d, %q: %d copied, left out %v, %v", tt.most, tt.paths, n, f.omitted, err)
		}
	}
}

// TestRemarkBounds: what a container names does not make the remarks of a patch as large as it likes.
func TestRemarkBounds(t *testing.T) {
	t.Parallel()
	p := &Patch{}
	for range 1000 {
		p.remark("left out: %s", strings.Repeat("x", 8<<10))
	}
	if p.bytes > maxRemarkBytes || p.more == 0 || len(p.remarks)+p.more != 1000 {
		t.Errorf("%d bytes, %d remarks and %d more", p.bytes, len(p.remarks), p.more)
	}
}
