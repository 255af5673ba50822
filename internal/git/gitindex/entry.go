package gitindex

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Entry is an entry of an index. It refers to the index's data: a copy is the same entry.
// There can be millions, so it holds nothing twice.
type Entry struct {
	raw  []byte // as in the file
	name string // shares raw's memory, and is never written to
	head uint8  // bytes before the flags
	skip bool
}

// Name returns the path of the entry's file.
func (e Entry) Name() string { return e.name }

// ID returns the object ID, which the caller must not modify.
func (e Entry) ID() []byte { return e.raw[indexStat:e.head] }

// flags returns the first two bytes of flags.
func (e Entry) flags() uint16 { return binary.BigEndian.Uint16(e.raw[e.head:]) }

func (e Entry) mode() uint32 { return binary.BigEndian.Uint32(e.raw[24:]) }

// Mtime returns the modification time in nanoseconds since 1970, 0 if unknown.
func (e Entry) Mtime() int64 {
	return int64(binary.BigEndian.Uint32(e.raw[8:]))*1e9 + int64(binary.BigEndian.Uint32(e.raw[12:]))
}

// Size returns the low 32 bits of the file's size.
func (e Entry) Size() uint32 { return binary.BigEndian.Uint32(e.raw[36:]) }

// SetStat sets the file's stat data. Like git, it truncates numbers that are too large
// for their field.
func (e Entry) SetStat(st *unix.Stat_t) {
	for i, v := range []uint32{
		uint32(st.Ctim.Sec), uint32(st.Ctim.Nsec), uint32(st.Mtim.Sec), uint32(st.Mtim.Nsec), uint32(st.Dev), uint32(st.Ino),
	} {
		binary.BigEndian.PutUint32(e.raw[4*i:], v)
	}
	for i, v := range []uint32{st.Uid, st.Gid, uint32(st.Size)} { // after the mode
		binary.BigEndian.PutUint32(e.raw[28+4*i:], v)
	}
}

// copyStat copies the modification time and the size of another entry.
func (e Entry) copyStat(of Entry) {
	copy(e.raw[8:16], of.raw[8:16])
	copy(e.raw[36:40], of.raw[36:40])
}

// ClearStat clears the modification time and the size.
func (e Entry) ClearStat() {
	clear(e.raw[8:16])
	clear(e.raw[36:40])
}

// IsSubmodule reports whether the entry is the commit of a submodule in the work tree.
func (e Entry) IsSubmodule() bool { return !e.skip && e.mode()&modeMask == modeSubmodule }

// IsFile reports whether the work tree has a file, or a symlink, for the entry.
func (e Entry) IsFile() bool { return !e.skip && e.mode()&modeMask != modeSubmodule }

// IsRegular reports whether the work tree has a regular file for the entry.
func (e Entry) IsRegular() bool { return !e.skip && e.IsBlob() }

// IsBlob reports whether the entry is a regular file, in the work tree or not.
func (e Entry) IsBlob() bool { return e.mode()&modeMask == modeRegular }

// encoded returns the entry as written to a file: raw, or with two more bytes of flags
// that say that its file is not in the work tree.
func (e Entry) encoded() []byte {
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

// Info returns the entry as input for git update-index -z --index-info.
func (e Entry) Info() string { return fmt.Sprintf("%o %x\t%s\x00", e.mode(), e.ID(), e.name) }

// nextEntry returns the first entry of data, which it retains; ok is false if the entry is
// incomplete.
func nextEntry(data []byte, idSize int) (e Entry, ok bool) {
	name := indexStat + idSize + 2
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
	end := (name + length + 8) &^ 7
	if length < 0 || end > len(data) {
		return e, false
	}
	return Entry{
		raw: data[:end:end], name: unsafe.String(&data[name], length), head: uint8(indexStat + idSize), skip: skip,
	}, true
}
