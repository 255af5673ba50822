package changes

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
)

const (
	// runChanges and runBytes bound the changes, and the bytes of their paths, that a list has in
	// memory: some 1 MiB, because many workspaces are inspected at a time.
	runChanges, runBytes = 8192, 512 << 10
	// runBuffer is the size of the buffer for each run while a list is read. There are at most some 60 runs.
	runBuffer = 4 << 10
)

// list has changes in the order of their paths. It keeps a few in memory, and writes more, as sorted
// runs, to a file that has no name. It is not safe for concurrent use.
type list struct {
	dir   string // for the file
	count int    // of all that were added, also if they replace others
	run   []Change
	bytes int // of the paths in run
	total int // of all paths
	file  *os.File
	ends  []int64 // of the runs in file
}

// add adds a change. Of those with one path the last one counts.
func (l *list) add(c Change) error {
	l.run, l.count = append(l.run, c), l.count+1
	l.bytes, l.total = l.bytes+len(c.Path), l.total+len(c.Path)
	if len(l.run) < runChanges && l.bytes < runBytes {
		return nil
	}
	return l.flush()
}

// flush writes the changes in memory to the file.
func (l *list) flush() (err error) {
	if l.file == nil {
		if l.file, err = unnamed(l.dir); err != nil {
			return fmt.Errorf("keep a list of changes: %w", err)
		}
	}
	l.sort()
	var at int64
	if len(l.ends) > 0 {
		at = l.ends[len(l.ends)-1]
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(l.file, at), 64<<10)
	for _, c := range l.run {
		head := binary.AppendUvarint([]byte{kindNumber(c.Kind)}, uint64(len(c.Path)))
		at += int64(len(head) + len(c.Path))
		w.Write(head) // the writer keeps its first error
		w.WriteString(c.Path)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("keep a list of changes: %w", err)
	}
	l.ends = append(l.ends, at)
	clear(l.run)
	l.run, l.bytes = l.run[:0], 0
	return nil
}

// unnamed makes a file without a name.
func unnamed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "changes-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// sort sorts the changes in memory, and leaves of those with one path the last one.
func (l *list) sort() {
	slices.SortStableFunc(l.run, func(a, b Change) int { return cmp.Compare(a.Path, b.Path) })
	n := 0
	for i, c := range l.run {
		if i+1 == len(l.run) || l.run[i+1].Path != c.Path {
			l.run[n] = c
			n++
		}
	}
	clear(l.run[n:])
	l.run = l.run[:n]
}

// all yields the changes by path, each path once. After an error it ends.
func (l *list) all() iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		l.sort()
		heads := []*head{{next: inMemory(l.run)}} // the newest run first
		for i := len(l.ends) - 1; i >= 0; i-- {
			var begin int64
			if i > 0 {
				begin = l.ends[i-1]
			}
			r := bufio.NewReaderSize(io.NewSectionReader(l.file, begin, l.ends[i]-begin), runBuffer)
			heads = append(heads, &head{next: func() (Change, error) { return readChange(r) }})
		}
		for _, h := range heads {
			h.advance()
		}
		for {
			var least *head
			for _, h := range heads {
				switch {
				case h.err != nil && h.err != io.EOF:
					yield(Change{}, fmt.Errorf("keep a list of changes: %w", h.err))
					return
				case h.err == nil && (least == nil || h.now.Path < least.now.Path):
					least = h
				}
			}
			if least == nil || !yield(least.now, nil) {
				return
			}
			path := least.now.Path
			for _, h := range heads { // also older changes of this path
				if h.err == nil && h.now.Path == path {
					h.advance()
				}
			}
		}
	}
}

// head is where the reading of a run is.
type head struct {
	next func() (Change, error)
	now  Change
	err  error // io.EOF at the end
}

func (h *head) advance() { h.now, h.err = h.next() }

func inMemory(run []Change) func() (Change, error) {
	return func() (c Change, err error) {
		if len(run) == 0 {
			return c, io.EOF
		}
		c, run = run[0], run[1:]
		return c, nil
	}
}

// kinds are numbered in the file.
var kinds = []Kind{Added, Changed, Deleted}

func kindNumber(k Kind) byte { return byte(slices.Index(kinds, k)) }

// readChange reads a change of a run. The error is io.EOF at its end.
func readChange(r *bufio.Reader) (c Change, err error) {
	kind, err := r.ReadByte()
	if err != nil {
		return c, err
	}
	size, err := binary.ReadUvarint(r)
	if err != nil || int(kind) >= len(kinds) || size > maxPath {
		return c, io.ErrUnexpectedEOF
	}
	path := make([]byte, size)
	_, err = io.ReadFull(r, path)
	return Change{Path: string(path), Kind: kinds[kind]}, err
}

// close gives the file back. A nil list has none.
func (l *list) close() {
	if l != nil && l.file != nil {
		l.file.Close()
	}
}
