package gitref

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxLine bounds a line of ls-remote: it is longer than any ref name that a server can
// store.
const maxLine = 64 << 10

// ReadLsRemote reads the output of git ls-remote --symref, of up to limit bytes, and keeps
// HEAD and names. The error is a LargeError if it has more.
func ReadLsRemote(r io.Reader, names []string, limit int) (Answer, error) {
	c := newCollector(names, SHA1)
	lines := bufio.NewReaderSize(&bounded{Reader: r, limit: limit}, maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return Answer{}, fmt.Errorf("ls-remote has a line of more than %d bytes", maxLine)
		case errors.Is(err, io.EOF) && len(line) == 0:
			return c.done(), nil
		case errors.Is(err, io.EOF):
			return Answer{}, errCut
		case err != nil:
			return Answer{}, err
		}
		if err := c.addRemoteLine(strings.TrimSuffix(string(line), "\n")); err != nil {
			return Answer{}, err
		}
	}
}

// addRemoteLine parses an object ID, or the target of a symbolic ref, and a name.
func (c *collector) addRemoteLine(line string) error {
	left, name, ok := strings.Cut(line, "\t")
	if !ok {
		return fmt.Errorf("ls-remote has the line %q", line)
	}
	if target, ok := strings.CutPrefix(left, "ref: "); ok {
		if name == "HEAD" {
			c.setHead(target)
		}
		return nil
	}
	if !IsObjectID(left) {
		return fmt.Errorf("ls-remote has %q instead of an object ID", left)
	}
	if tag, ok := strings.CutSuffix(name, PeeledSuffix); ok {
		if _, ok := c.answer.IDs[tag]; ok {
			c.answer.IDs[name] = left
		}
		return nil
	}
	if c.add(name, left) {
		c.answer.Format = Format(left)
	}
	return nil
}
