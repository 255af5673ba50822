package gitserver

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// Spec says what Generate makes. The same Spec gives the same commit IDs on every machine.
type Spec struct {
	Seed     uint64
	Files    int      // files of the first commit, in addition to the special ones
	Commits  int      // commits on main after the first
	Changes  int      // files that each of these changes
	Grow     bool     // a change replaces some lines of a file by more, and not all of it
	Branches []string // in addition to main, each with one commit on an older one of main
}

// depth returns the length of chains of deltas. Without deltas the trees of a long history take most
// of the space; otherwise deltas would take most of the time.
func (s Spec) depth() int {
	if s.Grow {
		return 10
	}
	return 0
}

// Generate makes a bare repository at path, which must not exist, with the default branch main, and
// returns main's commit ID. The tree is three to five levels deep with files of 0.2 to 8 KB, most
// of them small, and it also has executable files, symlinks (one to nowhere), an empty file, names
// with blanks and beyond ASCII, and a file that .gitattributes checks out with CRLF. The first
// commit has the annotated tag v1.0.0, the last one the plain tag nightly. 100,000 files take some
// five seconds and a pack of 45 MB.
func Generate(path string, spec Spec) (string, error) {
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("generate %s: %w", path, os.ErrExist)
	}
	if _, err := git(path, nil, "-c", "init.defaultBranch=main", "init", "--quiet", "--bare"); err != nil {
		return "", fmt.Errorf("generate %s: %w", path, err)
	}
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(w, 1<<20)
		history(stream{buffered}, spec)
		w.CloseWithError(buffered.Flush())
	}()
	// Use little compression, which would otherwise take most of the time.
	_, err := git(path, r, "-c", "core.compression=1", "-c", "fastimport.unpackLimit=0",
		"fast-import", "--quiet", "--done", fmt.Sprintf("--depth=%d", spec.depth()))
	r.Close()
	if err != nil {
		return "", fmt.Errorf("generate %s: %w", path, err)
	}
	return git(path, nil, "rev-parse", "refs/heads/main")
}

// history writes the whole repository. Marks are the commits of main, counted from one.
func history(w stream, spec Spec) {
	rnd := rand.New(rand.NewPCG(spec.Seed, 0))
	when := time.Date(2024, 1, 1, 9, 0, 0, 0, time.UTC)
	const main = "refs/heads/main"

	w.commit(commit{ref: main, mark: 1, when: when, message: "begin"})
	for _, f := range special {
		w.file(f.Mode, f.Path, f.Content)
	}
	var content []string // of the files
	for i := range spec.Files {
		content = append(content, text(rnd))
		w.file("", filePath(i, spec.Files), content[i])
	}
	fmt.Fprintf(w, "tag v1.0.0\nfrom :1\ntagger %s\n", ident(when))
	w.data("the first release\n")

	for i := range spec.Commits {
		when = when.Add(time.Hour)
		w.commit(commit{ref: main, mark: i + 2, when: when, message: fmt.Sprintf("change %d", i+1), from: i + 1})
		for range min(spec.Changes, spec.Files) {
			k := rnd.IntN(spec.Files)
			change := text(rnd)
			if spec.Grow {
				k = often(rnd, spec.Files)
				change = edit(rnd, content[k], change)
				content[k] = change
			}
			w.file("", filePath(k, spec.Files), change)
		}
	}
	last := spec.Commits + 1
	fmt.Fprintf(w, "reset refs/tags/nightly\nfrom :%d\n", last)
	for i, branch := range spec.Branches {
		w.commit(commit{
			ref: "refs/heads/" + branch, mark: last + 1 + i, when: when.Add(time.Hour),
			message: "work on " + branch, from: max(1, last-1-i),
		})
		w.file("", "NOTES-"+strings.ReplaceAll(branch, "/", "-")+".md", text(rnd))
	}
	io.WriteString(w, "done\n")
}

// special has files that break careless code for work trees.
var special = []Change{
	{Path: ".gitattributes", Content: "* text=auto\n*.bat eol=crlf\n*.bin binary\n"},
	{Path: ".gitignore", Content: "node_modules/\n*.log\n"},
	{Path: "README.md", Content: "# Sample\n\nA repository for trials.\n"},
	{Path: "empty", Content: ""},
	{Path: "build.bat", Content: "echo one\necho two\n"},
	{Path: "data.bin", Content: "\x00\x01\xff\r\n\x00"},
	{Path: "build.sh", Mode: "100755", Content: "#!/bin/sh\necho built\n"},
	{Path: "docs/readme", Mode: "120000", Content: "../README.md"},
	{Path: "docs/nowhere", Mode: "120000", Content: "no/such/file"},
	{Path: "docs/with blanks.txt", Content: "blanks\n"},
	{Path: "docs/Grüße-世界.txt", Content: "Grüße, 世界\n"},
}

// perFolder is the number of files in a folder, and of folders in the one above, as in typical
// source trees.
const perFolder = 20

// filePath spreads the files over a tree three to five levels deep, in order, so that neighbours
// share a folder, because fast-import is slow if it alternates between trees.
func filePath(i, files int) string {
	var b strings.Builder
	folder := i / perFolder
	fmt.Fprintf(&b, "src/area%02d/", folder/perFolder)
	if files > perFolder && folder%2 == 1 {
		b.WriteString("internal/")
	}
	fmt.Fprintf(&b, "part%02d/", folder%perFolder)
	if folder%5 == 4 {
		b.WriteString("testdata/")
	}
	fmt.Fprintf(&b, "file%02d.%s", i%perFolder, []string{"go", "js", "md", "py"}[i%4])
	return b.String()
}

var words = strings.Fields("the a lease tree branch of commit is read by every server and its caller with one lock path volume count until done return")

// text returns lines of words, 0.2 to 8 KB, with a median near 0.7 KB.
func text(rnd *rand.Rand) string {
	size := min(200+int(rnd.ExpFloat64()*750), 8000)
	var b strings.Builder
	b.Grow(size + 16)
	for line := 0; b.Len() < size; {
		word := words[rnd.IntN(len(words))]
		b.WriteString(word)
		if line += len(word); line > 80 {
			b.WriteByte('\n')
			line = 0
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// often returns one of n files. As in real projects, few files change much more often than most.
func often(rnd *rand.Rand, n int) int {
	u := rnd.Float64()
	return int(u * u * float64(n))
}

// edit returns a text in which up to seven lines are replaced by another text, which is longer on
// average. So the files grow: after 20,000 commits to 2,000 files the median version has some 6 KB,
// and one of a hundred more than 100 KB, as in real repositories. That is most of the work of
// git index-pack.
func edit(rnd *rand.Rand, text, other string) string {
	lines := strings.SplitAfter(text, "\n") // the last one is empty
	from := rnd.IntN(len(lines) - 1)
	to := min(from+rnd.IntN(8), len(lines)-1)
	return strings.Join(lines[:from], "") + other + strings.Join(lines[to:], "")
}
