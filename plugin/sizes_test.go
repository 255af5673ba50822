package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/internal/git/gitserver/lfsserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestSizeFactor mounts repositories that are larger than a hundredth of the limits on their size. Each error names
// the setting, and with its default all are mounted.
func TestSizeFactor(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	t.Parallel()
	s, lfs := testgit.Serve(t), new(lfsserver.Server)
	for _, name := range []string{"refs", "files", "pointers", "submodules", "small"} {
		newRepo(t, s, name)
	}
	trees := func(name string) testgit.Trees { return testgit.Trees{T: t, Store: s.Path(name)} }
	push := func(name string, entries ...string) string {
		w := trees(name)
		commit := w.CommitTree(entries...)
		w.Git("", nil, "update-ref", "refs/heads/main", commit)
		return commit
	}
	// files returns the entries of n files with names of so many bytes at least.
	files := func(w testgit.Trees, n, bytes int, content string) (entries []string) {
		id := w.Blob(content)
		for i := range n {
			entries = append(entries, w.Entry("100644", fmt.Sprintf("%s%06d", strings.Repeat("n", bytes), i), id))
		}
		return entries
	}

	manyRefs := bytes.NewBufferString("# pack-refs with: peeled fully-peeled sorted \n")
	commit := push("refs", files(trees("refs"), 1, 0, "x\n")...)
	for i := range 9000 { // of 83 bytes; in an answer they take less than its limit
		fmt.Fprintf(manyRefs, "%s refs/heads/a%030d\n", commit, i)
	}
	if err := os.WriteFile(filepath.Join(s.Path("refs"), "packed-refs"), manyRefs.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	push("files", files(trees("files"), 10_500, 200, "x\n")...) // with some 270 bytes in an index
	w := trees("pointers")
	pointers := files(w, 1001, 0, lfs.Put("content\n").String())
	push("pointers", append([]string{w.Entry("100644", ".gitattributes", w.Blob("0* filter=lfs\n"))}, pointers...)...)
	s.Route("pointers", lfs.Serve)
	small := push("small", files(trees("small"), 1, 0, "x\n")...)
	w = trees("submodules")
	var modules strings.Builder
	var links []string
	for i := range 6 {
		name := fmt.Sprintf("s%d", i)
		modules.WriteString(section(name, name, "../small"))
		links = append(links, w.Entry("160000", name, small))
	}
	push("submodules", append([]string{w.Entry("100644", ".gitmodules", w.Blob(modules.String()))}, links...)...)

	data := scratch(t)
	for _, factor := range []string{"0.01", "1"} {
		p := start(t, data, "SIZE_FACTOR="+factor)
		for name, want := range map[string]string{
			"refs":       "too much work (the branches and tags take more than 0.64 MiB (setting SIZE_FACTOR)): raise the setting",
			"files":      "too many files: their index takes 2.724 MiB, allowed are 2.56 (setting SIZE_FACTOR)",
			"pointers":   "more than 1000 files are kept by git-lfs (setting SIZE_FACTOR): raise the setting, or use lfs=false",
			"submodules": "the repository has more than 5 submodules (setting SIZE_FACTOR): raise the setting, name those",
		} {
			err := p.tryCreate(name, map[string]string{"repo": s.URL(name), "submodules": "true"})
			if err == nil {
				err = p.tryMount(name, "1")
			}
			switch {
			case factor == "1" && err != nil:
				t.Errorf("%s: %v", name, err)
			case factor != "1" && (err == nil || !strings.Contains(err.Error(), want)):
				t.Errorf("%s with SIZE_FACTOR=%s: %v, want %q", name, factor, err, want)
			}
		}
		if factor == "1" {
			for _, name := range []string{"refs", "files", "pointers", "submodules"} {
				p.unmount(name, "1")
			}
		}
		p.stop()
	}
}

// TestTooManyRefsToList checks the error about a remote that answers with more refs than the limit, as one may that
// lists all whatever is asked.
func TestTooManyRefsToList(t *testing.T) {
	t.Parallel()
	s := remote(t)
	s.Wrap(gitserver.On(gitserver.LsRefs, gitserver.Advertise(gitserver.ManyRefs(testgit.Git(t, s.Path("sample"), "rev-parse", "main"), 25_000))))
	p := start(t, scratch(t), "SIZE_FACTOR=0.01")
	p.create("v", map[string]string{"repo": s.URL("sample")}) // although there is no answer
	err := p.tryMount("v", "1")
	if want := "too much work (the remote's answer has more than 1.28 MiB (setting SIZE_FACTOR)): raise the setting"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}
