package checkout

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/gitindex"
	"github.com/helmdeck/repos/internal/git/gitref"
	"github.com/helmdeck/repos/tests/testgit"
	"github.com/helmdeck/repos/tests/testroot"
)

// encoded makes a commit with a file of this content for each encoding. It returns the
// names of the files too, in this order.
func encoded(w testgit.Trees, content string, encodings ...string) (commit string, names []string) {
	files := make(map[string]string)
	id, attributes := w.Blob(content), ""
	for i, e := range encodings {
		name := fmt.Sprint("f", i)
		attributes += name + " working-tree-encoding=" + e + "\n"
		files[name] = "100644 " + id
		names = append(names, name)
	}
	files[gitindex.Attributes] = "100644 " + w.Blob(attributes)
	return w.Commit(files), names
}

// TestEncodings checks that files are in the encodings of their attributes, with the same
// bytes as the machine's git writes, also with the git that is shipped.
func TestEncodings(t *testing.T) {
	t.Parallel()
	withBothGits(t, func(t *testing.T, g tester) {
		w := newTrees(t, g)
		for _, tt := range []struct {
			content   string
			encodings []string
		}{
			{"plain\nascii\n", []string{
				"UTF-16", "UTF-16LE", "UTF-16BE", "UTF-16LE-BOM", "UTF-32", "UTF-32LE", "UTF-7", "ISO-8859-1", "ISO-8859-15", "latin1",
				"CP1252", "WINDOWS-1251", "KOI8-R", "SHIFT-JIS", "SJIS", "CP932", "EUC-JP", "ISO-2022-JP", "ISO-2022-CN-EXT", "GBK", "GB18030",
				"BIG5", "BIG5-HKSCS", "EUC-KR", "CP949", "JOHAB", "IBM437", "CP850", "MACINTOSH", "TIS-620", "VISCII", "ARMSCII-8", "utf16", "us-ascii",
			}},
			{"日本語\n", []string{"UTF-16", "UTF-32", "SHIFT-JIS", "EUC-JP", "ISO-2022-JP", "CP932", "GB18030"}},
			{"grüße\n", []string{"UTF-16LE-BOM", "ISO-8859-1", "CP1252", "IBM850"}},
			{"", []string{"UTF-16", "SHIFT-JIS"}},
		} {
			commit, names := encoded(w, tt.content, tt.encodings...)
			root := testgit.Scratch(t, g.root)
			plain := checkoutDir(t, root, "plain")
			plainCheckout(t, w, plain, commit, nil)
			co := Spec{Store: w.Store, Commit: commit, Dir: checkoutDir(t, root, "ours")}
			found, err := g.make(t.Context(), co)
			if err != nil {
				t.Fatal(err)
			}
			if got := found.Unencoded; got != nil {
				t.Errorf("%q was not encoded: %v", tt.content, got)
			}
			for i, name := range names {
				want, err := os.ReadFile(filepath.Join(plain, name))
				if err != nil {
					t.Fatal(err)
				}
				got, err := os.ReadFile(filepath.Join(co.Dir, name))
				if err != nil || string(got) != string(want) {
					t.Errorf("%q in %s: %q, %v; git's is %q", tt.content, tt.encodings[i], got, err, want)
				}
			}
		}
	})
}

// TestUnencoded checks that a file which can't be encoded has the same bytes as after git
// clone, and is reported. If git's converters are missing, the checkout fails, and the
// error names the file.
func TestUnencoded(t *testing.T) {
	t.Parallel()
	root := testroot.New(t)
	g := newGitWith(t, git.Config{Root: root})
	w := newTrees(t, g)
	commit, names := encoded(w, "\U0001f600\n", "UTF-16", "SHIFT-JIS", "FOO")
	var at string
	check := func(from string) (Found, error) {
		at = checkoutDir(t, testgit.Scratch(t, root), "x")
		co := Spec{Store: w.Store, Commit: commit, Dir: at}
		if from == "" {
			return g.make(t.Context(), co)
		}
		co.Commit = from
		if _, err := g.make(t.Context(), co); err != nil {
			t.Fatal(err)
		}
		co.Commit = commit
		return g.move(t.Context(), co, from)
	}
	// The other commit has the same attributes and no file.
	attributes := w.Git("", nil, "rev-parse", commit+":"+gitindex.Attributes)
	empty := w.Commit(map[string]string{gitindex.Attributes: "100644 " + attributes})
	want := []Unencoded{{gitref.Text(names[1]), "SHIFT-JIS"}, {gitref.Text(names[2]), "FOO"}}
	for _, from := range []string{"", empty} {
		found, err := check(from)
		if err != nil {
			t.Fatal(err)
		}
		if got := found.Unencoded; !slices.Equal(got, want) {
			t.Errorf("from %q: not encoded %v, want %v", from, got, want)
		}
		for i, content := range []string{"\xff\xfe\x3d\xd8\x00\xde\n\x00", "\U0001f600\n", "\U0001f600\n"} {
			if got, err := os.ReadFile(filepath.Join(at, names[i])); err != nil || string(got) != content {
				t.Errorf("from %q: %s has %q, %v, want %q", from, names[i], got, err, content)
			}
		}
		if left, err := os.ReadDir(filepath.Join(at, ".git")); err != nil || len(left) != 1 {
			t.Errorf("from %q: left in .git: %v, %v", from, left, err)
		}
	}
	modules, err := filepath.Glob(filepath.Join(root, "usr/lib/*/gconv"))
	if err != nil || len(modules) != 1 {
		t.Fatalf("modules of iconv: %q, %v", modules, err)
	}
	if err := os.Rename(modules[0], modules[0]+".away"); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"", empty} {
		_, err := check(from)
		for _, words := range []string{`"f0"`, `"UTF-16"`, "glibc"} {
			if err == nil || !strings.Contains(err.Error(), words) {
				t.Errorf("without converters, from %q: %v, want %s in it", from, err, words)
			}
		}
	}
}

// TestParseEncodingMessages checks how git's messages are parsed, also for names that look like
// parts of a message, and that the number of reported files is bounded.
func TestParseEncodingMessages(t *testing.T) {
	t.Parallel()
	var e encodings
	for _, line := range []string{
		"error: unable to write file x", "error: failed to encode 'a' from UTF-8 to B", "error: failed to encode 'it' from UTF-8 to X' from UTF-8 to Y",
		"error: failed to encode 'cut", "remote: error: failed to encode 'a' from UTF-8 to B",
	} {
		e.stderrLine(line)
	}
	want := []Unencoded{{"a", "B"}, {"it' from UTF-8 to X", "Y"}, {"cut", ""}}
	if !slices.Equal(e.failed, want) {
		t.Errorf("got %q, want %q", e.failed, want)
	}
	for range 3 * maxUnencoded {
		e.stderrLine("error: failed to encode 'a' from UTF-8 to B")
	}
	if len(e.failed) != maxUnencoded {
		t.Errorf("%d are reported, want %d", len(e.failed), maxUnencoded)
	}
	if err := new(runner).checkEncoded(context.Background(), Spec{}, &index{}, new(encodings)); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}
