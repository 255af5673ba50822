package changes

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/overlay"
	"github.com/helmdeck/repos/tests/testdir"
	"github.com/helmdeck/repos/tests/testgit"
)

// world has a workspace: a commit, its checkout as a layer, and an overlay on it.
type world struct {
	t      *testing.T
	root   string
	spec   overlay.Spec
	git    string // the repository, with the commit at HEAD
	reader *Reader
	skip   []string
	on     []string // checkpoints that it stands on, topmost first: the first layers of spec.Lower
}

// TestMain removes what the tests share.
func TestMain(m *testing.M) {
	code := m.Run()
	if shared.dir != "" {
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// shared is the commit of most tests.
var shared struct {
	once sync.Once
	dir  string
}

// newWorld makes a workspace of the sample commit.
func newWorld(t *testing.T) *world {
	t.Helper()
	shared.once.Do(func() {
		var err error
		shared.dir, err = os.MkdirTemp("/var/tmp", "helmdeck-changes-")
		must(t, err)
		makeCommit(t, shared.dir, func(dir string) { sample(t, dir) })
	})
	return newWorldOf(t, shared.dir)
}

// newWorldWith makes a workspace of a commit that prepare writes.
func newWorldWith(t *testing.T, prepare func(dir string)) *world {
	t.Helper()
	dir := testdir.New(t, "commit")
	makeCommit(t, dir, prepare)
	return newWorldOf(t, dir)
}

// makeCommit makes a repository, and its checkout in tree.
func makeCommit(t *testing.T, root string, prepare func(dir string)) {
	t.Helper()
	dir := filepath.Join(root, "tree")
	must(t, os.Mkdir(dir, 0o755))
	testgit.Git(t, dir, "init", "-q", "-b", "main")
	prepare(dir)
	testgit.Git(t, dir, "add", "-A", "-f")
	testgit.Git(t, dir, "commit", "-q", "--allow-empty", "-m", "begin")
	must(t, os.Rename(filepath.Join(dir, ".git"), filepath.Join(root, "repo")))
}

// newWorldOf makes a workspace of what makeCommit has made.
func newWorldOf(t *testing.T, commit string) *world {
	t.Helper()
	root := testdir.New(t, "changes")
	g, err := git.New(git.Config{UID: 64127, GID: 64127})
	must(t, err)
	at := func(name string) string { return filepath.Join(root, name) }
	w := &world{t: t, root: root, git: filepath.Join(commit, "repo"), reader: &Reader{Git: g, Dir: at("quarantine")}, spec: overlay.Spec{
		Lower: []string{at("git"), filepath.Join(commit, "tree")}, Upper: at("upper"), Work: at("work"), Target: at("merged"),
		Volatile: testdir.Features(t).Volatile, Metacopy: testdir.Features(t).Metacopy,
	}}
	for _, dir := range []string{w.spec.Lower[0], w.spec.Upper, w.spec.Work, w.spec.Target, at("git/.git"), w.reader.Dir} {
		must(t, os.Mkdir(dir, 0o755))
	}
	w.mount()
	return w
}

func (w *world) mount() {
	w.t.Helper()
	if err := overlay.Mount(w.spec); err != nil {
		w.t.Fatal(err)
	}
}

// park unmounts the workspace.
func (w *world) park() {
	w.t.Helper()
	testdir.Unmount(w.t, w.spec.Target)
	if err := os.RemoveAll(filepath.Join(w.spec.Work, "work/incompat")); err != nil {
		w.t.Fatal(err)
	}
}

// path returns a path in the workspace.
func (w *world) path(name string) string { return filepath.Join(w.spec.Target, name) }

// write writes a file of the workspace, with its directories.
func (w *world) write(name, text string) {
	w.t.Helper()
	writeFile(w.t, w.path(name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// must fails the test if an operation has failed.
func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// source opens the workspace, as a live or a parked one, whichever it is.
func (w *world) source() Source {
	w.t.Helper()
	base, err := overlay.View(overlay.Spec{Lower: w.spec.Lower[len(w.on):]})
	must(w.t, err)
	w.t.Cleanup(func() { base.Close() })
	merged, err := overlay.Root(w.spec.Target)
	if err != nil {
		merged, err = overlay.View(overlay.Spec{Lower: append([]string{w.spec.Upper}, w.spec.Lower...), Metacopy: w.spec.Metacopy})
	}
	must(w.t, err)
	w.t.Cleanup(func() { merged.Close() })
	return Source{Before: Side{base, base}, After: Side{merged, base}, Dirs: append([]string{w.spec.Upper}, w.on...), Skip: w.skip}
}

// find returns what changed, as lines such as "A name".
func (w *world) find() (*Set, []string) {
	w.t.Helper()
	set, err := w.reader.Find(w.t.Context(), w.source())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(set.Close)
	return set, lines(w.t, set)
}

var letters = map[Kind]string{Added: "A ", Changed: "M ", Deleted: "D "}

func lines(t *testing.T, set *Set) (list []string) {
	t.Helper()
	for c, err := range set.All {
		must(t, err)
		letter := letters[c.Kind]
		if c.Ignored {
			letter = "! "
		}
		list = append(list, letter+c.Path)
	}
	return list
}

// diff returns the patch of what changed.
func (w *world) diff(ignored bool) string {
	w.t.Helper()
	return w.diffOf(w.source(), ignored)
}

func (w *world) diffOf(src Source, ignored bool) string {
	w.t.Helper()
	p, err := w.reader.Diff(w.t.Context(), src, "sha1", ignored)
	if err != nil {
		w.t.Fatal(err)
	}
	defer p.Close()
	must(w.t, p.Make(w.t.Context()))
	var b bytes.Buffer
	if err := p.Write(w.t.Context(), &b); err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// checkout checks the commit out into a new directory.
func (w *world) checkout() string {
	w.t.Helper()
	dir := testdir.NewIn(w.t, w.root, "plain")
	testgit.Git(w.t, dir, "init", "-q", ".")
	testgit.Git(w.t, dir, "fetch", "-q", w.git, "main")
	testgit.Git(w.t, dir, "checkout", "-q", "FETCH_HEAD")
	return dir
}

// files lists the files and links of a directory, with what git knows of them.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := make(map[string]string)
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.Name() == ".git" && d.IsDir():
			return filepath.SkipDir
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			list[rel] = "link " + target
			return err
		case d.Type().IsRegular():
			info, err := d.Info()
			if err != nil {
				return err
			}
			data, err := os.ReadFile(path)
			list[rel] = "file "
			if info.Mode()&0o100 != 0 {
				list[rel] = "program "
			}
			list[rel] += string(data)
			return err
		}
		return nil
	}))
	return list
}

// want compares a list with what is expected, in any order.
func want(t *testing.T, what string, got []string, expected ...string) {
	t.Helper()
	got, expected = slices.Clone(got), slices.Clone(expected)
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		t.Errorf("%s:\n got %q\nwant %q", what, got, expected)
	}
}

// clean fails the test unless everything in the quarantine was removed.
func (w *world) clean() {
	w.t.Helper()
	entries, err := os.ReadDir(w.reader.Dir)
	if err != nil || len(entries) > 0 {
		w.t.Errorf("left in the quarantine: %v, %v", entries, err)
	}
}

// contains fails the test unless text has all parts.
func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q:\n%s", what, part, text)
		}
	}
}
