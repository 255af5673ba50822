package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxListed is how many refs LsRefs returns for names that end with a slash.
	// They are compared at every mount: 200 take some 14 KB of an answer, which a
	// mount does not notice.
	MaxListed = 200
	// maxListedBytes bounds the names of these, of 300 bytes on average.
	maxListedBytes = 64 << 10
	// maxAnswer bounds the answer that is read, of which little is kept. A remote
	// that knows no prefixes, or has very many refs below one, sends all: this is a
	// million of them. One that never ends is left here.
	maxAnswer = 128 << 20
	// peeledSuffix marks, behind the name of an annotated tag, what it stands for.
	peeledSuffix = "^{}"
)

// refCollector keeps what was asked for of an answer of any length.
type refCollector struct {
	names  []string
	refs   RemoteRefs
	listed int // refs below names that end with a slash
	bytes  int // of their names
	size   int // bytes of the answer that were read
	rest   []byte
}

func newRefCollector(names []string) refCollector {
	return refCollector{names: names, refs: RemoteRefs{Format: SHA1, IDs: make(map[string]string)}}
}

// read calls next with the unread bytes until it leaves them as they are.
func (c *refCollector) read(p []byte, next func(data []byte) (rest []byte, err error)) error {
	if c.size += len(p); c.size > maxAnswer {
		return fmt.Errorf("the remote's answer has more than %d MiB", maxAnswer>>20)
	}
	data := append(c.rest, p...)
	for len(data) > 0 {
		rest, err := next(data)
		if err != nil {
			return err
		}
		if len(rest) == len(data) {
			break
		}
		data = rest
	}
	c.rest = append(c.rest[:0], data...)
	return nil
}

// note keeps the ID of a ref if it was asked for, and reports whether it did.
func (c *refCollector) note(name, id string) bool {
	asked := name == "HEAD" || slices.Contains(c.names, name)
	if slices.ContainsFunc(c.names, func(n string) bool { return strings.HasSuffix(n, "/") && strings.HasPrefix(name, n) }) {
		c.listed++
		c.bytes += len(name)
		if c.listed > MaxListed || c.bytes > maxListedBytes {
			c.refs.More = true
		} else {
			asked = true
		}
	}
	if asked {
		c.refs.IDs[name] = id
	}
	return asked
}

// maxLine bounds a line of ls-remote: longer than any name of a ref that a server
// can keep.
const maxLine = 64 << 10

// lsRemote is the standard output of git ls-remote --symref.
type lsRemote struct {
	refCollector
	err error
}

// Write fails when the answer can't be used: git has no reader then, and ends.
func (l *lsRemote) Write(p []byte) (int, error) {
	if l.err == nil {
		l.err = l.read(p, l.next)
	}
	if l.err != nil {
		return 0, l.err
	}
	return len(p), nil
}

func (l *lsRemote) next(data []byte) (rest []byte, err error) {
	end := bytes.IndexByte(data, '\n')
	if end < 0 && len(data) > maxLine {
		return nil, fmt.Errorf("ls-remote has a line of more than %d bytes", maxLine)
	}
	if end < 0 {
		return data, nil
	}
	return data[end+1:], l.add(string(data[:end]))
}

// add reads a line: an object ID or what a symbolic ref stands for, and a name.
func (l *lsRemote) add(line string) error {
	left, name, ok := strings.Cut(line, "\t")
	if !ok {
		return fmt.Errorf("ls-remote has the line %q", line)
	}
	if target, ok := strings.CutPrefix(left, "ref: "); ok {
		if name == "HEAD" {
			l.refs.setHead(target)
		}
		return nil
	}
	if !IsObjectID(left) {
		return fmt.Errorf("ls-remote has %q for an object ID", left)
	}
	if tag, ok := strings.CutSuffix(name, peeledSuffix); ok {
		if _, ok := l.refs.IDs[tag]; ok {
			l.refs.IDs[name] = left
		}
		return nil
	}
	if l.note(name, left) && len(left) == 64 {
		l.refs.Format = SHA256
	}
	return nil
}
