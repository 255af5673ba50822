package git

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// The index as git writes it here (gitformat-index, versions 2 and 3): a header
// of 12 bytes, the entries, extensions, and a hash over all of it. An entry is 40
// bytes of stat data, the object ID, 2 or 4 bytes of flags, the name, and 1 to 8
// NULs up to a multiple of 8. An extension is 4 letters and the size of what
// follows; a lower-case first letter says that who
// does not know it must not read the index.
const (
	indexHeader    = 12
	indexStat      = 40
	indexVersion   = 2
	indexExtended  = 3      // the version with entries that have 4 bytes of flags
	flagExtended   = 0x4000 // in the first two bytes of flags
	flagSkipTree   = 0x4000 // in the second two: not in the work tree
	extensionCache = "TREE"
	modeMask       = 0xf000
	modeRegular    = 0x8000
	modeSubmodule  = 0xe000
)

// indexMemory is how many bytes a process takes for each of an index that it reads, at
// most, with what it took before.
const indexMemory = 3

// maxIndex bounds what is read of an index: two million files or more, several times
// those of the largest repositories that are not one company's everything.
const maxIndex = 256 << 20

var errCutShort = errors.New("the index is cut short")

// Index is the index of a checkout, in memory: what it is of, and which of its
// files were written. It is not safe for concurrent use.
type Index struct {
	checkout Checkout
	entries  []indexEntry    // by name
	dirs     *treeCache      // nil: not known
	written  map[string]bool // nil: all
	// unencoded are the first of the files that git could not encode.
	unencoded []Unencoded
}

// indexEntry is an entry of an index. There can be millions, so it holds nothing
// twice.
type indexEntry struct {
	raw  []byte // as it is in the file
	name string // shares raw's memory: nothing writes there
	head uint8  // bytes before the flags
	skip bool   // outside of the cone: not in the work tree
}

// id returns the object ID, within raw.
func (e indexEntry) id() []byte { return e.raw[indexStat:e.head] }

// flags returns the first two bytes of flags.
func (e indexEntry) flags() uint16 { return binary.BigEndian.Uint16(e.raw[e.head:]) }

func (e indexEntry) mode() uint32 { return binary.BigEndian.Uint32(e.raw[24:]) }

// mtime returns the modification time, in nanoseconds since 1970; 0: not known.
func (e indexEntry) mtime() int64 {
	return int64(binary.BigEndian.Uint32(e.raw[8:]))*1e9 + int64(binary.BigEndian.Uint32(e.raw[12:]))
}

// size returns the low bits of the size that the file has.
func (e indexEntry) size() uint32 { return binary.BigEndian.Uint32(e.raw[36:]) }

// take copies time and size of another entry, for Settle.
func (e indexEntry) take(of indexEntry) {
	copy(e.raw[8:16], of.raw[8:16])
	copy(e.raw[36:40], of.raw[36:40])
}

// forget undoes take.
func (e indexEntry) forget() {
	clear(e.raw[8:16])
	clear(e.raw[36:40])
}

// isSubmodule reports whether it is a submodule's commit.
func (e indexEntry) isSubmodule() bool { return e.mode()&modeMask == modeSubmodule }

// isFile reports whether there is a file, or a symlink, in the work tree for it.
func (e indexEntry) isFile() bool { return !e.skip && !e.isSubmodule() }

// isRegular reports whether there is a regular file in the work tree for it.
func (e indexEntry) isRegular() bool { return !e.skip && e.mode()&modeMask == modeRegular }

// encoded is the entry as it is in a file: raw, or with another byte of flags that
// says that its file is not in the work tree.
func (e indexEntry) encoded() []byte {
	if !e.skip || e.flags()&flagExtended != 0 {
		return e.raw
	}
	raw := make([]byte, 0, len(e.raw)+8)
	raw = append(raw, e.raw[:e.head]...)
	raw = binary.BigEndian.AppendUint16(raw, e.flags()|flagExtended)
	raw = binary.BigEndian.AppendUint16(raw, flagSkipTree)
	raw = append(raw, e.name...)
	return append(raw, make([]byte, 8-len(raw)%8)...)
}

// newHash returns the hash of the repository's format.
func (c Checkout) newHash() hash.Hash {
	if Format(c.Commit) == SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// indexSize returns how many bytes the index of a checkout has, zero if there is none.
func (c Checkout) indexSize() (int64, error) {
	info, err := os.Lstat(filepath.Join(c.gitDir(), IndexFile))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// readIndex reads an index of a checkout's repository.
func (c Checkout) readIndex(name string) (*Index, error) {
	path := filepath.Join(c.gitDir(), name)
	info, err := os.Lstat(path)
	if err == nil && info.Size() > maxIndex {
		err = fmt.Errorf("the commit %s has too many files: their index takes %d MiB, allowed are %d", c.Commit, info.Size()>>20, maxIndex>>20)
	}
	if err == nil && info.Size() > memoryLimit()/indexMemory {
		err = errMemory
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	ix, err := parseIndex(data, c.newHash().Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	ix.checkout = c
	return ix, nil
}

// parseIndex reads an index whose object IDs have idSize bytes. It keeps data.
func parseIndex(data []byte, idSize int) (*Index, error) {
	if len(data) < indexHeader+idSize || string(data[:4]) != "DIRC" {
		return nil, errors.New("not an index")
	}
	version := binary.BigEndian.Uint32(data[4:])
	if version != indexVersion && version != indexExtended {
		return nil, fmt.Errorf("index version %d is not known here", version)
	}
	n := binary.BigEndian.Uint32(data[8:])
	at, end := indexHeader, len(data)-idSize
	ix := &Index{entries: make([]indexEntry, 0, min(int(n), len(data)/(indexStat+idSize)))}
	for range n {
		e, ok := entryAt(data[:end], at, idSize)
		if !ok {
			return nil, errCutShort
		}
		ix.entries = append(ix.entries, e)
		at += len(e.raw)
	}
	return ix, ix.parseExtensions(data[at:end], idSize)
}

// entryAt returns the entry that begins at an offset; ok is false if it does not end
// within data. It keeps data.
func entryAt(data []byte, at, idSize int) (e indexEntry, ok bool) {
	name := at + indexStat + idSize + 2
	if name > len(data) {
		return e, false
	}
	skip := false
	if binary.BigEndian.Uint16(data[name-2:])&flagExtended != 0 {
		if name += 2; name > len(data) {
			return e, false
		}
		skip = binary.BigEndian.Uint16(data[name-2:])&flagSkipTree != 0
	}
	length := bytes.IndexByte(data[name:], 0)
	next := at + (name-at+length+8)&^7
	if length < 0 || next > len(data) {
		return e, false
	}
	return indexEntry{
		raw: data[at:next:next], name: unsafe.String(&data[name], length), head: uint8(indexStat + idSize), skip: skip,
	}, true
}

func (ix *Index) parseExtensions(data []byte, idSize int) (err error) {
	for len(data) > 0 {
		if len(data) < 8 || uint64(len(data)-8) < uint64(binary.BigEndian.Uint32(data[4:])) {
			return errCutShort
		}
		name, size := string(data[:4]), int(binary.BigEndian.Uint32(data[4:]))
		switch {
		case name == extensionCache:
			if ix.dirs, err = parseTreeCache(data[8:8+size], idSize); err != nil {
				return err
			}
		case name[0] < 'A' || name[0] > 'Z':
			return fmt.Errorf("index extension %q is not known here", name)
		}
		data = data[8+size:]
	}
	return nil
}

// encode writes the index as git would.
func (ix *Index) encode(to io.Writer) error {
	sum := ix.checkout.newHash()
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<20)
	word := func(n int) { w.Write(binary.BigEndian.AppendUint32(nil, uint32(n))) }
	version := indexVersion
	if slices.ContainsFunc(ix.entries, func(e indexEntry) bool { return e.skip }) {
		version = indexExtended
	}
	w.WriteString("DIRC")
	word(version)
	word(len(ix.entries))
	for _, e := range ix.entries {
		w.Write(e.encoded())
	}
	if cache := ix.dirs.bytes(); cache != nil {
		w.WriteString(extensionCache)
		word(len(cache))
		w.Write(cache)
	}
	if err := w.Flush(); err != nil { // or of a write before
		return err
	}
	_, err := to.Write(sum.Sum(nil))
	return err
}

// write makes the file of the index, a new one: what is there may be another layer's.
// Nobody has seen this tree yet, and it is built again when this does not come to
// its end.
func (ix *Index) write() error {
	c := ix.checkout
	path := filepath.Join(c.gitDir(), IndexFile)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(ix.encode(&steadyFile{File: f}), f.Close())
}

// Tracks reports whether the commit of a checkout has a file of that name, or
// one below it, be it in the cone or not.
func (ix *Index) Tracks(name string) bool {
	dir := name + "/"
	return slices.ContainsFunc(ix.entries, func(e indexEntry) bool { return e.name == name || strings.HasPrefix(e.name, dir) })
}

// wrote reports whether an entry's file was written by the checkout.
func (ix *Index) wrote(e indexEntry) bool {
	return e.isFile() && (ix.written == nil || ix.written[e.name])
}

const (
	// setBack is how far the times of a tree's files are set back: git compares
	// whole seconds, and the clock may be read at the end of one.
	setBack = 2 * time.Second
	// clockTick is how far the time that the kernel gives a file may be behind the
	// clock: less than a tick, of which there are at least 100 a second.
	clockTick = 20 * time.Millisecond
)

// Settle gives the files that the checkout has written the times that their entries
// have already, sets those two seconds back that are of the current second then, and
// writes the index, with what lstat says of all that were written.
//
// No file of a tree may carry the current second: git compares whole seconds, so
// a same-size edit in the second of the checkout would be invisible to git
// status, and an index as old as its files makes every container read them all
// at its first one. git itself could refresh the index, by reading every file
// once more, through every filter; here nothing but the times has changed.
func (ix *Index) Settle() error {
	c := ix.checkout
	dir, err := os.OpenFile(c.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	now := time.Now()
	var g errgroup.Group
	workers := max(1, min(runtime.NumCPU(), 8))
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(ix.entries); i += workers {
				if !ix.wrote(ix.entries[i]) {
					continue
				}
				if err := ix.entries[i].settle(int(dir.Fd()), now); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ix.write()
}

// settle notes what lstat says of the entry's file, which is older than now then.
func (e indexEntry) settle(dir int, now time.Time) error {
	var st unix.Stat_t
	stat := func() error {
		if err := unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("fstatat %q: %w", e.name, err)
		}
		return nil
	}
	current := now.Add(-clockTick).Unix()
	to := e.mtime()
	// One that is not in the past is of a clock that was wrong.
	has := to != 0 && to/int64(time.Second) < current
	if !has {
		to = now.Add(-setBack).UnixNano()
		if err := stat(); err != nil {
			return err
		}
	}
	if has || st.Mtim.Sec >= current {
		t := unix.NsecToTimespec(to)
		if err := unix.UtimesNanoAt(dir, e.name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("utimensat %q: %w", e.name, err)
		}
		if err := stat(); err != nil {
			return err
		}
	}
	// gitformat-index; what is larger than its field is cut off there too.
	for i, v := range []uint32{
		uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec), uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec), uint32(st.Dev), uint32(st.Ino),
	} {
		binary.BigEndian.PutUint32(e.raw[4*i:], v)
	}
	for i, v := range []uint32{st.Uid, st.Gid, uint32(st.Size)} { // after the mode
		binary.BigEndian.PutUint32(e.raw[28+4*i:], v)
	}
	return nil
}
