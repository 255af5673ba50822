package git

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// trees makes commits in a store from what they hold.
type trees struct {
	t     rapidT
	store string
}

// rapidT is what *testing.T and *rapid.T have in common.
type rapidT interface {
	Helper()
	Fatalf(format string, args ...any)
}

// git runs git in the store and returns its output.
func (w trees) git(stdin string, env []string, args ...string) string {
	w.t.Helper()
	cmd := exec.Command("git", append([]string{"--git-dir=" + w.store}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t",
	}, env...)
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("git %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func (w trees) blob(content string) string {
	return w.git(content, nil, "hash-object", "-w", "--stdin")
}

// commit makes one of files, each with its mode and object ID, and returns it.
func (w trees) commit(files map[string]string) string {
	w.t.Helper()
	index := filepath.Join(w.store, "index.test")
	defer os.Remove(index)
	env := []string{"GIT_INDEX_FILE=" + index}
	var stdin strings.Builder
	for name, info := range files {
		fmt.Fprintf(&stdin, "%s\t%s\x00", info, name)
	}
	w.git("", env, "read-tree", "--empty")
	w.git(stdin.String(), env, "update-index", "-z", "--index-info")
	return w.git("", nil, "commit-tree", "-m", "m", w.git("", env, "write-tree"))
}

// commitTree makes a commit of a tree that git itself would not make: raw entries,
// each "mode name", NUL and ID.
func (w trees) commitTree(entries ...string) string {
	w.t.Helper()
	tree := w.git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
	return w.git("", nil, "commit-tree", "-m", "m", tree)
}

// checkoutDir makes the directories of a checkout below dir.
func checkoutDir(t rapidT, dir, name string) string {
	t.Helper()
	dir = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Join(dir, ".git"), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	return dir
}

// state is what there is in a checkout: files by name, with mode and content, and
// the index but for what it says of the files' times and places.
func state(t rapidT, dir string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, content := strings.TrimPrefix(path, dir), ""
		switch {
		case name == "/.git":
			return fs.SkipDir
		case d.Type() == fs.ModeSymlink:
			content, err = os.Readlink(path)
		case !d.IsDir():
			var data []byte
			data, err = os.ReadFile(path)
			content = string(data)
		}
		list = append(list, fmt.Sprintf("%s %v %q", name, info.Mode(), content))
		return err
	}); err != nil {
		t.Fatalf("%v", err)
	}
	ix, err := Checkout{Dir: dir}.readIndex(IndexFile)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, e := range ix.entries {
		if info, err := os.Lstat(filepath.Join(dir, e.name)); !e.isFile() {
			// a submodule, or outside of the cone
		} else if err != nil || binary.BigEndian.Uint32(e.raw[36:]) != uint32(info.Size()) || binary.BigEndian.Uint32(e.raw[8:]) != uint32(info.ModTime().Unix()) {
			t.Fatalf("the index does not know %q as it is: %v", e.name, err)
		}
		copy(e.raw[:24], make([]byte, 24))   // times, device, inode
		copy(e.raw[28:40], make([]byte, 12)) // uid, gid, size
	}
	var encoded bytes.Buffer
	if err := ix.encode(&encoded); err != nil {
		t.Fatalf("%v", err)
	}
	return append(list, fmt.Sprintf("%q", encoded.Bytes()))
}

// plainCheckout is what git alone makes of a commit.
func plainCheckout(t rapidT, w trees, dir, commit string, cone Cone) {
	t.Helper()
	sparse := fmt.Sprint(cone != nil)
	top := filepath.Join(dir, ".git")
	for name, content := range map[string]string{
		"HEAD": "ref: refs/heads/none\n", "config": "[core]\n\trepositoryformatversion = 0\n", Patterns: string(cone.Patterns()),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, name)), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(filepath.Join(top, name), []byte(content), 0o644); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if err := os.MkdirAll(filepath.Join(top, "refs"), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	cmd := exec.Command("git", "-c", "core.sparseCheckout="+sparse, "-c", "core.sparseCheckoutCone="+sparse,
		"-c", "index.version=2", "-c", "index.sparse=false", "read-tree", "-m", "-u", commit)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_OBJECT_DIRECTORY=" + filepath.Join(w.store, "objects")}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("read-tree: %v: %s", err, out)
	}
}

// TestCheckoutsAreGits: a checkout, and one that was moved from any other commit,
// are what git alone makes of the commit, to the last byte of the index.
func TestCheckoutsAreGits(t *testing.T) {
	g := newGit(t)
	dir, n := store(t, g), 0
	scratch := scratch(t)
	var infos []string
	w := trees{t, dir}
	for _, content := range []string{"", "one\n", "two\n", "a/b"} {
		id := w.blob(content)
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
			clash := false
			for other := range files {
				clash = clash || below(name, other) || below(other, name)
			}
			if !clash {
				files[name] = rapid.SampledFrom(infos).Draw(t, name)
			}
		}
		return files
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		w := trees{t, dir}
		cone := rapid.SampledFrom([]Cone{nil, nil, {"a"}, {"a/b", "b"}, {"none"}}).Draw(t, "cone")
		files := draw.Draw(t, "from")
		from := w.commit(files)
		if rapid.Bool().Draw(t, "few changes") {
			for name := range files {
				if rapid.IntRange(0, 3).Draw(t, "change "+name) == 0 {
					files[name] = rapid.SampledFrom(infos).Draw(t, name)
				}
			}
		} else {
			files = draw.Draw(t, "to")
		}
		to := w.commit(files)
		root := filepath.Join(scratch, fmt.Sprint(n))
		defer os.RemoveAll(root)

		plain := checkoutDir(t, root, "plain")
		plainCheckout(t, w, plain, to, cone)
		want := state(t, plain)

		whole := Checkout{Store: dir, Commit: to, Cone: cone, Dir: checkoutDir(t, root, "whole")}
		ix, err := g.Checkout(t.Context(), whole)
		if err == nil {
			err = ix.Settle()
		}
		if got := state(t, whole.Dir); err != nil || !slices.Equal(got, want) {
			t.Errorf("whole: %v\n%s\nwant:\n%s", err, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		moved := Checkout{Store: dir, Commit: from, Cone: cone, Dir: checkoutDir(t, root, "moved")}
		if ix, err = g.Checkout(t.Context(), moved); err == nil {
			err = ix.Settle()
		}
		if err != nil {
			t.Fatalf("from: %v", err)
		}
		moved.Commit = to
		tree, ok, err := g.Tree(t.Context(), dir, to)
		if err != nil || !ok {
			t.Fatalf("tree of %s: %v, %v", to, ok, err)
		}
		if ix, err = g.Move(t.Context(), moved, from, tree); err == nil {
			err = ix.Settle()
		}
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

// TestMoveRefuses: what git would not put into an index is not put there by a move,
// a checkout that is not what it is said to be is not moved, and neither is one whose
// commit has what an index can't hold: the next one would lack it.
func TestMoveRefuses(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	dir := store(t, g)
	w := trees{t, dir}
	x, y, link := w.blob("x\n"), w.blob("y\n"), w.blob("/etc")
	raw := func(mode, name, id string) string {
		b, err := hex.DecodeString(id)
		if err != nil {
			t.Fatal(err)
		}
		return mode + " " + name + "\x00" + string(b)
	}
	tree := func(entries ...string) string {
		return w.git(strings.Join(entries, ""), nil, "hash-object", "-w", "-t", "tree", "--literally", "--stdin")
	}
	inner, none := tree(raw("100644", "f", y)), tree()
	wide := none // a million directories
	for range 6 {
		var entries []string
		for i := range 10 {
			entries = append(entries, raw("40000", fmt.Sprint(i), wide))
		}
		wide = tree(entries...)
	}
	const attributes, plain = ".gitattributes", "100644 "
	base := map[string]string{"a": plain + x, "d/f": plain + x, "link": "120000 " + link, attributes: plain + x}
	with := func(name, info string) string {
		files := maps.Clone(base)
		files[name] = info
		return w.commit(files)
	}
	from := w.commit(base)
	entries := []string{raw("100644", attributes, x), raw("100644", "a", x), raw("120000", "link", link)}
	and := func(more ...string) string { return w.commitTree(slices.Concat(entries, more)...) }
	oneZ := and(raw("100644", "z", x))
	for _, tt := range []struct {
		name     string
		from, is string // is: what is there, if it is not from
		to       string
		want     string
	}{
		{"attributes change", from, "", with(attributes, plain+y), "too different"},
		{"attributes come", from, "", with("d/"+attributes, plain+y), "too different"},
		{"attributes are a link, and others change", with("d/"+attributes, "120000 "+link), "", w.commit(map[string]string{"d/" + attributes: "120000 " + link}), "too different"},
		{"a million directories", from, "", and(raw("40000", "w", wide)), "too different"},
		{"a name of 5000 bytes", from, "", and(raw("100644", strings.Repeat("n", 5000), x)), "too different"},
		{"a .git", from, "", and(raw("40000", ".git", inner)), "refuses some of the names"},
		{"a path upwards", from, "", and(raw("40000", "..", inner)), "refuses some of the names"},
		{"a slash in a name", from, "", and(raw("100644", "../f", y)), "refuses some of the names"},
		{"a link that is a directory too", from, "", and(raw("40000", "link", inner)), "does not add up"},
		{"a name twice", from, "", and(raw("100644", "z", x), raw("100644", "z", y)), "refuses some of the names"},
		{"an empty directory", from, "", and(raw("40000", "z", none)), "does not add up"},
		{"a mode of old", from, "", and(raw("100664", "z", x)), "does not add up"},
		{"a name was twice", and(raw("100644", "z", x), raw("100644", "z", x)), "", oneZ, "does not add up"},
		{"a name was twice, with two contents", and(raw("100644", "z", x), raw("100644", "z", y)), "", oneZ, "does not add up"},
		{"a directory was twice", and(raw("40000", "q", inner), raw("40000", "q", inner)), "", and(raw("40000", "q", inner)), "does not add up"},
		{"a file was a directory too", and(raw("100644", "q", x), raw("40000", "q", inner)), "", and(raw("100644", "q", x)), "does not add up"},
		{"another base with more", with("b", plain+y), from, from, "the index is of another commit"},
		{"another base with other files", with("b", plain+y), w.commit(map[string]string{"b": plain + x}), oneZ, "of another commit"},
		{"a base that the store lacks", strings.Repeat("1", 40), from, from, "1111"},
	} {
		co := Checkout{Store: dir, Commit: cmp.Or(tt.is, tt.from), Dir: checkoutDir(t, scratch(t), "x")}
		ix, err := g.Checkout(t.Context(), co)
		if err == nil {
			err = ix.Settle()
		}
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		co.Commit = tt.to
		_, err = g.Move(t.Context(), co, tt.from, w.git("", nil, "rev-parse", tt.to+"^{tree}"))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestWritersShareDirectories: several processes write files below directories that
// none of them finds.
func TestWritersShareDirectories(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	dir := store(t, g)
	w := trees{t, dir}
	files, id := make(map[string]string), w.blob("x\n")
	for i := range 4 * filesPerWriter {
		files[fmt.Sprintf("src/main/java/com/example/%d/%d", i/1000, i)] = "100644 " + id
	}
	commit := w.commit(files)
	for range 10 {
		co := Checkout{Store: dir, Commit: commit, Dir: checkoutDir(t, scratch(t), "x")}
		ix, err := g.Checkout(t.Context(), co)
		if err == nil {
			err = ix.Settle()
		}
		if err != nil {
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
		{1, []string{"a/.gitattributes"}, [][]string{{"a/b/1", "a/b/2", "a/b/3", "a/c/1", "b"}}},
		{2, []string{"a/.gitattributes", "a/b/1", "a/b/3"}, [][]string{{"a/b/2"}, {"a/c/1", "b"}}},
	} {
		first, parts := splitNames(names, tt.n)
		if !slices.Equal(first, tt.first) || !reflect.DeepEqual(parts, tt.parts) {
			t.Errorf("%d parts: %q and %q, want %q and %q", tt.n, first, parts, tt.first, tt.parts)
		}
	}
}

// TestMissingObjects: a store that lacks what a checkout needs is corrupt, whatever
// it lacks.
func TestMissingObjects(t *testing.T) {
	t.Parallel()
	g := newGit(t)
	for _, lacks := range []string{"^{tree}", ":d", ":d/f"} {
		dir := store(t, g)
		w := trees{t, dir}
		commit := w.commit(map[string]string{"d/f": "100644 " + w.blob("x\n")})
		id := w.git("", nil, "rev-parse", commit+lacks)
		if err := os.Remove(filepath.Join(dir, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		_, err := g.Checkout(t.Context(), Checkout{Store: dir, Commit: commit, Dir: checkoutDir(t, scratch(t), "x")})
		if KindOf(err) != KindCorrupt {
			t.Errorf("without %s: %v, of kind %q, want %q", lacks, err, KindOf(err), KindCorrupt)
		}
	}
}

// TestWritersKnowAttributes: several processes write the files, each as the
// attributes say.
func TestWritersKnowAttributes(t *testing.T) {
	t.Parallel()
	g := newGit(t)
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
	co := Checkout{Store: dir, Commit: w.commit(files), Dir: checkoutDir(t, scratch(t), "x")}
	if _, err := g.Checkout(t.Context(), co); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		want := "one\ntwo\n"
		if strings.HasPrefix(name, "9/") {
			want = "one\r\ntwo\r\n"
		}
		data, err := os.ReadFile(filepath.Join(co.Dir, name))
		if err != nil || filepath.Base(name) != attributesFile && string(data) != want {
			t.Errorf("%s: %q, %v; want %q", name, data, err, want)
		}
	}
}
