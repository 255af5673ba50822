package gitindex

import (
	"bufio"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// An index is a header of 12 bytes, the entries, extensions, and a hash of all that. An
// entry is 40 bytes of stat data, the object ID, 2 or 4 bytes of flags, the name, and 1
// to 8 NULs up to a multiple of 8. An extension is 4 letters, its size, and its data. If
// the first letter is lower-case, a reader that does not know the extension must not read
// the index.
const (
	indexHeader    = 12
	indexStat      = 40
	indexVersion   = 2
	indexExtended  = 3      // the version with entries that have 4 bytes of flags
	flagExtended   = 0x4000 // in the first two bytes of flags
	flagLength     = 0x0fff // of the name, or more, in the first two
	flagSkipTree   = 0x4000 // in the second two: not in the work tree
	extensionCache = "TREE"
	modeMask       = 0xf000
	modeRegular    = 0x8000
	modeSubmodule  = 0xe000
)

// Attributes is the name of git's attributes files.
const Attributes = ".gitattributes"

var errCutShort = errors.New("the index is cut short")

// Index is an index in memory. It is not safe for concurrent use.
type Index struct {
	Entries []Entry // by name
	trees   *treeCache
	idSize  int
}

// newHash returns the hash for object IDs of idSize bytes.
func newHash(idSize int) hash.Hash {
	if idSize == sha256.Size {
		return sha256.New()
	}
	return sha1.New()
}

// Parse reads an index whose object IDs have idSize bytes, 20 or 32. It retains data, and
// does not verify its hash.
func Parse(data []byte, idSize int) (*Index, error) {
	n, data, err := parseHeader(data, idSize)
	if err != nil {
		return nil, err
	}
	ix := &Index{Entries: make([]Entry, 0, min(int(n), len(data)/(indexStat+idSize))), idSize: idSize}
	for range n {
		e, ok := nextEntry(data, idSize)
		if !ok {
			return nil, errCutShort
		}
		ix.Entries = append(ix.Entries, e)
		data = data[len(e.raw):]
	}
	return ix, ix.parseExtensions(data)
}

// parseHeader checks an index's header, and returns the number of entries and the data after the
// header.
func parseHeader(data []byte, idSize int) (n uint32, rest []byte, err error) {
	if len(data) < indexHeader+idSize || string(data[:4]) != "DIRC" {
		return 0, nil, errors.New("not an index")
	}
	if v := binary.BigEndian.Uint32(data[4:]); v != indexVersion && v != indexExtended {
		return 0, nil, fmt.Errorf("index version %d is not supported", v)
	}
	return binary.BigEndian.Uint32(data[8:]), data[indexHeader : len(data)-idSize], nil
}

func (ix *Index) parseExtensions(data []byte) (err error) {
	for len(data) > 0 {
		if len(data) < 8 || uint64(len(data)-8) < uint64(binary.BigEndian.Uint32(data[4:])) {
			return errCutShort
		}
		name, size := string(data[:4]), int(binary.BigEndian.Uint32(data[4:]))
		switch {
		case name == extensionCache:
			if ix.trees, err = parseTreeCache(data[8:8+size], ix.idSize); err != nil {
				return err
			}
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("index extension %q is not supported", name)
		}
		data = data[8+size:]
	}
	return nil
}

// New returns an index without entries, whose object IDs have idSize bytes.
func New(idSize int) *Index { return &Index{idSize: idSize} }

// Add appends an entry without stat data: info is its mode, object ID and stage, as git
// ls-files --stage prints them, name its path.
func (ix *Index) Add(info, name string) error {
	fields := strings.Fields(info)
	if len(fields) != 3 || fields[2] != "0" || name == "" {
		return fmt.Errorf("ls-files: unexpected entry %q of %q", info, name)
	}
	mode, err := strconv.ParseUint(fields[0], 8, 16)
	id, idErr := hex.DecodeString(fields[1])
	if err != nil || idErr != nil || len(id) != ix.idSize {
		return fmt.Errorf("ls-files: unexpected entry %q of %q", info, name)
	}
	raw := make([]byte, indexStat, indexStat+len(id)+2+len(name)+8)
	binary.BigEndian.PutUint32(raw[24:], uint32(mode))
	raw = append(raw, id...)
	raw = binary.BigEndian.AppendUint16(raw, uint16(min(len(name), flagLength)))
	raw = append(raw, name...)
	raw = append(raw, make([]byte, 8-len(raw)%8)...)
	e, _ := nextEntry(raw, ix.idSize) // can't fail
	ix.Entries = append(ix.Entries, e)
	return nil
}

// Encode writes the index as git would.
func (ix *Index) Encode(to io.Writer) error {
	sum := newHash(ix.idSize)
	summed := make(chan error, 1)
	go func() { summed <- ix.EncodeBody(sum) }() // it takes as long as the write
	if err := errors.Join(ix.EncodeBody(to), <-summed); err != nil {
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// EncodeBody writes what Encode does, without the hash at the end.
func (ix *Index) EncodeBody(to io.Writer) error {
	w := bufio.NewWriterSize(to, 1<<20)
	number := func(n int) { w.Write(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	version := indexVersion
	if slices.ContainsFunc(ix.Entries, func(e Entry) bool { return e.skip }) {
		version = indexExtended
	}
	w.WriteString("DIRC")
	number(version)
	number(len(ix.Entries))
	for _, e := range ix.Entries {
		w.Write(e.encoded())
	}
	if ix.trees != nil {
		cache := ix.trees.append(nil, "")
		w.WriteString(extensionCache)
		number(len(cache))
		w.Write(cache)
	}
	return w.Flush() // also the error of an earlier write
}

// Tree returns the ID of the index's tree, nil if the index does not have it.
func (ix *Index) Tree() []byte {
	if ix.trees == nil {
		return nil
	}
	return ix.trees.id
}

// Has reports whether the index has a file of that name, or one below it, in the work
// tree or not.
func (ix *Index) Has(name string) bool {
	return slices.ContainsFunc(ix.Entries, func(e Entry) bool { return below(e.name, name) })
}

// Named returns the entries with these names.
func (ix *Index) Named(names map[string]bool) (entries []Entry) {
	for name := range names {
		if i, ok := ix.search(name); ok {
			entries = append(entries, ix.Entries[i])
		}
	}
	return entries
}

// HasFile reports whether the work tree has a file of that name.
func (ix *Index) HasFile(name string) bool {
	i, ok := ix.search(name)
	return ok && ix.Entries[i].IsFile()
}

// HasDir reports whether the work tree has a directory of that name: that of a submodule, or
// one with files.
func (ix *Index) HasDir(dir string) bool {
	if i, ok := ix.search(dir); ok && ix.Entries[i].IsSubmodule() {
		return true
	}
	for i, _ := ix.search(dir + "/"); i < len(ix.Entries) && strings.HasPrefix(ix.Entries[i].name, dir+"/"); i++ {
		if !ix.Entries[i].skip {
			return true
		}
	}
	return false
}

// search returns the position of the entry with a name, or where it would be.
func (ix *Index) search(name string) (int, bool) {
	return slices.BinarySearchFunc(ix.Entries, name, func(e Entry, name string) int { return strings.Compare(e.name, name) })
}

// Attributes returns the .gitattributes that are regular files of the work tree. odd reports
// whether the work tree has one that is not.
func (ix *Index) Attributes() (entries []Entry, odd bool) {
	for _, e := range ix.Entries {
		switch {
		case !isAttributes(e.name) || !e.IsFile():
		case e.IsRegular():
			entries = append(entries, e)
		default:
			odd = true
		}
	}
	return entries, odd
}

func isAttributes(name string) bool {
	return strings.HasSuffix(name, Attributes) && path.Base(name) == Attributes
}

// LeaveOut marks the files outside of a cone as not in the work tree.
func (ix *Index) LeaveOut(cone Cone) {
	if cone == nil {
		return
	}
	selected := cone.Selector()
	for i := range ix.Entries {
		if e := &ix.Entries[i]; !selected(e.name) {
			e.skip = true
		}
	}
}

// Names returns the sorted names of the files in the work tree.
func (ix *Index) Names() (names []string) {
	for _, e := range ix.Entries {
		if !e.skip {
			names = append(names, e.name)
		}
	}
	return names
}

// CopyStats copies modification times and sizes from another index of the same format, for
// files that are in both work trees with the same mode and object ID. It returns the
// directories whose .gitattributes differ. It does not retain data.
func (ix *Index) CopyStats(data []byte) (changed map[string]bool, err error) {
	changed = make(map[string]bool)
	return changed, ix.join(data, func(e, other Entry) {
		noteAttributes(changed, e, other)
		if e.alike(other) && e.IsFile() {
			e.copyStat(other)
		}
	})
}
