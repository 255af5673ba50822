package gitindex

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// treeCache is a directory in the index's cache of tree objects (gitformat-index,
// extension TREE): the ID of its tree while nothing below it changes. With it, git status
// and git commit read only the trees of changed directories.
type treeCache struct {
	files int    // entries of the index below it
	id    []byte // of its tree
	dirs  map[string]*treeCache
}

// parseTreeCache reads the extension. It returns nil if some directories are missing,
// which does not happen after a checkout.
func parseTreeCache(data []byte, idSize int) (*treeCache, error) {
	p := treeCacheParser{data: data, idSize: idSize, whole: true}
	_, t, err := p.next(maxDepth)
	if err == nil && len(p.data) > 0 {
		err = errTreeCache
	}
	if err != nil || !p.whole {
		return nil, err
	}
	return t, nil
}

var errTreeCache = errors.New("the index's cache of trees is damaged")

// maxDepth bounds nested directories: twice git's limit (core.maxTreeDepth).
const maxDepth = 4096

type treeCacheParser struct {
	data   []byte
	idSize int
	whole  bool
}

// next reads a directory and its subdirectories: name, NUL, number of files, space,
// number of subdirectories, line feed, and the ID unless the first number is negative.
func (p *treeCacheParser) next(depth int) (string, *treeCache, error) {
	name, rest, _ := bytes.Cut(p.data, []byte{0})
	files, rest, _ := bytes.Cut(rest, []byte{' '})
	dirs, rest, ok := bytes.Cut(rest, []byte{'\n'}) // not if one of the others fails
	n, err := strconv.Atoi(string(files))
	m, err2 := strconv.Atoi(string(dirs))
	if !ok || err != nil || err2 != nil || depth == 0 || n >= 0 && len(rest) < p.idSize {
		return "", nil, errTreeCache
	}
	t := &treeCache{files: n}
	if n >= 0 {
		t.id, rest = rest[:p.idSize], rest[p.idSize:]
	}
	p.data, p.whole = rest, p.whole && n >= 0
	for range m {
		name, dir, err := p.next(depth - 1)
		if err != nil {
			return "", nil, err
		}
		if p.whole { // otherwise nothing is kept
			t.add(name, dir)
		}
	}
	return string(name), t, nil
}

func (t *treeCache) add(name string, dir *treeCache) {
	if t.dirs == nil {
		t.dirs = make(map[string]*treeCache)
	}
	t.dirs[name] = dir
}

// append encodes a directory and its subdirectories, which git sorts by the length of
// their names first.
func (t *treeCache) append(out []byte, name string) []byte {
	out = fmt.Appendf(out, "%s\x00%d %d\n", name, t.files, len(t.dirs))
	out = append(out, t.id...)
	for _, name := range slices.SortedFunc(maps.Keys(t.dirs), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}) {
		out = t.dirs[name].append(out, name)
	}
	return out
}

// set sets the tree ID of a directory. It returns false if the parent is unknown.
func (t *treeCache) set(dir string, id []byte) bool {
	above, name := t.above(dir)
	if above == nil {
		return false
	}
	if d, ok := above.dirs[name]; ok {
		d.id = id
	} else {
		above.add(name, &treeCache{id: id})
	}
	return true
}

// remove removes a directory and those below it.
func (t *treeCache) remove(dir string) {
	if above, name := t.above(dir); above != nil {
		delete(above.dirs, name)
	}
}

// above returns the parent of a directory, nil if it is unknown, and the last element of
// the directory's name.
func (t *treeCache) above(dir string) (*treeCache, string) {
	for {
		name, rest, ok := strings.Cut(dir, "/")
		if !ok || t == nil {
			return t, name
		}
		t, dir = t.dirs[name], rest
	}
}

// count adds n to the number of files of all known directories above a file.
func (t *treeCache) count(file string, n int) {
	for t != nil {
		t.files += n
		dir, rest, ok := strings.Cut(file, "/")
		if !ok {
			return
		}
		t, file = t.dirs[dir], rest
	}
}

// verify checks the tree ID of a directory, and those of the changed directories below
// it. Its files are the first t.files entries; name is its path with a trailing slash, ""
// for the top. It fails for trees that an index can't represent: a repeated name, a name
// that is both a file and a directory, a directory without files, an obsolete mode.
func (t *treeCache) verify(name string, entries []Entry, idSize int, changed map[string]bool) error {
	fail := func() error { return fmt.Errorf("the index does not match the tree of %q", name) }
	if t.files < 0 || t.files > len(entries) {
		return fail()
	}
	entries = entries[:t.files]
	var tree []byte
	seen, last := 0, ""
	for len(entries) > 0 {
		e := entries[0]
		rest, ok := strings.CutPrefix(e.name, name)
		if !ok {
			return fail()
		}
		file, _, isDir := strings.Cut(rest, "/")
		if file == last || isDir && t.dirs[file] == nil || !isDir && t.dirs[file] != nil {
			return fail()
		}
		last = file
		if !isDir {
			tree = append(fmt.Appendf(tree, "%o %s\x00", e.mode(), file), e.ID()...)
			entries = entries[1:]
			continue
		}
		seen++
		dir := t.dirs[file]
		if dir.files <= 0 || dir.files > len(entries) {
			return fail()
		}
		if full := name + file; changed[full] {
			if err := dir.verify(full+"/", entries, idSize, changed); err != nil {
				return err
			}
		}
		tree = append(fmt.Appendf(tree, "40000 %s\x00", file), dir.id...)
		entries = entries[dir.files:]
	}
	sum := newHash(idSize)
	fmt.Fprintf(sum, "tree %d\x00", len(tree))
	sum.Write(tree)
	if seen != len(t.dirs) || !bytes.Equal(sum.Sum(nil), t.id) {
		return fail()
	}
	return nil
}
