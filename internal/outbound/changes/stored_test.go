package changes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// withLFS makes a repository use git-lfs. storage is where its objects are.
func withLFS(t *testing.T, dir, storage string) {
	t.Helper()
	for key, value := range map[string]string{
		"filter.lfs.clean": "git-lfs clean -- %f", "filter.lfs.smudge": "git-lfs smudge -- %f", "filter.lfs.required": "true", "lfs.storage": storage,
	} {
		testgit.Git(t, dir, "config", key, value)
	}
}

// attributesBut returns the .gitattributes of convertedSample without one of its patterns.
func attributesBut(pattern string) (text string) {
	for name, value := range map[string]string{
		"*.id": "ident", "*.l1": "text working-tree-encoding=ISO-8859-1", "*.u16": "text eol=crlf working-tree-encoding=UTF-16LE-BOM",
		"*.sj": "working-tree-encoding=SHIFT_JIS", "*.crlf": "text eol=crlf", "*.auto": "text=auto", "*.lfs": "filter=lfs diff=lfs merge=lfs -text",
	} {
		if name != pattern {
			text += name + " " + value + "\n"
		}
	}
	return text
}

// convertedSample writes files that git converts, as a checkout has them.
func convertedSample(t *testing.T, storage string) func(dir string) {
	return func(dir string) {
		withLFS(t, dir, storage)
		for name, text := range map[string]string{
			".gitattributes": attributesBut(""),
			"a.id":           "$Id: 0123 $\none\n", "a.l1": "caf\xe9\none\n", "a.u16": "\xff\xfeo\x00n\x00e\x00\r\x00\n\x00", "a.sj": "\x93\xfa\x96\x7b\none\n",
			"a.crlf": "one\r\ntwo\r\n", "a.auto": "one\n", "a.lfs": strings.Repeat("a content\n", 200), "b.lfs": "a small content\n", "plain": "one\n",
		} {
			writeFile(t, filepath.Join(dir, name), text)
		}
	}
}

// TestPatchConverted changes files that git converts, and applies the patch in clones with git-lfs and without. The work
// tree is then as after plain git's patch, but for the files that a remark names, which are as they were.
func TestPatchConverted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		change  func(w *changed)
		leftOut string // a file that is
	}{
		{"ident", func(w *changed) { w.add("a.id", "two\n"); w.write("new.id", "$Id: mine $\n") }, ""},
		{"ident, renamed", func(w *changed) { w.move("a.id", "b.id") }, ""},
		{"Latin-1", func(w *changed) { w.add("a.l1", "\xe0\n"); w.write("new.l1", "\xe0\n") }, ""},
		{"UTF-16", func(w *changed) { w.add("a.u16", "t\x00\r\x00\n\x00") }, ""},
		{"no UTF-16", func(w *changed) { w.write("a.u16", "one\r\n") }, "a.u16"},
		{"another encoding", func(w *changed) { w.add("a.sj", "two\n") }, "a.sj"},
		{"another encoding, deleted", func(w *changed) { must(w.T, os.Remove(w.path("a.sj"))) }, "a.sj"},
		{"line ends", func(w *changed) {
			w.add("a.crlf", "three\r\n")
			w.write("new.crlf", "one\r\n")
			w.add("a.auto", "two\r\n")
		}, ""},
		{"deleted", func(w *changed) {
			must(w.T, os.Remove(w.path("a.id")), os.Remove(w.path("a.l1")), os.Remove(w.path("a.u16")), os.Remove(w.path("a.crlf")), os.Remove(w.path("a.lfs")))
		}, ""},
		{"modes", func(w *changed) {
			for _, name := range []string{"a.id", "a.l1", "a.u16", "a.crlf", "a.lfs", "b.lfs"} {
				must(w.T, os.Chmod(w.path(name), 0o755))
			}
		}, ""},
		{"LFS, changed", func(w *changed) { w.add("a.lfs", "two\n") }, "a.lfs"},
		{"LFS, of the same size", func(w *changed) { w.write("b.lfs", "A small content\n") }, "b.lfs"},
		{"LFS, added", func(w *changed) { w.write("new.lfs", "a new content\n") }, "new.lfs"},
		{"LFS, renamed", func(w *changed) { w.move("a.lfs", "0.lfs"); w.move("b.lfs", "z.lfs") }, ""},
		{"LFS, empty and a pointer", func(w *changed) { w.write("empty.lfs", ""); w.write("a.lfs", "") }, ""},
		{"LFS, a link", func(w *changed) { must(w.T, os.Remove(w.path("a.lfs")), os.Symlink("b.lfs", w.path("a.lfs"))) }, ""},
		{"attributes that are gone", func(w *changed) { w.write(".gitattributes", attributesBut("*.id")); w.write("a.id", "$Id: x $\n") }, ""},
		{"attributes that came", func(w *changed) {
			must(w.T, os.MkdirAll(w.path("sub"), 0o755))
			w.write("sub/.gitattributes", "*.txt ident\n")
			w.write("sub/a.txt", "$Id: x $\n")
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			storage := testdir.New(t, "lfs")
			w := newChanged(t, convertedSample(t, storage))
			tt.change(w)
			w.add("plain", "two\n")
			patch := w.diff()
			if got := strings.Count(patch, "\n# "); got > 0 && tt.leftOut == "" || tt.leftOut != "" && !strings.Contains(patch, "# left out: "+quoted(tt.leftOut)) {
				t.Errorf("the patch has %d remarks, want one for %q:\n%s", got, tt.leftOut, patch)
			}
			for _, installed := range []bool{false, true} {
				begun, got, want := w.clone(installed, storage), w.clone(installed, storage), w.clone(installed, storage)
				old := files(t, begun)
				apply(t, got, patch)
				ours := files(t, got)
				if tt.leftOut != "" {
					if ours[tt.leftOut] != old[tt.leftOut] {
						t.Errorf("%q is %q after the patch, want %q", tt.leftOut, ours[tt.leftOut], old[tt.leftOut])
					}
					if ours["plain"] != "file one\ntwo\n" {
						t.Errorf("the rest was not applied: %q", ours["plain"])
					}
					continue
				}
				apply(t, want, w.gitDiff())
				for name, text := range files(t, want) {
					if ours[name] != text {
						t.Errorf("git-lfs %v: %q is %q, want %q, as plain git's patch makes it", installed, name, ours[name], text)
					}
					delete(ours, name)
				}
				if len(ours) > 0 {
					t.Errorf("git-lfs %v: left %q", installed, ours)
				}
			}
		})
	}
}

// changed is a checkout and a copy of it that was changed, in two directories: that they are not those of an overlay does
// not matter for what is in a patch.
type changed struct {
	*testing.T
	root, tree, git, dir string
	reader               *Reader
}

func newChanged(t *testing.T, prepare func(dir string)) *changed {
	t.Helper()
	root := testdir.New(t, "changed")
	at := func(name string) string { return filepath.Join(root, name) }
	makeCommit(t, root, prepare)
	g, err := git.New(git.Config{UID: 64127, GID: 64127})
	must(t, err, os.Mkdir(at("quarantine"), 0o755), exec.Command("cp", "-a", at("tree"), at("dir")).Run())
	return &changed{t, root, at("tree"), at("repo"), at("dir"), &Reader{Git: g, Dir: at("quarantine")}}
}

func (c *changed) path(name string) string { return filepath.Join(c.dir, name) }

// add appends to a file.
func (c *changed) add(name, text string) {
	c.Helper()
	f, err := os.OpenFile(c.path(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	must(c.T, err)
	_, err = f.WriteString(text)
	must(c.T, err, f.Close())
}

func (c *changed) move(from, to string) {
	c.Helper()
	must(c.T, os.Rename(c.path(from), c.path(to)))
}

// write replaces a file.
func (c *changed) write(name, text string) {
	c.Helper()
	writeFile(c.T, c.path(name), text)
}

// diff returns the patch of what changed.
func (c *changed) diff() string {
	c.Helper()
	before, err := os.Open(c.tree)
	must(c.T, err)
	defer before.Close()
	after, err := os.Open(c.dir)
	must(c.T, err)
	defer after.Close()
	src := Source{Before: Side{before, before}, After: Side{after, before}, Dirs: []string{c.tree, c.dir}}
	p, err := c.reader.Diff(c.Context(), src, "sha1", false)
	must(c.T, err)
	defer p.Close()
	var b strings.Builder
	must(c.T, p.Make(c.Context()), p.Write(c.Context(), &b))
	return b.String()
}

// gitDiff returns the patch that git makes of what changed.
func (c *changed) gitDiff() string {
	c.Helper()
	dir := filepath.Join(testdir.NewIn(c.T, c.root, "copied"), "dir")
	must(c.T, exec.Command("cp", "-a", c.dir, dir).Run(), exec.Command("cp", "-a", c.git, filepath.Join(dir, ".git")).Run())
	testgit.Git(c.T, dir, "add", "-A")
	out, err := testgit.Command(dir, "diff", "--cached", "--binary", "HEAD").Output()
	must(c.T, err)
	return string(out)
}

// clone clones the commit, with the contents of git-lfs if that is installed.
func (c *changed) clone(installed bool, storage string) string {
	c.Helper()
	dir := testdir.NewIn(c.T, c.root, "clone")
	testgit.Git(c.T, dir, "init", "-q", ".")
	if installed {
		withLFS(c.T, dir, storage)
	}
	testgit.Git(c.T, dir, "fetch", "-q", c.git, "main")
	testgit.Git(c.T, dir, "checkout", "-q", "FETCH_HEAD")
	return dir
}

// TestPatchAttributesBounds: neither a large .gitattributes nor hostile patterns cost the patch.
func TestPatchAttributesBounds(t *testing.T) {
	t.Parallel()
	w := newChanged(t, func(dir string) { sample(t, dir) })
	w.write("src/.gitattributes", "#"+strings.Repeat("x", maxIgnore))
	w.write("other/.gitattributes", "[attr]a b\n[attr]b a ident\n* a\n"+strings.Repeat("*", 1000)+"b ident\n* working-tree-encoding\n")
	w.write("src/a.c", "changed\n")
	w.write("other/x", "changed\n")
	w.write("README", "changed\n")
	patch := w.diff()
	contains(t, "the patch", patch, `# files that "src/.gitattributes" names are as they are in the work tree: it is larger`, "b/src/a.c", "b/README", `# left out: "other/x"`)
}
