package git

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// TestConnectedByChanges checks that the comparison of commits says no less than git's walk
// does: what it calls connected is, and it can't tell of what misses an object.
func TestConnectedByChanges(t *testing.T) {
	t.Parallel()
	withBothGits(t, func(t *testing.T, g *Git) {
		for _, tt := range []struct {
			name string
			// want returns the wanted object, and one that the store loses; empty for none.
			want  func(w testgit.Trees, base string) (want, lost string)
			tells bool
		}{
			{"an old commit", func(w testgit.Trees, base string) (string, string) { return base, "" }, true},
			{"a changed file", func(w testgit.Trees, base string) (string, string) { return commit(w, base, "f", w.Blob("2")), "" }, true},
			{"a tag of it", func(w testgit.Trees, base string) (string, string) {
				return tag(w, tag(w, commit(w, base, "f", w.Blob("2")))), ""
			}, true},
			{"another history", func(w testgit.Trees, _ string) (string, string) { return commit(w, "", "f", w.Blob("2")), "" }, true},
			{"a submodule", func(w testgit.Trees, base string) (string, string) {
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", base, w.Tree(w.Entry("160000", "s", strings.Repeat("1", 40)))), ""
			}, true},
			{"a merge", func(w testgit.Trees, base string) (string, string) {
				a, b := commit(w, base, "a", w.Blob("a")), commit(w, base, "b", w.Blob("b"))
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", a, "-p", b, b+"^{tree}"), ""
			}, true},
			{"the tree of a commit", func(w testgit.Trees, base string) (string, string) {
				return w.Git("", nil, "rev-parse", base+"^{tree}"), ""
			}, false},
			{"a tag of a tree", func(w testgit.Trees, base string) (string, string) { return tag(w, w.Tree()), "" }, false},
			{"a file is missing", func(w testgit.Trees, base string) (string, string) {
				lost := w.Blob("lost")
				return commit(w, base, "f", lost), lost
			}, false},
			{"a file of the commit before is missing", func(w testgit.Trees, base string) (string, string) {
				lost := w.Blob("lost")
				return commit(w, commit(w, base, "f", lost), "g", w.Blob("g")), lost
			}, false},
			{"a file of the second parent is missing", func(w testgit.Trees, base string) (string, string) {
				lost := w.Blob("lost")
				a, b := commit(w, base, "a", w.Blob("a")), commit(w, base, "b", lost)
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", a, "-p", b, a+"^{tree}"), lost
			}, false},
			{"a file of the second parent is in the merge", func(w testgit.Trees, base string) (string, string) {
				lost := w.Blob("lost")
				a, b := commit(w, base, "a", w.Blob("a")), commit(w, base, "b", lost)
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", a, "-p", b, b+"^{tree}"), lost
			}, false},
			{"a tree is missing", func(w testgit.Trees, base string) (string, string) {
				c := commit(w, base, "d/e/f", w.Blob("f"))
				return c, w.Git("", nil, "rev-parse", c+":d/e")
			}, false},
			{"a parent is missing", func(w testgit.Trees, base string) (string, string) {
				lost := commit(w, base, "f", w.Blob("2"))
				return commit(w, lost, "g", w.Blob("g")), lost
			}, false},
			{"a tag's commit is missing", func(w testgit.Trees, base string) (string, string) {
				lost := commit(w, base, "f", w.Blob("2"))
				return tag(w, lost), lost
			}, false},
			{"a tree is a commit", func(w testgit.Trees, base string) (string, string) {
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", base, w.Tree(w.Entry("40000", "d", base))), ""
			}, false},
			{"a tree is a tag", func(w testgit.Trees, base string) (string, string) {
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", base, w.Tree(w.Entry("40000", "d", tag(w, w.Git("", nil, "rev-parse", base+"^{tree}"))))), ""
			}, false},
			{"the tree of a commit is a commit", func(w testgit.Trees, base string) (string, string) {
				return literal(w, "commit", "tree "+base+"\nparent "+base+"\nauthor t <t@t> 0 +0000\ncommitter t <t@t> 0 +0000\n\nm\n"), ""
			}, false},
			{"the tree of a commit is a tag", func(w testgit.Trees, base string) (string, string) {
				of := tag(w, w.Git("", nil, "rev-parse", base+"^{tree}"))
				return literal(w, "commit", "tree "+of+"\nparent "+base+"\nauthor t <t@t> 0 +0000\ncommitter t <t@t> 0 +0000\n\nm\n"), ""
			}, false},
			{"a file is a tree", func(w testgit.Trees, base string) (string, string) {
				return w.Git("", nil, "commit-tree", "-m", "m", "-p", base, w.Tree(w.Entry("100644", "f", w.Tree()))), ""
			}, false},
		} {
			dir := store(t, g)
			w := testgit.Trees{T: t, Store: dir}
			base := w.Commit(map[string]string{"f": "100644 " + w.Blob("1"), "d/f": "100644 " + w.Blob("d")})
			w.Git("", nil, "update-ref", "refs/heads/main", base)
			want, lost := tt.want(w, base)
			if lost != "" {
				if err := os.Remove(filepath.Join(dir, "objects", lost[:2], lost[2:])); err != nil {
					t.Fatal(err)
				}
			}
			known, tells := g.connectedByChanges(t.Context(), dir, []string{want})
			if tells != tt.tells {
				t.Errorf("%s: it can tell: %v", tt.name, tells)
			}
			if _, ok := known[want]; tells && !ok {
				t.Errorf("%s: known %v", tt.name, known)
			}
			if walked, err := g.connectedByWalk(t.Context(), dir, []string{want}, false); err != nil || tells && !walked || walked && lost != "" {
				t.Errorf("%s: git's walk says %v, %v", tt.name, walked, err)
			}
		}
	})
}

// commit adds a commit with one more file to a parent, and returns its ID.
func commit(w testgit.Trees, parent, name, blob string) string {
	args := []string{"commit-tree", "-m", "m"}
	index := []string{"GIT_INDEX_FILE=" + filepath.Join(w.Store, "index.more")}
	w.Git("", index, "read-tree", "--empty")
	if parent != "" {
		args = append(args, "-p", parent)
		w.Git("", index, "read-tree", parent)
	}
	w.Git("100644 "+blob+"\t"+name+"\n", index, "update-index", "--index-info")
	return w.Git("", nil, append(args, w.Git("", index, "write-tree", "--missing-ok"))...)
}

// literal writes an object, which git itself might refuse to make, and returns its ID.
func literal(w testgit.Trees, kind, content string) string {
	return w.Git(content, nil, "hash-object", "-w", "-t", kind, "--literally", "--stdin")
}

// tag makes a tag object and returns its ID.
func tag(w testgit.Trees, of string) string {
	kind := w.Git("", nil, "cat-file", "-t", of)
	return w.Git("object "+of+"\ntype "+kind+"\ntag t\ntagger t <t@t> 0 +0000\n\nm\n", nil, "hash-object", "-w", "-t", "tag", "--stdin")
}
