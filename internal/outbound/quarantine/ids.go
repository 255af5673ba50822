package quarantine

import (
	"bytes"
	"encoding/hex"
	"io"
	"iter"
	"slices"
	"sort"
)

// objectIDs are the bytes of IDs, one after the other: a list of strings would have three times their size.
type objectIDs struct {
	bytes []byte
	size  int // of one
}

func (o *objectIDs) add(id []byte) { o.bytes, _ = hex.AppendDecode(o.bytes, id) }

// at returns the bytes of one ID.
func (o *objectIDs) at(i int) []byte { return o.bytes[i*o.size : (i+1)*o.size] }

// Len, Less and Swap implement sort.Interface.
func (o *objectIDs) Len() int           { return len(o.bytes) / max(o.size, 1) }
func (o *objectIDs) Less(i, j int) bool { return bytes.Compare(o.at(i), o.at(j)) < 0 }
func (o *objectIDs) Swap(i, j int) {
	for n, a := range o.at(i) {
		b := o.at(j)
		o.at(i)[n], b[n] = b[n], a
	}
}

// sort sorts the IDs, and leaves each once.
func (o *objectIDs) sort() {
	sort.Sort(o)
	n := 0
	for i := range o.Len() {
		if n == 0 || !bytes.Equal(o.at(n-1), o.at(i)) {
			copy(o.at(n), o.at(i))
			n++
		}
	}
	o.bytes = o.bytes[:n*o.size]
}

// has reports whether sorted IDs have one.
func (o *objectIDs) has(id string) bool {
	want, err := hex.DecodeString(id)
	i := sort.Search(o.Len(), func(i int) bool { return bytes.Compare(o.at(i), want) >= 0 })
	return err == nil && i < o.Len() && bytes.Equal(o.at(i), want)
}

func (o *objectIDs) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := range slices.Chunk(o.bytes, max(o.size, 1)) {
			if !yield(hex.EncodeToString(id)) {
				return
			}
		}
	}
}

// lines returns a reader of the IDs, each in a line of its own that begins with prefix.
func (o *objectIDs) lines(prefix string) io.Reader {
	return &lineReader{n: o.Len(), add: func(line []byte, i int) []byte {
		return append(hex.AppendEncode(append(line, prefix...), o.at(i)), '\n')
	}}
}

// lineReader reads n lines, each of which add makes when it is read, because all lines would need more memory than what
// they are made of.
type lineReader struct {
	n    int
	add  func(line []byte, i int) []byte // appends line i
	next int                             // of the lines
	line []byte
	read int // of line
}

func (l *lineReader) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if l.read == len(l.line) {
			if l.next == l.n {
				return n, io.EOF
			}
			l.line = l.add(l.line[:0], l.next)
			l.next, l.read = l.next+1, 0
		}
		copied := copy(p[n:], l.line[l.read:])
		n, l.read = n+copied, l.read+copied
	}
	return n, nil
}
