package gitref

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Capabilities are what a server says about itself, as far as a request depends on it.
type Capabilities struct {
	Format string // of its object IDs; empty if it names none
	// Unborn is set if it tells the branch of a HEAD that has no commit yet.
	Unborn bool
}

// Request returns the ls-refs request for HEAD and names to a server with these capabilities.
func Request(c Capabilities, names []string) []byte {
	var b bytes.Buffer
	command(&b, "ls-refs", c.Format)
	packet(&b, "peel")
	packet(&b, "symrefs")
	if c.Unborn {
		packet(&b, "unborn")
	}
	for _, n := range append([]string{"HEAD"}, names...) {
		packet(&b, "ref-prefix "+n)
	}
	b.WriteString(flush)
	return b.Bytes()
}

// Packets without a line.
const (
	flush = "0000"
	delim = "0001"
)

// command writes the beginning of a request, before the arguments of its command.
func command(b *bytes.Buffer, name, format string) {
	packet(b, "command="+name)
	if format != "" {
		packet(b, objectFormat+format)
	}
	b.WriteString(delim)
}

// packet writes a line.
func packet(b *bytes.Buffer, line string) { fmt.Fprintf(b, "%04x%s\n", len(line)+5, line) }

// objectFormat begins the line of a server's capabilities with the format of its object
// IDs.
const objectFormat = "object-format="

// RemoteError is an error message that a server sends instead of an answer.
type RemoteError string

func (e RemoteError) Error() string { return "fatal: remote error: " + string(e) }

// Decoder reads the pkt-lines that a server sends in protocol 2.
type Decoder struct {
	r    *bufio.Reader
	line []byte
}

// NewDecoder returns a Decoder that reads from r, which may have limit bytes. The error is a
// LargeError if it has more.
func NewDecoder(r io.Reader, limit int) *Decoder {
	return &Decoder{r: bufio.NewReader(&bounded{Reader: r, limit: limit})}
}

// Advertisement reads a server's answer to the first request over HTTP, and returns its
// capabilities. If protocol2 is false, the server speaks another protocol, and the rest of its
// answer is not read.
func (d *Decoder) Advertisement() (c Capabilities, protocol2 bool, err error) {
	line, _, err := d.next()
	if err == nil && strings.HasPrefix(line, "# service=") { // some servers say it in protocol 2 too
		if _, flush, flushErr := d.next(); flushErr != nil || !flush {
			return c, false, flushErr
		}
		line, _, err = d.next()
	}
	if said, isError := strings.CutPrefix(line, "ERR "); isError {
		return c, false, RemoteError(said)
	}
	if err != nil || line != "version 2" {
		return c, false, err
	}
	c, err = d.Capabilities()
	return c, err == nil, err
}

// maxCapabilities bounds the lines with a server's capabilities. Those of known servers are ten.
const maxCapabilities = 1000

// Capabilities reads the server's capabilities.
func (d *Decoder) Capabilities() (c Capabilities, err error) {
	lines := 0
	err = d.list(func(line string) error {
		if lines++; lines > maxCapabilities {
			return fmt.Errorf("the remote says more than %d lines about itself", maxCapabilities)
		}
		if features, ok := strings.CutPrefix(line, "ls-refs="); ok {
			c.Unborn = slices.Contains(strings.Fields(features), "unborn")
		}
		after, ok := strings.CutPrefix(line, objectFormat)
		if ok && after != SHA1 && after != SHA256 {
			return fmt.Errorf("the remote's object IDs have the format %.20q", after)
		}
		if ok {
			c.Format = after
		}
		return nil
	})
	return c, err
}

// Refs reads the answer to Request for the same format and names, until the end of the
// input.
func (d *Decoder) Refs(format string, names []string) (Answer, error) {
	c := newCollector(names, cmp.Or(format, SHA1))
	if err := d.list(c.addLine); err != nil {
		return Answer{}, err
	}
	_, err := io.Copy(io.Discard, d.r)
	return c.done(), err
}

// addLine parses an object ID, a name, and attributes. A HEAD without a commit has the word unborn
// in place of the ID.
func (c *collector) addLine(line string) error {
	id, rest, ok := strings.Cut(line, " ")
	unborn := id == "unborn"
	if !ok || !unborn && (!IsObjectID(id) || Format(id) != c.answer.Format) {
		return fmt.Errorf("the remote listed a ref as %q", line)
	}
	name, attributes, _ := strings.Cut(rest, " ")
	if !unborn && !c.add(name, id) {
		return nil
	}
	for attribute := range strings.SplitSeq(attributes, " ") {
		if target, ok := strings.CutPrefix(attribute, "symref-target:"); ok && name == "HEAD" {
			c.setHead(target)
		}
		if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok && !unborn && IsObjectID(peeled) {
			c.answer.IDs[name+PeeledSuffix] = peeled
		}
	}
	return nil
}

// list calls f for each line until the end of a list, a flush packet.
func (d *Decoder) list(f func(line string) error) error {
	for {
		line, flush, err := d.next()
		if err != nil || flush {
			return err
		}
		if said, isError := strings.CutPrefix(line, "ERR "); isError {
			return RemoteError(said)
		}
		if err := f(line); err != nil {
			return err
		}
	}
}

// next reads a line. flush is set for a flush packet. Other packets without a line are
// empty lines.
func (d *Decoder) next() (line string, flush bool, err error) {
	data, flush, err := d.packet()
	return strings.TrimSuffix(string(data), "\n"), flush, err
}

// packet reads a pkt-line: four hex digits with the length, including these, and the data,
// which are valid until the next call. flush is set for a flush packet.
func (d *Decoder) packet() (data []byte, flush bool, err error) {
	header, err := d.read(4)
	if err != nil {
		return nil, false, err
	}
	size, err := strconv.ParseUint(string(header), 16, 16)
	switch {
	case err != nil || size == 3:
		return nil, false, fmt.Errorf("the remote's answer has a packet of length %q", header)
	case size < 4:
		return nil, size == 0, nil
	}
	data, err = d.read(int(size) - 4)
	return data, false, err
}

// read returns the next n bytes, which are valid until the next call.
func (d *Decoder) read(n int) ([]byte, error) {
	d.line = slices.Grow(d.line[:0], n)[:n]
	_, err := io.ReadFull(d.r, d.line)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errCut
	}
	return d.line, err
}
