package clone

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testworld"
)

// git status sees an edit of the same size in the second of the checkout, and an edit that
// restores the file's time.
func TestEditRightAfterMount(t *testing.T) {
	t.Parallel()
	testworld.WithBothGits(t, testEditRightAfterMount)
}

func testEditRightAfterMount(t *testing.T, system string) {
	w := newWorld(t, system)
	co := w.prepare(w.spec("ref", "main"))
	defer co.Release()
	dir := w.Mount(co.Lower, 0)
	for _, name := range []string{"README.md", "build.sh"} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		data[0] ^= 1
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := run(t, dir, 0, "status", "--porcelain"); got != "M README.md\n M build.sh" {
		t.Errorf("status %q", got)
	}
}

// The first git status neither rewrites the index nor opens a file of the tree.
func TestFirstStatusReadsNothing(t *testing.T) {
	t.Parallel()
	testworld.WithBothGits(t, testFirstStatusReadsNothing)
}

func testFirstStatusReadsNothing(t *testing.T, system string) {
	w := newWorld(t, system)
	for _, uid := range []int{0, 64777} {
		ids := []string{"0", "64777"}[min(uid, 1)]
		co := w.prepare(w.spec("ref", "main", "uid", ids, "gid", ids))
		built := time.Now()
		defer co.Release()
		dir := w.Mount(co.Lower, uid)
		tree := co.Lower[len(co.Lower)-1]
		files := strings.Split(run(t, dir, uid, "ls-files", "-z"), "\x00")
		for _, name := range files[:len(files)-1] {
			info, err := os.Lstat(filepath.Join(tree, name))
			if err != nil {
				t.Fatal(err)
			}
			if info.ModTime().Unix() >= built.Unix() {
				t.Errorf("%s is of %v, which is the second of %v", name, info.ModTime(), built)
			}
		}
		if got := run(t, dir, uid, "status", "--porcelain"); got != "" {
			t.Errorf("uid %d: status %q", uid, got)
		}
		if got := run(t, dir, uid, "diff-files", "--name-only"); got != "" {
			t.Errorf("uid %d: lstat says that these have changed: %q", uid, got)
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(dir), "upper/.git/index")); !os.IsNotExist(err) {
			t.Errorf("uid %d: the index was rewritten (%v)", uid, err)
		}
	}
}

func TestAnotherUID(t *testing.T) {
	t.Parallel()
	testworld.WithBothGits(t, testAnotherUID)
}

func testAnotherUID(t *testing.T, system string) {
	w := newWorld(t, system)
	const uid = 64778
	co := w.prepare(w.spec("ref", "main", "uid", "64778", "gid", "64778"))
	defer co.Release()
	dir := w.Mount(co.Lower, uid)
	if err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		got, pack := owner(t, path), strings.Contains(path, "/objects/pack/") && filepath.Ext(path) != ".keep"
		if want := map[bool]int{false: uid, true: testworld.Fetcher}[pack]; got != want {
			t.Errorf("%s belongs to %d, want %d", path, got, want)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "new"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	run(t, dir, uid, "add", "new")
	run(t, dir, uid, "commit", "-qm", "mine")
	run(t, dir, uid, "fsck", "--strict")
	// Root has another tree of the same commit.
	root := w.prepare(w.spec("ref", "main"))
	defer root.Release()
	if got := owner(t, filepath.Join(w.Mount(root.Lower, 0), "README.md")); got != 0 {
		t.Errorf("root's file belongs to %d", got)
	}
}

// owner returns the uid and gid of path itself.
func owner(t *testing.T, path string) int {
	t.Helper()
	out, err := exec.Command("stat", "-c", "%u", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range strings.TrimSpace(string(out)) {
		n = 10*n + int(d-'0')
	}
	return n
}

func TestTracksCache(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change gitserver.Change
		want   bool
	}{
		{"file", gitserver.Change{Path: ".hdcache", Content: "x"}, true},
		{"directory", gitserver.Change{Path: ".hdcache/x", Content: "x"}, true},
		{"symlink to nowhere", gitserver.Change{Path: ".hdcache", Mode: "120000", Content: "nowhere"}, true},
		{"deeper", gitserver.Change{Path: "sub/.hdcache", Content: "x"}, false},
	} {
		w := newWorld(t, "")
		w.Commit("main", tt.change)
		co := w.prepare(w.spec("ref", "main"))
		if got := co.Tree.TracksCache; got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		co.Release()
	}
}

// A container sees the same as after git clone, for a tree with files that are difficult to
// check out.
func TestPlainClone(t *testing.T) {
	t.Parallel()
	testworld.WithBothGits(t, testPlainClone)
}

func testPlainClone(t *testing.T, system string) {
	w := newWorld(t, system)
	w.Commit("main",
		gitserver.Change{Path: "crlf.txt", Content: "a\r\nb\r\n"}, // which text=auto would store otherwise
		gitserver.Change{Path: "deep/" + strings.Repeat("d/", 50) + "f", Content: "x"},
		gitserver.Change{Path: "new\nline", Content: "x"},
		gitserver.Change{Path: ".gitattributes", Content: "* text=auto\n*.u16 working-tree-encoding=UTF-16\n*.sjis working-tree-encoding=SHIFT-JIS eol=crlf\n"},
		gitserver.Change{Path: "text.u16", Content: "日本語\n"}, gitserver.Change{Path: "text.sjis", Content: "日本語\n"},
	)
	co := w.prepare(w.spec("ref", "main"))
	defer co.Release()
	dir, plain := w.Mount(co.Lower, 0), filepath.Join(testdir.New(t, "clone"), "plain")
	run(t, "/", 0, "clone", "-q", w.Server.URL("r"), plain)
	for _, args := range [][]string{
		{"rev-parse", "HEAD"}, {"symbolic-ref", "HEAD"}, {"for-each-ref"}, {"ls-files", "-s"}, {"show-ref", "-d"},
		{"remote", "-v"}, {"branch", "-avv"}, {"log", "--all", "--format=%H %s"}, {"describe", "--tags"}, {"stash", "list"},
		{"config", "--get-regexp", `^(remote|branch)\.`}, {"diff", "--stat", "origin/feature/x"},
	} {
		if got, want := run(t, dir, 0, args...), run(t, plain, 0, args...); got != want {
			t.Errorf("git %s\n got %s\nwant %s", strings.Join(args, " "), got, want)
		}
	}
	for path, want := range testdir.Contents(t, plain) {
		if got := testdir.Contents(t, dir)[path]; got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// Trees that nothing needs stay while a needed tree stands on their layers, and are
// collected with it.
func TestCollectKeepsBaseLayers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	w.prepare(s).Release()
	c := w.clone(s)
	for range 2 {
		w.Advance(time.Minute) // another content
		w.Push("main")
		w.prepare(s).Release()
	}
	last := w.prepare(s)
	w.collected(c)
	want := slices.Sorted(slices.Values(last.Tree.Chain))
	if got := testdir.Names(t, filepath.Join(c.Dir, "trees")); len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("trees %q, want the chain of three %q", got, want)
	}
	last.Release()
	w.restart("boot 1") // and through a restart
	c = w.clone(s)
	if got := w.prepare(s); !slices.Equal(got.Tree.Chain, last.Tree.Chain) {
		t.Errorf("chain %q after a restart, want %q", got.Tree.Chain, last.Tree.Chain)
	} else {
		got.Release()
	}
	w.pushAttributes("*.a text\n")
	whole := w.prepare(s)
	defer whole.Release()
	w.collected(c)
	if got := testdir.Names(t, filepath.Join(c.Dir, "trees")); !slices.Equal(got, []string{whole.Tree.ID}) {
		t.Errorf("trees %q, want the whole one %q", got, whole.Tree.ID)
	}
}

func TestCollectRemovesUnneededLayers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	s := w.spec("ref", "main")
	held := w.prepare(s)
	c := w.clone(s)
	layers := func() (trees, refs []string) {
		return testdir.Names(t, filepath.Join(c.Dir, "trees")), testdir.Names(t, filepath.Join(c.Dir, "refs"))
	}
	w.pushAttributes("*.a text\n") // a whole tree each
	free := w.prepare(s)
	free.Release()
	w.pushAttributes("*.b text\n")
	last := w.prepare(s)
	w.collected(c)
	trees, refs := layers()
	want := []string{held.Tree.ID, last.Tree.ID}
	slices.Sort(want)
	if !slices.Equal(trees, want) {
		t.Errorf("trees %q, want the held and the last one %q", trees, want)
	}
	if want := []string{held.GitLayer.ID, last.GitLayer.ID}; len(refs) != 2 || !slices.Contains(refs, want[0]) || !slices.Contains(refs, want[1]) {
		t.Errorf("git layers %q, want %q", refs, want)
	}
	last.Release()
	held.Release()
	w.collected(c)
	if trees, refs = layers(); !slices.Equal(trees, []string{last.Tree.ID}) || !slices.Equal(refs, []string{last.GitLayer.ID}) {
		t.Errorf("trees %q and git layers %q, want those of the last commit", trees, refs)
	}
	w.restart("boot 1")
	c = w.clone(s)
	info, _ := c.Info()
	for _, l := range info.Layers {
		if l.Need == "" {
			t.Errorf("nothing needs %s %s after a restart", l.Kind, l.ID)
		}
	}
	w.Server.Reset()
	co := w.prepare(s)
	defer co.Release()
	if _, fetches, _ := w.requests(); fetches != 0 || co.Tree.ID != last.Tree.ID {
		t.Errorf("%d fetches after a restart, tree %s; want none and %s", fetches, co.Tree.ID, last.Tree.ID)
	}
}
