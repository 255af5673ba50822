package checkout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestWritersShareDirectories checks that several processes can write files below the same
// directories, which none of them finds.
func TestWritersShareDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	withBothGits(t, testWritersShareDirectories)
}

func testWritersShareDirectories(t *testing.T, g tester) {
	w := newTrees(t, g)
	files, id := make(map[string]string), w.Blob("x\n")
	for i := range 4 * filesPerWriter {
		files[fmt.Sprintf("src/main/java/com/example/%d/%d", i/1000, i)] = "100644 " + id
	}
	commit := w.Commit(files)
	for range 10 {
		co := newSpec(t, g, w, commit)
		if _, err := g.make(t.Context(), co); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSplitNames checks that attributes are written before the parts.
func TestSplitNames(t *testing.T) {
	t.Parallel()
	names := []string{"a/.gitattributes", "a/b/1", "a/b/2", "a/b/3", "a/c/1", "b"}
	for _, tt := range []struct {
		n     int
		parts [][]string
	}{
		{1, [][]string{{"a/b/1", "a/b/2", "a/b/3", "a/c/1", "b"}}},
		{2, [][]string{{"a/b/1", "a/b/2"}, {"a/b/3", "a/c/1", "b"}}},
	} {
		attributes, parts := splitNames(names, tt.n)
		if !slices.Equal(attributes, names[:1]) || !reflect.DeepEqual(parts, tt.parts) {
			t.Errorf("%d parts: %q, want %q", tt.n, parts, tt.parts)
		}
	}
}

// TestMissingObjects checks that the error for each kind of missing object is that of a
// corrupt store.
func TestMissingObjects(t *testing.T) {
	t.Parallel()
	withBothGits(t, testMissingObjects)
}

func testMissingObjects(t *testing.T, g tester) {
	for _, lacks := range []string{"^{tree}", ":d", ":d/f"} {
		w := newTrees(t, g)
		commit := w.Commit(map[string]string{"d/f": "100644 " + w.Blob("x\n")})
		id := w.Git("", nil, "rev-parse", commit+lacks)
		if err := os.Remove(filepath.Join(w.Store, "objects", id[:2], id[2:])); err != nil {
			t.Fatal(err)
		}
		_, err := g.make(t.Context(), newSpec(t, g, w, commit))
		if giterror.KindOf(err) != giterror.KindCorrupt {
			t.Errorf("without %s: %v, of kind %q, want %q", lacks, err, giterror.KindOf(err), giterror.KindCorrupt)
		}
	}
}

// TestWritersKnowAttributes checks that each of several writing processes obeys the
// attributes.
func TestWritersKnowAttributes(t *testing.T) {
	t.Parallel()
	withBothGits(t, testWritersKnowAttributes)
}

func testWritersKnowAttributes(t *testing.T, g tester) {
	w := newTrees(t, g)
	id := w.Blob("one\ntwo\n")
	files := map[string]string{
		".gitattributes":     "100644 " + w.Blob("* text\n"),
		"9/z/.gitattributes": "100644 " + w.Blob("* eol=crlf\n"),
	}
	for i := range 3 * filesPerWriter {
		files[fmt.Sprintf("%d/z/%d", i%10, i)] = "100644 " + id
	}
	co := newSpec(t, g, w, w.Commit(files))
	if _, err := g.make(t.Context(), co); err != nil {
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

// TestCheckoutAsAnotherUID checks that all files belong to the uid and gid of the tree.
func TestCheckoutAsAnotherUID(t *testing.T) {
	t.Parallel()
	withBothGits(t, testCheckoutAsAnotherUID)
}

func testCheckoutAsAnotherUID(t *testing.T, g tester) {
	w := newTrees(t, g)
	files, id := make(map[string]string), w.Blob("x\n")
	for i := range 120 {
		files[fmt.Sprintf("d%d/f%d", i%7, i)] = "100644 " + id
	}
	const uid = fetcher + 7
	co := Spec{Store: w.Store, Commit: w.Commit(files), Dir: testgit.Owned(t, g.root, uid), UID: uid, GID: uid}
	if err := os.Mkdir(filepath.Join(co.Dir, ".git"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(filepath.Join(co.Dir, ".git"), uid, uid); err != nil {
		t.Fatal(err)
	}
	if _, err := g.make(t.Context(), co); err != nil {
		t.Fatal(err)
	}
	for name := range files {
		info, err := os.Lstat(filepath.Join(co.Dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != uid {
			t.Errorf("%s belongs to %d:%d", name, st.Uid, st.Gid)
		}
	}
}

// TestUnknownIndex checks that a checkout is complete and correct if git writes an index of
// a format that package gitindex can't read. It can't be moved to the next commit.
func TestUnknownIndex(t *testing.T) {
	t.Parallel()
	// The first format is another version, the second has an extension that may not be ignored.
	for _, format := range []string{"--index-version=4", "--split-index"} {
		g := newGitWith(t, git.Config{Program: testgit.Script(t, `git "$@" || exit
for a; do
	case $a in --git-dir=*) dir=$a;; read-tree) made=1;; esac
done
[ -z "$made" ] || exec git "$dir" -c core.bare=false update-index `+format+"\n")})
		w := newTrees(t, newGit(t))
		text, link := w.Blob("text\n"), w.Blob("a/f")
		files := map[string]string{
			"a/f": "100644 " + text, "a/x": "100755 " + text, "b/f": "100644 " + text, "b/" + strings.Repeat("n", 5000/25): "100644 " + text,
			"link": "120000 " + link, "ü": "100644 " + text, "sub": "160000 " + strings.Repeat("1", 40),
		}
		commit := w.Commit(files)
		for i, cone := range []gitindex.Cone{nil, {"a"}} {
			root := testgit.Scratch(t, "")
			plain := checkoutDir(t, root, "plain")
			plainCheckout(t, w, plain, commit, cone)
			c := Spec{Store: w.Store, Commit: commit, Cone: cone, Dir: checkoutDir(t, root, "ours"), Tracks: "b", Submodules: true}
			found, err := g.make(t.Context(), c)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if !found.Tracked || len(found.Gitlinks) != 1 {
				t.Errorf("%s, cone %q: found %+v", format, cone, found)
			}
			got, want := state(t, c.Dir), state(t, plain)
			last := len(want) - 1 // the index: ours has no cache of trees
			if !slices.Equal(got[:len(got)-1], want[:last]) {
				t.Errorf("%s, cone %q:\n%s\nwant:\n%s", format, cone, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			c.Commit = w.Commit(map[string]string{"a/f": fmt.Sprintf("100644 %s", w.Blob(fmt.Sprint(i)))})
			if _, err := g.move(t.Context(), c, commit); !errors.Is(err, ErrUnlike) {
				t.Errorf("%s, cone %q: move: %v, want %v", format, cone, err, ErrUnlike)
			}
			list := func(dir string) string { // write-tree makes a cache of trees
				env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, ".git", IndexFile)}
				return w.Git("", env, "ls-files", "-t", "--stage", "-v") + w.Git("", env, "write-tree")
			}
			if got, want := list(c.Dir), list(plain); got != want {
				t.Errorf("%s, cone %q: the index has\n%s\nwant:\n%s", format, cone, got, want)
			}
		}
	}
}
