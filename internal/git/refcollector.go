package git

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

const (
	// MaxListed is how many refs LsRefs returns for names that end with a slash. They are
	// compared at every mount: 200 take some 14 KB of an answer, which does not slow a
	// mount.
	MaxListed = 200
	// maxListedBytes bounds their names, with some 300 bytes on average.
	maxListedBytes = 64 << 10
	// maxAnswer bounds the size of an answer, of which little is kept. It is enough for a
	// million refs, from a remote that ignores prefixes or has that many below one. A
	// larger answer may never end.
	maxAnswer = 128 << 20
	// peeledSuffix follows the name of an annotated tag to denote the object that it
	// points to.
	peeledSuffix = "^{}"
)

// refCollector keeps the requested refs of an answer of any length.
type refCollector struct {
	names  []string
	refs   RemoteRefs
	listed int // refs below names that end with a slash
	bytes  int // size of their names
	size   int // bytes read of the answer
	rest   []byte
}

func newRefCollector(names []string) refCollector {
	return refCollector{names: names, refs: RemoteRefs{Format: SHA1, IDs: make(map[string]string)}}
}

// read calls next with the unread bytes until next consumes nothing.
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

// note stores the ID of a ref if it was requested, and reports whether it did.
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

// maxLine bounds a line of ls-remote: it is longer than any ref name that a server can
// store.
const maxLine = 64 << 10

// lsRemote parses the stdout of git ls-remote --symref.
type lsRemote struct {
	refCollector
	err error
}

// Write fails if the answer is invalid: git then loses its reader, and ends.
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

// add parses a line: an object ID or the target of a symbolic ref, and a name.
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
