package gitindex

import (
	"bytes"
	"cmp"
	"path"
	"strings"
)

// Since calls f for each file of the work tree. same reports whether an earlier index of the same format has the same
// file: with the same mode, object ID and size. If a .gitattributes that may apply to the file differs, it must also have
// the same modification time, because a checkout keeps the time of a file whose bytes are the same. was is that entry then.
//
// It returns the submodules that both indexes have. data is the earlier index, nil for one without entries. times is the
// index with the times that the checkout gave the same files, nil if that is data. Neither is retained.
func (ix *Index) Since(data, times []byte, f func(e, was Entry, same bool)) (modules map[string]bool, err error) {
	changed := make(map[string]bool)
	if err := ix.join(data, func(e, other Entry) { noteAttributes(changed, e, other) }); err != nil {
		return nil, err
	}
	kept := make(map[string]bool)
	if times == nil {
		times = data
	}
	if len(changed) > 0 {
		if err := ix.join(times, func(e, other Entry) {
			if e.alike(other) && e.Mtime() == other.Mtime() {
				kept[e.name] = true
			}
		}); err != nil {
			return nil, err
		}
	}
	modules = make(map[string]bool)
	return modules, ix.join(data, func(e, other Entry) {
		switch {
		case e.name == "":
		case e.IsFile():
			f(e, other, e.alike(other) && e.Size() == other.Size() && (kept[e.name] || !AnyAbove(changed, e.name)))
		case e.IsSubmodule() && other.name != "" && other.IsSubmodule():
			modules[e.name] = true
		}
	})
}

// At returns the entry with a name, and those below it.
func (ix *Index) At(name string) []Entry {
	if i, ok := ix.search(name); ok {
		return ix.Entries[i : i+1]
	}
	first, _ := ix.search(name + "/")
	last, _ := ix.search(name + "0") // which follows all that is below
	return ix.Entries[first:last]
}

// AnyAbove reports whether one of the directories is above a file. "." is the top.
func AnyAbove(dirs map[string]bool, name string) bool {
	for len(dirs) > 0 && name != "." {
		if name = path.Dir(name); dirs[name] {
			return true
		}
	}
	return false
}

// noteAttributes adds the directory of two entries that differ to changed if they are a .gitattributes.
func noteAttributes(changed map[string]bool, e, other Entry) {
	if name := cmp.Or(e.name, other.name); isAttributes(name) && !e.alike(other) {
		changed[strings.Clone(path.Dir(name))] = true
	}
}

// alike reports whether both entries exist, have the same mode and object ID, and are both in the work tree or not.
func (e Entry) alike(other Entry) bool {
	return e.name == other.name && e.mode() == other.mode() && bytes.Equal(e.ID(), other.ID()) && e.skip == other.skip
}

// join calls f for the entries of both indexes in the order of their names: with the zero value for an entry that one
// of them lacks. It does not retain data, which is nil for an index without entries.
func (ix *Index) join(data []byte, f func(e, other Entry)) (err error) {
	var n uint32
	if data != nil {
		if n, data, err = parseHeader(data, ix.idSize); err != nil {
			return err
		}
	}
	rest := ix.Entries
	for range n {
		other, ok := nextEntry(data, ix.idSize)
		if !ok {
			return errCutShort
		}
		data = data[len(other.raw):]
		for len(rest) > 0 && rest[0].name < other.name {
			f(rest[0], Entry{})
			rest = rest[1:]
		}
		if len(rest) == 0 || rest[0].name != other.name {
			f(Entry{}, other)
			continue
		}
		f(rest[0], other)
		rest = rest[1:]
	}
	for _, e := range rest {
		f(e, Entry{})
	}
	return nil
}
