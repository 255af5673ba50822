package git

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// The index as git writes it here (gitformat-index, versions 2 and 3): a header
// of 12 bytes, the entries, extensions, and a hash over all of it. An entry is 40
// bytes of stat data, the object ID, 2 or 4 bytes of flags, the name, and 1 to 8
// NULs up to a multiple of 8.
const (
	indexHeader   = 12
	indexStat     = 40
	flagExtended  = 0x4000 // in the first two bytes of flags
	flagSkipTree  = 0x4000 // in the second two: not in the work tree
	modeMask      = 0xf000
	modeRegular   = 0x8000
	modeSubmodule = 0xe000
)

// setBack is how far the times of a tree's files are set back: git compares
// whole seconds, and the clock may be read at the end of one.
const setBack = 2 * time.Second

// SettleTimes sets the modification times of all files of a checkout two seconds
// back, and writes what lstat says of them then into its index.
//
// No file of a tree may carry the current second: git compares whole seconds, so
// a same-size edit in the second of the checkout would be invisible to git
// status, and an index as old as its files makes every container read them all
// at its first one. git itself could refresh the index, by reading every file
// once more, through every filter; here nothing but the times has changed.
func SettleTimes(c Checkout) error {
	sum := c.newHash()
	data, entries, err := c.readIndex(sum.Size())
	if err != nil || data == nil {
		return err
	}
	dir, err := os.OpenFile(c.Dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	then := unix.NsecToTimespec(time.Now().Add(-setBack).UnixNano())

	var g errgroup.Group
	workers := max(1, min(runtime.NumCPU(), 8))
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(entries); i += workers {
				if !entries[i].isFile() {
					continue
				}
				if err := entries[i].settle(int(dir.Fd()), then); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	body := data[:len(data)-sum.Size()]
	sum.Write(body)
	// In place: nobody has seen this tree yet, and it is built again when this
	// does not come to its end.
	return os.WriteFile(filepath.Join(c.gitDir(), Index), sum.Sum(body), 0o644)
}

// Tracks reports whether the commit of a checkout has a file of that name, or
// one below it, be it in the cone or not.
func Tracks(c Checkout, name string) (bool, error) {
	_, entries, err := c.readIndex(c.newHash().Size())
	for _, e := range entries {
		if below(e.name, name) {
			return true, nil
		}
	}
	return false, err
}

// newHash returns the hash of the repository's format.
func (c Checkout) newHash() hash.Hash {
	if Format(c.Commit) == SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// readIndex reads the index of a checkout; an empty commit has none.
func (c Checkout) readIndex(idSize int) ([]byte, []indexEntry, error) {
	path := filepath.Join(c.gitDir(), Index)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	entries, err := indexEntries(data, idSize)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return data, entries, nil
}

// indexEntry is an entry of an index.
type indexEntry struct {
	stat []byte // within the index's data
	id   []byte
	name string
	skip bool // outside of the cone: not in the work tree
}

func (e indexEntry) mode() uint32 { return binary.BigEndian.Uint32(e.stat[24:]) }

func (e indexEntry) size() uint32 { return binary.BigEndian.Uint32(e.stat[36:]) }

// isSubmodule reports whether it is a submodule's commit.
func (e indexEntry) isSubmodule() bool { return e.mode()&modeMask == modeSubmodule }

// isFile reports whether there is a file, or a symlink, in the work tree for it.
func (e indexEntry) isFile() bool { return !e.skip && !e.isSubmodule() }

func (e indexEntry) settle(dir int, t unix.Timespec) error {
	if err := unix.UtimesNanoAt(dir, e.name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "utimensat", Path: e.name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, e.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &os.PathError{Op: "fstatat", Path: e.name, Err: err}
	}
	for i, v := range []int64{st.Ctim.Sec, st.Ctim.Nsec, st.Mtim.Sec, st.Mtim.Nsec} {
		binary.BigEndian.PutUint32(e.stat[4*i:], uint32(v))
	}
	// Not what it was where a pointer was replaced by what it points to.
	binary.BigEndian.PutUint32(e.stat[36:], uint32(st.Size))
	return nil
}

// indexEntries finds the files in an index whose object IDs have idSize bytes.
func indexEntries(data []byte, idSize int) ([]indexEntry, error) {
	if len(data) < indexHeader+idSize || string(data[:4]) != "DIRC" {
		return nil, errors.New("not an index")
	}
	version := binary.BigEndian.Uint32(data[4:])
	if version != 2 && version != 3 {
		return nil, fmt.Errorf("index version %d is not known here", version)
	}
	n := binary.BigEndian.Uint32(data[8:])
	rest := data[indexHeader : len(data)-idSize]
	var entries []indexEntry
	for range n {
		if len(rest) < indexStat+idSize+2 {
			return nil, errors.New("the index is cut short")
		}
		stat, flags := rest[:indexStat], rest[indexStat+idSize:]
		head, skip := indexStat+idSize+2, false
		if binary.BigEndian.Uint16(flags)&flagExtended != 0 {
			if len(flags) < 4 {
				return nil, errors.New("the index is cut short")
			}
			skip = binary.BigEndian.Uint16(flags[2:])&flagSkipTree != 0
			head += 2
		}
		end := bytes.IndexByte(rest[head:], 0)
		size := (head + end + 8) &^ 7
		if end < 0 || size > len(rest) {
			return nil, errors.New("the index is cut short")
		}
		entries = append(entries, indexEntry{
			stat: stat, id: rest[indexStat : indexStat+idSize], name: string(rest[head : head+end]), skip: skip,
		})
		rest = rest[size:]
	}
	return entries, nil
}
