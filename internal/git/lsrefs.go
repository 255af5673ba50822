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

// lsRefsHTTP sends ref prefixes, so that a remote with 100,000 refs lists only the wanted
// ones: git ls-remote would receive all and filter. It speaks protocol 2 through git's
// own transport helper, which connects and authenticates as in a fetch. ok is false if
// the remote does not support that protocol.
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

// badAnswer returns the error for an invalid answer of the remote.
func badAnswer(remote Remote, err error) error {
	return &Error{Op: askForRefs, URL: remote.URL, Kind: KindServer, Detail: err.Error(), Err: err}
}

// stateless is the first command to a transport helper. The helper answers with an empty
// line and the server's capabilities, or with fallback.
const stateless = "stateless-connect git-upload-pack\n"

// fallback is the answer of a helper that can't connect statelessly to the server.
const fallback = "fallback\n"

// talk parses the stdout of a transport helper: when the server's capabilities have
// arrived it writes the request for refs to the helper's stdin, in, and then keeps the
// refs that were asked for. It reads the answer as a stream.
type talk struct {
	refCollector
	in     *os.File
	state  talkState
	format string // the server's object-format capability line
	err    error  // the answer is invalid
}

type talkState int

const (
	talkBegun    talkState = iota // nothing read yet
	talkAble                      // reading the server's capabilities
	talkAsked                     // reading refs
	talkDone                      // all refs were read
	talkFallback                  // the helper can't connect to the server
)

func newTalk(in *os.File, names []string) *talk {
	return &talk{in: in, refCollector: newRefCollector(names)}
}

// Write fails if the answer is invalid: the helper then loses its reader, and ends.
func (t *talk) Write(p []byte) (int, error) {
	if t.err == nil {
		t.err = t.refCollector.read(p, t.next)
	}
	if t.err != nil {
		return 0, t.err
	}
	return len(p), nil
}

// next reads the first element of data and returns the rest, or all of data if the
// element is incomplete.
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
		// This does not block: the request fits into the pipe, which is empty, because
		// the names are few.
		_, _ = t.in.Write(lsRefsRequest(t.format, t.names)) // if the helper has ended, its error says why
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

// lsRefsRequest returns the ls-refs request for HEAD and names; format is the server's
// object-format line, if any.
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

// add parses a line: an object ID, a name, and attributes.
func (t *talk) add(line string) error {
	words := strings.Split(line, " ")
	if len(words) < 2 || !IsObjectID(words[0]) {
		return fmt.Errorf("the remote listed a ref as %q", line)
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

// remoteError is an error message that a server sends instead of an answer.
type remoteError string

func (e remoteError) Error() string { return "fatal: remote error: " + string(e) }

// flushPacket represents a flush packet, the end of a list; no line can equal it.
const flushPacket = "\x00flush"

// errCut means that an answer is incomplete.
var errCut = errors.New("the remote's answer is cut short")

// cutPacket splits off the first pkt-line: four hex digits with the length, including
// these, and the line, whose trailing line feed it removes. The error is errCut if the
// pkt-line is incomplete.
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
