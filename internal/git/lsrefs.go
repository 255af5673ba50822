package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// lsRefsHTTP asks with ref prefixes, so that a remote of 100,000 refs names only
// those that are wanted: git ls-remote has it send all, and picks. It speaks
// protocol 2 through git's own transport, which logs in and connects as in a
// fetch. ok is false when the remote does not know that protocol.
func (g *Git) lsRefsHTTP(ctx context.Context, remote Remote, names []string) (refs RemoteRefs, ok bool, err error) {
	var t *talk
	c := Command{Op: askForRefs, question: true, Dir: "/", talk: func(in *os.File) *talk {
		t = newTalk(in, names)
		return t
	}}
	_, err = g.runRemote(ctx, remote, c, func(url string) []string {
		scheme, _, _ := strings.Cut(url, "://")
		return append(slices.Clone(askPatience), "remote-"+scheme, "origin", url)
	})
	if t != nil && t.state == talkFallback {
		return RemoteRefs{}, false, nil
	}
	if err != nil && (t == nil || t.err == nil) {
		return RemoteRefs{}, false, err
	}
	refs, err = t.answer()
	var said remoteError
	switch {
	case errors.As(err, &said):
		err = newError(askForRefs, remote.URL, said.Error(), err, false)
	case err != nil:
		err = badAnswer(remote, err)
	}
	return refs, err == nil, err
}

const askForRefs = "ask for the refs of"

// badAnswer is the error about an answer that can't be used.
func badAnswer(remote Remote, err error) error {
	return &Error{Op: askForRefs, URL: remote.URL, Kind: KindServer, Detail: err.Error(), Err: err}
}

// stateless is what a transport helper is told first. It answers with an empty
// line and what the server can do, or that it can't speak for that server.
const stateless = "stateless-connect git-upload-pack\n"

// fallback is the answer of a helper that can't.
const fallback = "fallback\n"

// talk is the standard output of a helper that is asked for refs when it has said
// what the server can do, over its standard input. It reads the answer while it
// comes, and keeps only the refs that were asked for.
type talk struct {
	refCollector
	in     *os.File
	state  talkState
	format string // the line with the format of the server's objects
	err    error  // why the rest of the answer is not read
}

type talkState int

const (
	talkBegun    talkState = iota // nothing was read
	talkAble                      // what the server can do comes
	talkAsked                     // refs come
	talkDone                      // all refs have come
	talkFallback                  // the helper can't speak for the server
)

func newTalk(in *os.File, names []string) *talk {
	return &talk{in: in, refCollector: newRefCollector(names)}
}

// Write fails when the answer can't be used: the helper has no reader then, and
// ends.
func (t *talk) Write(p []byte) (int, error) {
	if t.err == nil {
		t.err = t.refCollector.read(p, t.next)
	}
	if t.err != nil {
		return 0, t.err
	}
	return len(p), nil
}

// next reads what data begins with and returns what is left of it; all of it when
// it is not complete.
func (t *talk) next(data []byte) (rest []byte, err error) {
	switch t.state {
	case talkBegun:
		switch {
		case data[0] == '\n':
			t.state = talkAble
			return data[1:], nil
		case bytes.HasPrefix(data, []byte(fallback)):
			t.state = talkFallback
			t.end()
			return nil, nil
		case strings.HasPrefix(fallback, string(data)):
			return data, nil
		}
		return nil, fmt.Errorf("the transport answered %.20q", data)
	case talkDone, talkFallback:
		return nil, nil
	}
	line, rest, err := cutPacket(data)
	switch said, isError := strings.CutPrefix(line, "ERR "); {
	case errors.Is(err, errCut):
		return data, nil
	case err != nil:
		return nil, err
	case isError:
		return nil, remoteError(said)
	case t.state == talkAsked && line == flushPacket:
		t.state = talkDone
	case t.state == talkAsked:
		err = t.add(line)
	case line == flushPacket:
		t.state = talkAsked
		// It fits into the pipe: the names are few, and what was written before has
		// been read.
		_, _ = t.in.Write(lsRefsRequest(t.format, t.names)) // a helper that has ended says why
		t.end()
	case strings.HasPrefix(line, "object-format="):
		t.format = line
		t.refs.Format = strings.TrimPrefix(line, "object-format=")
	}
	return rest, err
}

// end closes the helper's input.
func (t *talk) end() {
	if t.in != nil {
		t.in.Close()
		t.in = nil
	}
}

// answer returns the refs once the helper has ended.
func (t *talk) answer() (RemoteRefs, error) {
	switch {
	case t.err != nil:
		return RemoteRefs{}, t.err
	case t.state != talkDone:
		return RemoteRefs{}, errCut
	}
	return t.refs, nil
}

// lsRefsRequest returns the question for HEAD and names; format is the line about
// it that the server sent, if any.
func lsRefsRequest(format string, names []string) []byte {
	var b bytes.Buffer
	packet := func(line string) { fmt.Fprintf(&b, "%04x%s\n", len(line)+5, line) }
	packet("command=ls-refs")
	if format != "" {
		packet(format)
	}
	b.WriteString("0001")
	packet("peel")
	packet("symrefs")
	for _, n := range append([]string{"HEAD"}, names...) {
		packet("ref-prefix " + n)
	}
	b.WriteString("0000")
	return b.Bytes()
}

// add reads a line: an object ID, a name, and attributes.
func (t *talk) add(line string) error {
	words := strings.Split(line, " ")
	if len(words) < 2 || !IsObjectID(words[0]) {
		return fmt.Errorf("the remote named a ref by %q", line)
	}
	id, name := words[0], words[1]
	if !t.note(name, id) {
		return nil
	}
	for _, attribute := range words[2:] {
		if target, ok := strings.CutPrefix(attribute, "symref-target:"); ok && name == "HEAD" {
			t.refs.setHead(target)
		}
		if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok && IsObjectID(peeled) {
			t.refs.IDs[name+peeledSuffix] = peeled
		}
	}
	return nil
}

// remoteError is what a server says instead of an answer.
type remoteError string

func (e remoteError) Error() string { return "fatal: remote error: " + string(e) }

// flushPacket stands for the end of a list; no line is like that.
const flushPacket = "\x00flush"

// errCut says that an answer ends in the middle.
var errCut = errors.New("the remote's answer is cut short")

// cutPacket cuts the first pkt-line off: four hex digits of length, these included,
// and the line, of which a line feed is cut off. The error is errCut when data does
// not have all of it.
func cutPacket(data []byte) (line string, rest []byte, err error) {
	if len(data) < 4 {
		return "", nil, errCut
	}
	size, err := strconv.ParseUint(string(data[:4]), 16, 16)
	switch {
	case err != nil || size == 3:
		return "", nil, fmt.Errorf("the remote's answer has a packet of length %q", data[:4])
	case size == 0:
		return flushPacket, data[4:], nil
	case size < 4:
		return "", data[4:], nil
	case int(size) > len(data):
		return "", nil, errCut
	}
	return strings.TrimSuffix(string(data[4:size]), "\n"), data[size:], nil
}
