package gitindex

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Changes is the difference between the trees of two commits. The zero value is no
// difference.
type Changes struct {
	Records int // files and directories
	Bytes   int // of their names

	gone     map[string]bool // removed files
	added    []addition
	fresh    int // how many of added are new
	goneDirs []string
	dirs     []changedDir // parents come first
}

// addition is a new or modified file.
type addition struct {
	name, info string // mode and ID, as update-index reads them
	fresh      bool
}

// changedDir is a new or modified directory.
type changedDir struct{ name, id string }

const (
	noMode  = "000000"
	dirMode = "040000"
)

// Add adds a record of git diff-tree -r -t --raw --no-renames --no-abbrev, in git's
// order: info is the colon, modes, IDs and status, name the path.
func (ch *Changes) Add(info, name string) error {
	fields := strings.Fields(strings.TrimPrefix(info, ":"))
	if len(fields) != 5 {
		return fmt.Errorf("diff-tree: unexpected record %q", info)
	}
	oldMode, newMode, id := fields[0], fields[1], fields[3]
	ch.Records++
	ch.Bytes += len(name)
	wasFile, isFile := oldMode != noMode && oldMode != dirMode, newMode != noMode && newMode != dirMode
	switch {
	case newMode == dirMode:
		ch.dirs = append(ch.dirs, changedDir{name, id})
	case oldMode == dirMode:
		ch.goneDirs = append(ch.goneDirs, name)
	}
	switch {
	case isFile:
		ch.added = append(ch.added, addition{name: name, info: newMode + " " + id, fresh: !wasFile})
		if !wasFile {
			ch.fresh++
		}
	case wasFile:
		if ch.gone == nil {
			ch.gone = make(map[string]bool)
		}
		ch.gone[name] = true
	}
	return nil
}

// Above returns the directories of new and modified files, and those above; "." is the top.
func (ch *Changes) Above() map[string]bool {
	above := make(map[string]bool)
	for _, a := range ch.added {
		for dir := path.Dir(a.name); !above[dir]; dir = path.Dir(dir) {
			above[dir] = true
		}
	}
	return above
}

// Files returns the number of new and modified files, and the input for git update-index
// -z --index-info that lists them.
func (ch *Changes) Files() (n int, info string) {
	var b strings.Builder
	for _, a := range ch.added {
		b.WriteString(a.info + "\t" + a.name + "\x00")
	}
	return len(ch.added), b.String()
}

// Apply changes the index to that of a commit whose tree has the ID tree, in hex. ch is
// the difference to that commit, and added has its new and modified files. Apply returns
// the files that are no longer in the work tree. It fails if the index is not that of the
// commit that ch starts from. The index must not be used before Verify has returned nil.
func (ix *Index) Apply(ch *Changes, added *Index, tree string) (gone []string, err error) {
	if ix.trees == nil {
		return nil, errors.New("the index has no cache of trees")
	}
	if gone, err = ix.replace(ch, added.Entries); err != nil {
		return nil, err
	}
	return gone, ix.trees.change(ch, tree)
}

// Verify fails if the index does not match the tree of Apply, whose ch it gets. It only reads
// the index.
func (ix *Index) Verify(ch *Changes) error {
	changed := make(map[string]bool, len(ch.dirs))
	for _, d := range ch.dirs {
		changed[d.name] = true
	}
	return ix.trees.verify("", ix.Entries, ix.idSize, changed)
}

// replace removes the removed files from the index and inserts added, which are sorted by name.
// It returns the files to remove from the work tree.
func (ix *Index) replace(ch *Changes, added []Entry) (gone []string, err error) {
	var fresh []Entry
	for _, e := range added {
		if i, ok := ix.search(e.name); ok {
			ix.Entries[i] = e
		} else {
			fresh = append(fresh, e)
		}
	}
	before := len(ix.Entries)
	if len(ch.gone) > 0 {
		ix.Entries = slices.DeleteFunc(ix.Entries, func(e Entry) bool {
			if ch.gone[e.name] && !e.skip {
				gone = append(gone, e.name)
			}
			return ch.gone[e.name]
		})
	}
	if before-len(ix.Entries) != len(ch.gone) || len(fresh) != ch.fresh {
		return nil, errors.New("the index is of another commit")
	}
	ix.insert(fresh)
	return gone, nil
}

// insert adds entries, which are sorted by name and not in the index.
func (ix *Index) insert(fresh []Entry) {
	old := len(ix.Entries)
	ix.Entries = append(ix.Entries, fresh...)
	for to := len(ix.Entries) - 1; len(fresh) > 0; to-- { // from the end, so that none is overwritten before it is moved
		last := len(fresh) - 1
		if old > 0 && ix.Entries[old-1].name > fresh[last].name {
			old--
			ix.Entries[to] = ix.Entries[old]
		} else {
			ix.Entries[to], fresh = fresh[last], fresh[:last]
		}
	}
}

// change updates the cache to the trees of the commit with the tree ID tree.
func (t *treeCache) change(ch *Changes, tree string) (err error) {
	if t.id, err = hex.DecodeString(tree); err != nil {
		return err
	}
	for _, dir := range ch.goneDirs {
		t.remove(dir)
	}
	for _, d := range ch.dirs {
		id, err := hex.DecodeString(d.id)
		if err != nil {
			return err
		}
		if !t.set(d.name, id) {
			return fmt.Errorf("the directory above %q is unknown", d.name)
		}
	}
	for name := range ch.gone {
		t.count(name, -1)
	}
	for _, a := range ch.added {
		if a.fresh {
			t.count(a.name, 1)
		}
	}
	return nil
}
