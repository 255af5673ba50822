package git

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitref"
)

func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	l := &lines{f: func(s string) { got = append(got, s) }}
	for _, part := range []string{"a", "b\rc\n\n  \r", strings.Repeat("x", 2*maxStderr), "y\nd\n", "no end"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write: %d, %v", n, err)
		}
	}
	if want := []string{"ab", "c", "y", "d"}; !slices.Equal(got, want) {
		t.Errorf("lines %q, want %q", got, want)
	}
}

func TestBoundedOutput(t *testing.T) {
	t.Parallel()
	l := &limited{max: 5}
	for _, tt := range []struct {
		write, want string
		cut         bool
	}{{"abc", "abc", false}, {"de", "abcde", false}, {"f", "abcde", true}, {"ghi", "abcde", true}} {
		if n, err := l.Write([]byte(tt.write)); n != len(tt.write) || err != nil || l.buf.String() != tt.want || l.cut != tt.cut {
			t.Errorf("limited after %q: %q cut %v (%d, %v)", tt.write, &l.buf, l.cut, n, err)
		}
	}
	tl := &tail{max: 4}
	for _, tt := range []struct{ write, want string }{{"abc", "abc"}, {"de", "bcde"}, {"0123456789", "6789"}} {
		if n, err := tl.Write([]byte(tt.write)); n != len(tt.write) || err != nil || tl.String() != tt.want {
			t.Errorf("tail after %q: %q (%d, %v)", tt.write, tl, n, err)
		}
	}
}

func TestRefsRefuses(t *testing.T) {
	t.Parallel()
	g := new(Git)
	for _, content := range []string{"garbage\n", "1234 refs/heads/main\n", strings.Repeat("a", 40) + "\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "packed-refs"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if refs, err := g.Refs(dir); err == nil {
			t.Errorf("Refs of %q: %v, want an error", content, refs)
		}
	}
	if refs, err := g.Refs(t.TempDir()); err != nil || len(refs) != 0 {
		t.Errorf("Refs of an empty store: %v, %v", refs, err)
	}
}

// TestRefsAreBounded checks that a remote can't fill the plugin's memory with refs.
func TestRefsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "packed-refs"))
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(file.Truncate(1<<30), file.Close())
	if err != nil {
		t.Fatal(err)
	}
	want := "more than 64 MiB (setting SIZE_FACTOR)): raise the setting"
	if _, err := new(Git).Refs(dir); giterror.KindOf(err) != giterror.KindLimit || !strings.Contains(err.Error(), want) {
		t.Errorf("a gigabyte of refs: %v, want %q", err, want)
	}
}

// TestRefsIsWhatGitSays compares Refs with for-each-ref, including nested tags.
func TestRefsIsWhatGitSays(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	gitAt(t, s.Path("r"), "tag", "-a", "-m", "outer", "nested", "v1.0.0")
	gitAt(t, s.Path("r"), "tag", "-a", "-m", "outermost", "nested-twice", "nested")
	gitAt(t, s.Path("r"), "tag", "-a", "-m", "of a tree", "tree-tag", "main^{tree}")
	dir := store(t, g)
	if err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything}); err != nil {
		t.Fatal(err)
	}
	refs, err := g.Refs(dir)
	if err != nil {
		t.Fatal(err)
	}
	byName := make(map[string]gitref.PackedRef)
	var got []string
	for _, r := range refs {
		byName[r.Name] = r
		got = append(got, r.ID+" "+r.Name)
	}
	want := strings.Split(gitAt(t, s.Path("r"), "for-each-ref", "--format=%(objectname) %(refname)"), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("refs\n got %q\nwant %q", got, want)
	}
	for _, name := range []string{"v1.0.0", "nightly", "nested", "nested-twice", "tree-tag"} {
		want := gitAt(t, s.Path("r"), "rev-parse", name+"^{}")
		r := byName["refs/tags/"+name]
		if r.Peeled != want && !(r.Peeled == "" && r.ID == want) {
			t.Errorf("tag %s: %+v, want the final object %s", name, r, want)
		}
	}
	file, err := os.ReadFile(filepath.Join(dir, "packed-refs"))
	if err != nil {
		t.Fatal(err)
	}
	var written bytes.Buffer
	if err := gitref.WritePackedRefs(&written, refs); err != nil || !bytes.Equal(written.Bytes(), file) {
		t.Errorf("gitref.WritePackedRefs (%v) is not what git wrote:\n%s\nwant\n%s", err, &written, file)
	}
}
