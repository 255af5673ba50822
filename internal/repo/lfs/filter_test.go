package lfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/helmdeck/repos/tests/testgit"
)

// needed are the programs that Filter needs besides git and a shell.
var needed = []string{"cat", "dd", "mkdir", "mktemp", "mv", "rm", "sha256sum", "tr", "wc"}

// withGitLFS has git-lfs, and the filter that git-lfs describes.
var withGitLFS = testgit.Image{Path: os.Getenv("PATH"), Config: []string{
	"-c", "filter.lfs.clean=git-lfs clean -- %f", "-c", "filter.lfs.smudge=git-lfs smudge -- %f",
}}

// mustRun runs git in an image.
func mustRun(t *testing.T, i testgit.Image, dir string, args ...string) string {
	t.Helper()
	out, err := i.Run(0, dir, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// repository makes a repository in which all files are those of git-lfs. Filter is its filter, unless
// the image has its own.
func repository(t *testing.T, i testgit.Image) string {
	t.Helper()
	dir := t.TempDir()
	mustRun(t, i, dir, "init", "-q", "-b", "main")
	if i.Config == nil {
		install(t, filepath.Join(dir, ".git"), false)
	}
	writeFile(t, filepath.Join(dir, ".git/info/attributes"), "* filter=lfs -text\n")
	return dir
}

// install makes Filter the filter of a repository.
func install(t *testing.T, gitDir string, skip bool) {
	t.Helper()
	config, err := os.ReadFile(filepath.Join(gitDir, "config"))
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(gitDir, "config"), string(config)+FilterConfig(skip))
	writeFile(t, filepath.Join(gitDir, FilterFile), string(Filter))
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// known is the ID of an object of 12345 bytes, and knownPointer its pointer.
const (
	known        = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	knownPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + known + "\nsize 12345\n"
)

// contents returns files: names that a shell could take for something else, and contents that are
// almost a pointer.
func contents() map[string]string {
	r := rand.New(rand.NewPCG(1, 2))
	raw := func(n int) string {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		return string(data)
	}
	oid, pointer := known, knownPointer
	files := map[string]string{
		"empty": "", "nul": "\x00", "newline": "\n", "space": " ", "no newline at the end": "text",
		"with spaces  and\ttabs": raw(200), "with\nnewlines\n": raw(201), `with "quotes' and \ more`: raw(202), "$(touch evil) `touch evil`; *": raw(203),
		"-n": raw(204), "--": raw(205), "%f": raw(206), "ünï": raw(207), "\xff\xfe": raw(208), "a/deep/er/file": raw(209),
		"1023": raw(1023), "1024": raw(1024), "1025": raw(1025), "large": raw(3 << 20), "nuls": strings.Repeat("\x00", 1<<20),
		"pointer": pointer, "pointer with CRLF": strings.ReplaceAll(pointer, "\n", "\r\n"), "pointer without its end": strings.TrimSuffix(pointer, "\n"),
		"pointer with NUL": pointer + "\x00", "NUL in a pointer": strings.Replace(pointer, "size", "si\x00ze", 1), "blank first": " \n\t" + pointer,
		"blank lines": strings.ReplaceAll(pointer, "\n", "\n\n"), "much after it": pointer + strings.Repeat("\n", 1500), "text after it": pointer + "more\n",
		"1023 bytes": pointer + strings.Repeat(" ", 1023-len(pointer)), "1024 bytes and more": "x" + pointer + strings.Repeat(" ", 1024-len(pointer)),
		"extension":   strings.Replace(pointer, "oid", "ext-0-foo sha256:"+oid+"\noid", 1),
		"extensions":  strings.Replace(pointer, "oid", "ext-0-foo sha256:"+oid+"\next-1-bar sha256:"+oid+"\noid", 1),
		"old version": strings.Replace(pointer, "https://git-lfs.github.com/spec/v1", "https://hawser.github.com/spec/v1", 1),
		"version 2":   strings.Replace(pointer, "v1", "v2", 1), "no size": strings.Replace(pointer, "size 12345\n", "", 1), "no digits": strings.Replace(pointer, " 12345", " ", 1),
		"signed": strings.Replace(pointer, " 12345", " +12345", 1), "upper case": strings.ToUpper(pointer), "upper ID": strings.Replace(pointer, oid, strings.ToUpper(oid), 1),
		"short": strings.Replace(pointer, oid, oid[1:], 1), "size 0": strings.Replace(pointer, " 12345", " 0", 1), "another hash": strings.Replace(pointer, "sha256", "sha512", 1),
		"twice": pointer + pointer, "order": "oid sha256:" + oid + "\nversion https://git-lfs.github.com/spec/v1\nsize 12345\n", "option": "-n " + pointer,
	}
	for i := range 40 { // damaged pointers
		data := []byte(pointer)
		for range 1 + r.IntN(2) {
			at := r.IntN(len(data))
			put := []string{"", "\n", "\r\n", "\r", " ", "\t", "\x00", "x", "0", ":", "*", "[", "\\", "'", "\xff"}[r.IntN(15)]
			data = append(append(bytes.Clone(data[:at]), put...), data[min(len(data), at+r.IntN(2)):]...)
		}
		files[fmt.Sprintf("damaged %d", i)] = string(data)
	}
	return files
}

// TestFilterMatchesGitLFS adds files, and checks them out again. git must have the same blobs and
// files as with git-lfs. Without the objects, the files are the blobs.
func TestFilterMatchesGitLFS(t *testing.T) {
	t.Parallel()
	files := contents()
	// add adds the files to a new repository, and returns the IDs of their blobs.
	add := func(t *testing.T, i testgit.Image) (dir string, blobs map[string]string) {
		t.Helper()
		dir = repository(t, i)
		for name, content := range files {
			writeFile(t, filepath.Join(dir, name), content)
		}
		mustRun(t, i, dir, "add", ".")
		if out := mustRun(t, i, dir, "status", "--porcelain"); strings.Contains("\n"+out, "\nAM") {
			t.Errorf("status after git add: %s", out)
		}
		writeFile(t, filepath.Join(dir, ".git", InRepository(known)), strings.Repeat("x", 12345))
		blobs = map[string]string{}
		for entry := range strings.SplitSeq(mustRun(t, i, dir, "ls-files", "-s", "-z"), "\x00") {
			id, name, _ := strings.Cut(entry, "\t")
			blobs[name] = strings.Fields(id + " - -")[1]
		}
		return dir, blobs
	}
	// restore makes git write all files again, and returns them.
	restore := func(t *testing.T, i testgit.Image, dir string) map[string]string {
		t.Helper()
		found := map[string]string{}
		for name := range files {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		mustRun(t, i, dir, "checkout", "--", ".")
		for name := range files {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			found[name] = string(data)
		}
		return found
	}
	reference, wantBlobs := add(t, withGitLFS)
	wantFiles := restore(t, withGitLFS, reference)
	for _, shell := range testgit.Shells {
		t.Run(shell, func(t *testing.T) {
			if testing.Short() && shell != testgit.Shells[0] {
				t.Skip("one shell of several runs with -short")
			}
			t.Parallel()
			i := testgit.Small(t, shell, needed...)
			dir, blobs := add(t, i)
			got := restore(t, i, dir)
			for name, content := range files {
				if blobs[name] != wantBlobs[name] {
					t.Errorf("git add %q (%.300q): %s, with git-lfs %s", name, content, blobs[name], wantBlobs[name])
				}
				if got[name] != wantFiles[name] {
					t.Errorf("git checkout %q: %.300q, with git-lfs %.300q", name, got[name], wantFiles[name])
				}
			}
			if left, err := os.ReadDir(filepath.Join(dir, ".git/lfs/tmp")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
			if err := os.RemoveAll(filepath.Join(dir, ".git/lfs/objects")); err != nil {
				t.Fatal(err)
			}
			pointers := 0
			for name, content := range restore(t, i, dir) {
				if strings.HasPrefix(name, "size 0") || content == files[name] {
					continue
				}
				pointers++
				if want := mustRun(t, i, dir, "cat-file", "blob", blobs[name]); strings.TrimSpace(content) != want {
					t.Errorf("git checkout %q without its object: %.300q, want %.300q", name, content, want)
				}
			}
			if pointers < 60 {
				t.Errorf("%d files are pointers, want all that have contents", pointers)
			}
			if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
				t.Error("the name of a file was executed")
			}
		})
	}
}

// TestFilterOfLargeFile checks that a filter streams: a file larger than the memory that the shell may
// use passes.
func TestFilterOfLargeFile(t *testing.T) {
	t.Parallel()
	i := testgit.Small(t, "dash", append(needed, "bash")...)
	dir := repository(t, i)
	large := filepath.Join(dir, "large")
	writeFile(t, large, "begin")
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, ".git", FilterFile)
	writeFile(t, script, "ulimit -v 50000\n"+string(Filter))
	mustRun(t, i, dir, "add", "large")
	if got, want := mustRun(t, i, dir, "cat-file", "blob", ":large"), "\nsize 104857600"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want the suffix %q", got, want)
	}
	// A content that was committed without the filter.
	id := mustRun(t, i, dir, "hash-object", "-w", "--no-filters", "large")
	mustRun(t, i, dir, "update-index", "--cacheinfo", "100644,"+id+",large")
	if err := os.Remove(large); err != nil {
		t.Fatal(err)
	}
	mustRun(t, i, dir, "checkout", "--", "large")
	if info, err := os.Stat(large); err != nil || info.Size() != 100<<20 {
		t.Errorf("got %v, %v", info, err)
	}
}

// TestFilterGivesWayToGitLFS checks which program git runs.
func TestFilterGivesWayToGitLFS(t *testing.T) {
	t.Parallel()
	installed := testgit.Image{Path: os.Getenv("PATH"), Config: []string{"-c", "filter.lfs.process=git-lfs filter-process"}}
	small := testgit.Small(t, "dash", needed...)
	writeFile(t, filepath.Join(small.Path, "git-lfs"), "#!/bin/sh\necho \"$*\" >>log\ncat\n")
	if err := os.Chmod(filepath.Join(small.Path, "git-lfs"), 0o755); err != nil {
		t.Fatal(err)
	}
	addAndRestore := func(t *testing.T, i testgit.Image, dir string) {
		t.Helper()
		writeFile(t, filepath.Join(dir, "it's"), "content\n")
		mustRun(t, i, dir, "add", "it's")
		if err := os.Remove(filepath.Join(dir, "it's")); err != nil {
			t.Fatal(err)
		}
		mustRun(t, i, dir, "checkout", "--", "it's")
	}
	t.Run("process", func(t *testing.T) {
		dir := repository(t, installed)
		install(t, filepath.Join(dir, ".git"), false)
		writeFile(t, filepath.Join(dir, ".git", FilterFile), "exit 1\n") // it is not run
		addAndRestore(t, installed, dir)
		if got := mustRun(t, installed, dir, "cat-file", "blob", ":it's"); !IsPointer([]byte(got)) {
			t.Errorf("got %q, want a pointer", got)
		}
	})
	for skip, want := range map[bool]string{false: "clean -- it's\nsmudge -- it's\n", true: "clean -- it's\n"} {
		t.Run(fmt.Sprint("program, skip ", skip), func(t *testing.T) {
			dir := repository(t, small)
			mustRun(t, small, dir, "config", "--remove-section", "filter.lfs")
			install(t, filepath.Join(dir, ".git"), skip)
			addAndRestore(t, small, dir)
			if got, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(got) != want {
				t.Errorf("git-lfs was run with %q, %v, want %q", got, err, want)
			}
		})
	}
}

// TestFilterFails checks that a filter that fails makes git fail, and not take a content for a pointer.
func TestFilterFails(t *testing.T) {
	t.Parallel()
	dir := repository(t, withGitLFS)
	install(t, filepath.Join(dir, ".git"), false)
	writeFile(t, filepath.Join(dir, "f"), "content\n")
	without := slices.DeleteFunc(slices.Clone(needed), func(name string) bool { return name == "sha256sum" })
	i := testgit.Small(t, "dash", without...)
	if out, err := i.Run(0, dir, "add", "f"); err == nil || !strings.Contains(err.Error(), "install git-lfs") {
		t.Errorf("without sha256sum: %q, %v", out, err)
	}
	i = testgit.Small(t, "dash", needed...)
	writeFile(t, filepath.Join(dir, ".git/lfs/objects"), "in the way\n")
	if out, err := i.Run(0, dir, "add", "f"); err == nil || !strings.Contains(err.Error(), "can't be written") {
		t.Errorf("without a place for the object: %q, %v", out, err)
	}
	if got := mustRun(t, i, dir, "ls-files"); got != "" {
		t.Errorf("git added %q", got)
	}
}

// TestFilterFindsRepository checks it in a repository of SHA-256, in another worktree, in a submodule's
// directory, below the top, and where nothing can be written beside the objects.
func TestFilterFindsRepository(t *testing.T) {
	t.Parallel()
	i := testgit.Small(t, "busybox", needed...)
	top := t.TempDir()
	gitDir, dir := filepath.Join(top, "modules/a b's"), filepath.Join(top, "work tree")
	if err := os.Mkdir(filepath.Dir(gitDir), 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, i, top, "init", "-q", "--object-format=sha256", "--separate-git-dir="+gitDir, dir)
	install(t, gitDir, false)
	writeFile(t, filepath.Join(gitDir, "info/attributes"), "*.bin filter=lfs -text\n")
	writeFile(t, filepath.Join(dir, "below/it.bin"), "content\n")
	below := filepath.Join(dir, "below")
	mustRun(t, i, below, "add", ".")
	mustRun(t, i, below, "commit", "-q", "-m", "it")
	if got := mustRun(t, i, dir, "cat-file", "blob", "HEAD:below/it.bin"); !IsPointer([]byte(got)) {
		t.Errorf("got %q, want a pointer", got)
	}
	wantContent := func(path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != "content\n" {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	mustRun(t, i, below, "worktree", "add", "-q", filepath.Join(top, "other"))
	wantContent(filepath.Join(top, "other/below/it.bin"))
	if err := os.RemoveAll(filepath.Join(gitDir, "lfs/tmp")); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(gitDir, "lfs/tmp"), "in the way\n")
	if got := mustRun(t, i, dir, "cat-file", "--filters", "HEAD:below/it.bin"); got != "content" {
		t.Errorf("in a repository that can't be written: %q", got)
	}
	if left, err := os.ReadDir(below); err != nil || len(left) != 1 {
		t.Errorf("in the work tree: %v, %v", left, err)
	}
}
