package hostile

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
)

// Types of a pack's entries.
const (
	packCommit   = 1
	packTree     = 2
	packBlob     = 3
	packOfsDelta = 6
)

// packer writes a pack entry by entry, without checks.
type packer struct {
	bytes.Buffer
	zip *zlib.Writer
}

func newPacker(entries uint32) *packer {
	p := &packer{}
	p.zip, _ = zlib.NewWriterLevel(io.Discard, zlib.BestCompression) // the level is valid
	p.WriteString("PACK")
	binary.Write(p, binary.BigEndian, [2]uint32{2, entries})
	return p
}

// add writes an object, and returns its position. size is the length of content.
func (p *packer) add(kind int, size int64, content io.Reader) (at int) {
	at = p.Len()
	p.header(kind, size)
	p.deflate(content)
	return at
}

// delta writes an object as a delta against the one at base.
func (p *packer) delta(base int, delta []byte) (at int) {
	at = p.Len()
	p.header(packOfsDelta, int64(len(delta)))
	back := at - base
	offset := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		offset = append([]byte{0x80 | byte(back&0x7f)}, offset...)
	}
	p.Write(offset)
	p.deflate(bytes.NewReader(delta))
	return at
}

// chains writes a blob of size zeros, and n deltas of the same size, in chains of the given length.
func (p *packer) chains(size int64, n, length int) {
	zeros := p.add(packBlob, size, io.LimitReader(zero{}, size))
	base := zeros
	for i := range n {
		if i%length == 0 {
			base = zeros
		}
		base = p.delta(base, shifted(size, i))
	}
}

func (p *packer) header(kind int, size int64) {
	first := byte(kind<<4) | byte(size&0x0f)
	if size >>= 4; size > 0 {
		first |= 0x80
	}
	p.WriteByte(first)
	if size > 0 {
		p.Write(varint(size))
	}
}

func (p *packer) deflate(content io.Reader) {
	p.zip.Reset(&p.Buffer)
	io.Copy(p.zip, content) // into memory
	p.zip.Close()
}

// finish appends the checksum, and returns the whole pack.
func (p *packer) finish() []byte {
	sum := sha1.Sum(p.Bytes())
	p.Write(sum[:])
	return p.Bytes()
}

// varint encodes a size in a pack or in a delta: seven bits per byte, the lowest first.
func varint(n int64) []byte { return binary.AppendUvarint(nil, uint64(n)) }

// shifted returns a delta between two objects of size bytes: the result is the number n, followed
// by the start of the base.
func shifted(size int64, n int) []byte {
	d := append(varint(size), varint(size)...)
	mark := fmt.Sprintf("%08x", n)
	d = append(append(d, byte(len(mark))), mark...)
	const most = 1<<24 - 1 // bytes of one copy instruction
	left := size - int64(len(mark))
	for at := int64(0); left > 0; {
		length := min(left, most)
		op := byte(0x80)
		var bytes []byte
		for i := range 4 {
			if b := byte(at >> (8 * i)); b != 0 {
				op |= 1 << i
				bytes = append(bytes, b)
			}
		}
		for i := range 3 {
			if b := byte(length >> (8 * i)); b != 0 {
				op |= 1 << (4 + i)
				bytes = append(bytes, b)
			}
		}
		d = append(append(d, op), bytes...)
		at, left = at+length, left-length
	}
	return d
}
