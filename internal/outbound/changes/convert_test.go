package changes

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// attributesOf returns what git says of a path.
func attributesOf(t *testing.T, dir, path string) conversion {
	t.Helper()
	out := testgit.Git(t, dir, append(append([]string{"check-attr", "-z"}, attributes[:]...), "--", path)...)
	var values [len(attributes)]string
	for i, field := range strings.Split(strings.TrimSuffix(out, "\x00"), "\x00") {
		if i%3 == 2 {
			values[i/3] = field
		}
	}
	return conversionOf(values)
}

// TestClean commits contents with many attributes, checks them out and changes them, and compares what git stores before
// and after.
func TestClean(t *testing.T) {
	t.Parallel()
	before := []string{"", "one\n", "one\ntwo", "one\r\ntwo\r\n", "one\r\ntwo\n", "$Id$\none\n", "$Id: x $ $Id: y\n$ $Id:$\n", "one\rtwo\n", "one\x01\x02\ntwo\r\n"}
	after := append([]string{"$Id: 0123 $\r\n$Id:$ $Id: $\n$Id: \r\n $ x", "one\r\ntwo\r\nthree", "a\x00b\r\n", "a\r\n\x1a", "caf\xc3\xa9\r\n"}, before...)
	for _, attribute := range []string{
		"text", "-text", "text=auto", "text eol=crlf", "text=auto eol=crlf", "text=auto eol=lf", "eol=crlf", "eol=lf", "-text eol=crlf", "binary",
		"text=input eol=crlf", "text=other eol=crlf", "crlf", "-crlf", "crlf=input", "crlf=auto eol=crlf", "text=auto crlf=input",
		"ident", "ident text eol=crlf", "ident text=auto", "-ident", "ident=yes", "other",
	} {
		dir := t.TempDir()
		testgit.Git(t, dir, "init", "-q")
		name := func(i, j int) string { return fmt.Sprintf("%d-%d", i, j) }
		read := func(sub string, i, j int) string {
			data, err := os.ReadFile(filepath.Join(dir, sub, name(i, j)))
			must(t, err)
			return string(data)
		}
		writeAll := func(text func(i, j int) string) {
			for i := range before {
				for j := range after {
					must(t, os.WriteFile(filepath.Join(dir, name(i, j)), []byte(text(i, j)), 0o644))
				}
			}
		}
		writeAll(func(i, _ int) string { return before[i] })
		testgit.Git(t, dir, "add", "-A")
		const attributesFile = ".git/info/attributes"
		must(t, os.WriteFile(filepath.Join(dir, attributesFile), []byte("* "+attribute+"\n"), 0o644))
		how := attributesOf(t, dir, "x")
		testgit.Git(t, dir, "checkout-index", "-f", "-a", "--prefix=.git/begun/")
		writeAll(func(_, j int) string { return after[j] })
		testgit.Git(t, dir, "add", "-A")
		must(t, os.Remove(filepath.Join(dir, attributesFile)))
		testgit.Git(t, dir, "checkout-index", "-f", "-a", "--prefix=.git/stored/")
		for i, stored := range before {
			// A checkout does not tell a CRLF of the commit from one that it made, nor an $Id:$ that the commit has.
			lone := strings.Contains(strings.ReplaceAll(stored, "\r\n", ""), "\n")
			unclear := how.withCRLF && strings.Contains(stored, "\r\n") && (how.ends == lineEnds || how.ends == auto && !lone) ||
				how.ident && strings.Contains(stored, "$Id:")
			for j, now := range after {
				got, ok := how.cleanBefore([]byte(read(".git/begun", i, j)))
				if !unclear && (!ok || string(got) != stored) {
					t.Errorf("%s: before: %q is %q, %v, want %q", attribute, read(".git/begun", i, j), got, ok, stored)
				}
				got, ok = how.cleanAfter([]byte(now), []byte(stored))
				if want := read(".git/stored", i, j); !ok || string(got) != want {
					t.Errorf("%s: %q in place of %q is %q, %v, want %q", attribute, now, stored, got, ok, want)
				}
			}
		}
	}
}

// TestEncodings: each spelling of an encoding is one that git knows, and contents are converted as git does it, or
// refused where git refuses them.
func TestEncodings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testgit.Git(t, dir, "init", "-q")
	var names []string
	for name := range encodings {
		names = append(names, name, strings.ToLower(name))
	}
	contents := [][]byte{
		nil, []byte("caf\xe9\n"), []byte("one\r\n"), []byte("\xff\xfea\x00\xe9\x00\n\x00"), []byte("\xfe\xff\x00a\x00\n"), []byte("a\x00\n\x00"), []byte("\x00a\x00\n"),
		[]byte("\xff\xfe\x3d\xd8\x00\xde"), []byte("\xff\xfe\x3d\xd8"), []byte("\xff\xfe\x3d\xd8a\x00"), []byte("\xff\xfea"), []byte("\xff\xfe\xff\xfea\x00"),
	}
	for _, name := range names {
		must(t, os.WriteFile(filepath.Join(dir, ".gitattributes"), []byte("f working-tree-encoding="+name+"\n"), 0o644))
		how := attributesOf(t, dir, "f")
		for _, data := range contents {
			must(t, os.WriteFile(filepath.Join(dir, "f"), data, 0o644))
			id, err := testgit.Command(dir, "hash-object", "-w", "f").Output()
			got, ok := how.cleanAfter(data, nil)
			switch {
			case ok && err != nil:
				t.Errorf("%s: %q is %q, and git refuses it", name, data, got)
			case ok:
				want, err := testgit.Command(dir, "cat-file", "blob", strings.TrimSpace(string(id))).Output()
				if must(t, err); !bytes.Equal(got, want) {
					t.Errorf("%s: %q is %q, want %q", name, data, got, want)
				}
			case err == nil && how.encoding == latin1:
				t.Errorf("%s: %q is refused", name, data)
			}
		}
	}
	for _, name := range []string{"SHIFT_JIS", "windows-1252", "UTF-32", "no-such-encoding"} {
		if c := conversionOf([len(attributes)]string{5: name}); c.encoding != otherEncoding {
			t.Errorf("%s is %d", name, c.encoding)
		}
	}
}
