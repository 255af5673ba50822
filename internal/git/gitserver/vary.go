package gitserver

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Varied is a repository of Vary. Its methods must not be called concurrently.
type Varied struct {
	Path     string
	Format   string   // of object IDs: sha1 or sha256
	Branches []string // the first one is the default, and is never deleted
	Tags     []string // of commits, in addition to others; the first one moves with each Push
	Made     []string // what it has, for the messages of tests
	Module   bool     // the default branch has the submodule

	rnd     *rand.Rand
	paths   []string
	content map[string]string // the newest content of a path, on any branch
	commits []int             // marks
	tips    map[string]int    // marks of the branches
	marks   int
	when    time.Time
	deep    bool // it has long chains of deltas
}

// Vary makes a bare repository at path, which must not exist, of a random shape: commits and merges,
// chains of deltas, large and empty files, modes and symlinks, odd names, tags of all kinds, and refs that no clone
// has, in packs and loose objects as servers have them. Some have a submodule: the commit of the repository "sub" beside it.
// The same rnd and commit give the same objects on every machine, but not the same packs.
func Vary(path string, rnd *rand.Rand, submodule string) (*Varied, error) {
	v := &Varied{Path: path, Format: "sha1", Branches: []string{"main"}, rnd: rnd, content: make(map[string]string),
		tips: make(map[string]int), when: time.Date(2024, 1, 1, 9, 0, 0, 0, time.UTC)}
	if v.one(6) {
		v.Format = "sha256"
	}
	if v.one(4) {
		v.Branches[0] = "trunk/entwicklung-ü"
	}
	v.paths = oddPaths(rnd, 2+rnd.IntN(30))
	commits, branches := 1+rnd.IntN(30), rnd.IntN(6)
	switch rnd.IntN(12) {
	case 0:
		v.deep, v.paths, commits = true, v.paths[:2], 60+rnd.IntN(100)
	case 1:
		branches = 220
	case 2:
		commits, branches = 1, 0
	}
	v.Made = append(v.Made, v.Format, fmt.Sprintf("%d paths, %d commits", len(v.paths), commits))
	if _, err := git(path, nil, "init", "--quiet", "--bare", "--template=", "--object-format="+v.Format,
		"--initial-branch="+v.Branches[0]); err != nil {
		return nil, err
	}
	v.Module = len(submodule) == 40 && v.Format == "sha1" && v.one(5)
	if err := v.configure(); err != nil {
		return nil, err
	}
	parts := 1 + rnd.IntN(min(commits, 3))
	for part := range parts {
		if err := v.extend(func(w stream) {
			if part == 0 {
				v.commit(w, v.Branches[0])
			}
			if part == 0 && v.Module {
				fmt.Fprintf(w, "M 160000 %s lib/sub\n", submodule)
				w.file("", ".gitmodules", "[submodule \"s\"]\n\tpath = lib/sub\n\turl = ../sub\n")
			}
			for range commits/parts - 1 + part&1 {
				v.commit(w, v.Branches[rnd.IntN(len(v.Branches))])
				if branches > 0 && v.one(2) {
					branches--
					v.branch(w)
				}
			}
			for ; branches > 0 && part == parts-1; branches-- {
				v.branch(w)
			}
			v.tag(w, fmt.Sprintf("v%d", part), v.one(2))
		}); err != nil {
			return nil, err
		}
	}
	if err := v.strange(); err != nil {
		return nil, err
	}
	return v, v.pack()
}

// one returns true once in n times.
func (v *Varied) one(n int) bool { return v.rnd.IntN(n) == 0 }

// configure writes settings of a server, which clients never see.
func (v *Varied) configure() error {
	var lines []string
	for _, line := range []string{"[core]\n\tbigFileThreshold = 8k", "[pack]\n\tallowPackReuse = false", "[pack]\n\tcompression = 0",
		"[repack]\n\tuseDeltaBaseOffset = false", "[pack]\n\tthreads = 1", "[pack]\n\tuseSparse = false"} {
		if v.one(4) {
			lines = append(lines, line)
		}
	}
	config, err := os.ReadFile(filepath.Join(v.Path, "config"))
	if err != nil {
		return err
	}
	v.Made = append(v.Made, strings.NewReplacer("\n\t", "", "[", "", "]", ".").Replace(strings.Join(lines, ", ")))
	return os.WriteFile(filepath.Join(v.Path, "config"), fmt.Appendf(config, "%s\n", strings.Join(lines, "\n")), 0o644)
}

// extend runs fast-import, whose marks are known to the next one. It makes a pack or loose objects.
func (v *Varied) extend(write func(w stream)) error {
	limit, marks := v.rnd.IntN(2)*1_000_000, filepath.Join(v.Path, "marks")
	if v.deep {
		limit = 0 // a server would take long to find deltas between loose objects, for each clone
	}
	r, w := io.Pipe()
	go func() {
		buffered := bufio.NewWriterSize(w, 1<<16)
		write(stream{buffered})
		fmt.Fprintln(buffered, "done")
		w.CloseWithError(buffered.Flush())
	}()
	_, err := git(v.Path, r, "-c", fmt.Sprint("fastimport.unpackLimit=", limit), "fast-import", "--quiet", "--done", "--force",
		"--import-marks-if-exists="+marks, "--export-marks="+marks)
	r.Close()
	v.Made = append(v.Made, map[bool]string{false: "packed", true: "loose"}[limit > 0])
	return err
}

// commit adds a commit to a branch, which may merge another one and always changes something.
func (v *Varied) commit(w stream, branch string) {
	v.marks++
	v.when = v.when.Add(time.Minute)
	w.commit(commit{ref: "refs/heads/" + branch, mark: v.marks, when: v.when, message: fmt.Sprint("change ", v.marks), from: v.tips[branch]})
	tip, other := v.tips[branch], v.tips[v.Branches[v.rnd.IntN(len(v.Branches))]]
	if tip != 0 && other != 0 && other != tip && v.one(3) {
		fmt.Fprintf(w, "merge :%d\n", other)
	}
	v.tips[branch] = v.marks
	v.commits = append(v.commits, v.marks)
	w.file("", "commit", fmt.Sprintln(v.marks))
	for range 1 + v.rnd.IntN(4) {
		v.change(w)
	}
}

// change changes one path.
func (v *Varied) change(w stream) {
	path := v.paths[v.rnd.IntN(len(v.paths))]
	switch v.rnd.IntN(16) {
	case 0:
		fmt.Fprintf(w, "D %s\n", quote(path))
	case 1:
		w.file("120000", path, []string{"commit", "../..", "no/such/file", "/etc/hostname", strings.Repeat("l", 300)}[v.rnd.IntN(5)])
	case 2:
		w.file("", path, "")
	case 3:
		w.file("", path, string(v.bytes(10_000)))
	default:
		v.content[path] = v.edit(v.content[path])
		w.file([]string{"100644", "100755"}[v.rnd.IntN(8)/7], path, v.content[path])
	}
	if v.one(400) {
		w.file("", "large.bin", string(v.bytes(2_000_000)))
	}
	if v.one(60) {
		w.file("", ".gitattributes", "*.txt text=auto eol=crlf\n*.id ident\n*.bin -delta binary\n")
	}
}

// bytes returns up to n random bytes.
func (v *Varied) bytes(n int) []byte {
	data := make([]byte, 1+v.rnd.IntN(n))
	for i := range data {
		data[i] = byte(v.rnd.Uint32())
	}
	return data
}

// edit returns a text that differs a little from the one before, and is mostly longer.
func (v *Varied) edit(before string) string {
	lines := strings.SplitAfter(before, "\n")
	line := fmt.Sprintf("$Id$ %d %s\n", v.marks, strings.Repeat(words[v.rnd.IntN(len(words))]+" ", v.rnd.IntN(9)))
	at := v.rnd.IntN(len(lines))
	switch {
	case len(before) == 0:
		for len(before) < 8000 || v.deep && len(before) < 24_000 {
			before += text(v.rnd)
		}
		return before
	case v.one(4):
		lines[at] = line
	case len(before) > 40_000:
		return strings.Join(slices.Delete(lines, len(lines)/4, len(lines)/2), "")
	default:
		lines = slices.Insert(lines, at, line)
	}
	return strings.Join(lines, "")
}

// branch makes a branch, at any commit or with one of its own.
func (v *Varied) branch(w stream) {
	name := fmt.Sprintf([]string{"topic/%d", "work-%d", "grün/#%d+x"}[v.rnd.IntN(3)], v.marks)
	if v.tips[name] != 0 {
		return
	}
	v.tips[name] = v.commits[v.rnd.IntN(len(v.commits))]
	v.Branches = append(v.Branches, name)
	fmt.Fprintf(w, "reset refs/heads/%s\nfrom :%d\n\n", name, v.tips[name])
	if v.one(2) {
		v.commit(w, name)
	}
}

// tag makes or moves a tag of a commit. An annotated one has another tag on it.
func (v *Varied) tag(w stream, name string, annotated bool) {
	of := v.commits[v.rnd.IntN(len(v.commits))]
	if !slices.Contains(v.Tags, name) {
		v.Tags = append(v.Tags, name)
	}
	if !annotated {
		fmt.Fprintf(w, "reset refs/tags/%s\nfrom :%d\n\n", name, of)
		return
	}
	for _, name := range []string{name, name + "-signed"} {
		v.marks++
		fmt.Fprintf(w, "tag %s\nmark :%d\nfrom :%d\ntagger %s\n", name, v.marks, of, ident(v.when))
		w.data("the tag " + name + "\n")
		of = v.marks
	}
}

// strange adds what fast-import does not make: tags of trees and of files, empty directories, refs that are neither
// branches nor tags.
func (v *Varied) strange() error {
	var refs bytes.Buffer
	head := "refs/heads/" + v.Branches[0]
	if v.one(3) {
		fmt.Fprintf(&refs, "create refs/tags/tree %s^{tree}\ncreate refs/tags/blob %s:commit\n", head, head)
	}
	if v.one(3) {
		fmt.Fprintf(&refs, "create refs/notes/commits %s\ncreate refs/pull/1/head %s\n", head, head)
	}
	if v.one(6) {
		tree := ""
		for _, entries := range []string{"", "040000 tree %s\tempty\n"} {
			var err error
			if entries != "" {
				entries = fmt.Sprintf(entries, tree)
			}
			if tree, err = git(v.Path, strings.NewReader(entries), "mktree"); err != nil {
				return err
			}
			by := ident(v.when)
			text := fmt.Sprintf("tree %s\nauthor %s\ncommitter %s\n\nno files\n", tree, by, by)
			id, err := git(v.Path, strings.NewReader(text), "hash-object", "-t", "commit", "-w", "--stdin")
			if err != nil {
				return err
			}
			fmt.Fprintf(&refs, "create refs/heads/empty/%.7s %s\n", tree, id)
			v.Branches = append(v.Branches, "empty/"+tree[:7])
		}
		v.Made = append(v.Made, "empty trees")
	}
	_, err := git(v.Path, &refs, "update-ref", "--stdin")
	return err
}

// pack leaves the objects as they are, or packs them in one of many ways.
func (v *Varied) pack() error {
	depth := fmt.Sprintf("--depth=%d", 1+v.rnd.IntN(250))
	ways := [][]string{nil, nil,
		{"repack", "-q", "-d"},
		{"repack", "-q", "-a", "-d"},
		{"repack", "-q", "-a", "-d", "-f", depth, "--window=20"},
		{"repack", "-q", "-a", "-d", "-f", "--window=0"},
		{"repack", "-q", "-a", "-d", "-b", depth},
		{"repack", "-q", "-d", "--geometric=2", "--write-midx", "-b"},
		{"gc", "--quiet", "--prune=now"},
	}
	way := ways[v.rnd.IntN(len(ways))]
	if v.deep {
		way = []string{"repack", "-q", "-a", "-d", "-f", "--depth=250", "--window=10"}
	}
	if way == nil {
		return nil
	}
	v.Made = append(v.Made, strings.Join(way, " "))
	if _, err := git(v.Path, nil, way...); err != nil {
		return err
	}
	if v.one(3) {
		_, err := git(v.Path, nil, "commit-graph", "write", "--reachable")
		return err
	}
	return nil
}

// Push changes the repository as pushes do. The default branch and the given one get commits, sometimes by force; the
// first tag moves; other branches may come and go.
func (v *Varied) Push(branch string) error {
	var gone bytes.Buffer
	for i := len(v.Branches) - 1; i > 0; i-- {
		if name := v.Branches[i]; name != branch && v.one(4) {
			fmt.Fprintf(&gone, "delete refs/heads/%s\n", name)
			v.Branches = slices.Delete(v.Branches, i, i+1)
			delete(v.tips, name)
		}
	}
	if _, err := git(v.Path, &gone, "update-ref", "--stdin"); err != nil {
		return err
	}
	if err := v.extend(func(w stream) {
		for _, name := range slices.Compact([]string{v.Branches[0], branch}) {
			if v.tips[name] == 0 || v.one(4) { // a forced push
				v.tips[name] = v.commits[v.rnd.IntN(len(v.commits))]
			}
			for range 1 + v.rnd.IntN(3) {
				v.commit(w, name)
			}
		}
		for range v.rnd.IntN(4) {
			v.branch(w)
		}
		last := v.commits
		v.commits = last[len(last)-1:]
		v.tag(w, v.Tags[0], v.one(2))
		v.commits = last
	}); err != nil {
		return err
	}
	if v.one(3) {
		return v.pack()
	}
	return nil
}

// oddNames are names that break careless code.
var oddNames = []string{"file", "File", "FILE", "with blanks", " leading", "trailing ", "Grüße-世界", "new\nline", "tab\t", `quote"`, `back\slash`,
	"-dash", "*", "[x]", "$(x)", "'", ".hidden", "a.txt", "b.id", "c.bin", "%20", ":(top)x", "#hash", "~", "index.lock", "\x01", "\xff\xfe",
	strings.Repeat("long-", 50), "HEAD", "con.c", "e\u0301", "\u00e9"}

// oddPaths returns n paths, of which some are below others.
func oddPaths(rnd *rand.Rand, n int) (paths []string) {
	for range n {
		parts := make([]string, 1+min(int(rnd.ExpFloat64()*1.5), 7))
		for i := range parts {
			parts[i] = oddNames[rnd.IntN(len(oddNames))]
		}
		paths = append(paths, strings.Join(parts, "/"))
	}
	return paths
}
