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
	c := command{op: askForRefs, question: true, dir: "/", talk: func(advertised []byte) ([]byte, bool) { return lsRefsRequest(advertised, names) }}
	out, err := g.runRemote(ctx, remote, c, func(url string) []string {
		scheme, _, _ := strings.Cut(url, "://")
		return append(slices.Clone(askPatience), "remote-"+scheme, "origin", url)
	})
	if bytes.HasPrefix(out, []byte("fallback")) {
		return RemoteRefs{}, false, nil
	}
	if err != nil {
		return RemoteRefs{}, false, err
	}
	refs, err = parseLsRefs(out, names)
	var said remoteError
	switch {
	case errors.As(err, &said):
		err = newError(askForRefs, remote.URL, said.Error(), err, false)
	case err != nil:
		err = &Error{Op: askForRefs, URL: remote.URL, Kind: KindServer, Detail: err.Error(), Err: err}
	}
	return refs, err == nil, err
}

const askForRefs = "ask for the refs of"

// stateless is what a transport helper is told first. It answers with an empty
// line and what the server can do, or that it can't speak for that server.
const stateless = "stateless-connect git-upload-pack\n"

// lsRefsRequest returns the question, once all of what the server can do has been
// read; done is false before.
func lsRefsRequest(answer []byte, names []string) (request []byte, done bool) {
	if bytes.HasPrefix(answer, []byte("fallback\n")) {
		return nil, true
	}
	advertised, ok := bytes.CutPrefix(answer, []byte("\n"))
	if !ok {
		return nil, false
	}
	var b bytes.Buffer
	packet := func(line string) { fmt.Fprintf(&b, "%04x%s\n", len(line)+5, line) }
	packet("command=ls-refs")
	for {
		line, rest, err := cutPacket(advertised)
		if err != nil {
			return nil, false
		}
		if line == flushPacket {
			break
		}
		if strings.HasPrefix(line, "object-format=") {
			packet(line)
		}
		advertised = rest
	}
	b.WriteString("0001")
	packet("peel")
	packet("symrefs")
	for _, n := range append([]string{"HEAD"}, names...) {
		packet("ref-prefix " + n)
	}
	b.WriteString("0000")
	return b.Bytes(), true
}

// parseLsRefs reads what a helper wrote: the empty line, what the server can do,
// and the refs.
func parseLsRefs(out []byte, names []string) (RemoteRefs, error) {
	refs := RemoteRefs{Format: SHA1, IDs: make(map[string]string)}
	rest := bytes.TrimPrefix(out, []byte("\n"))
	for flushes := 0; flushes < 2; {
		line, more, err := cutPacket(rest)
		if err != nil {
			return RemoteRefs{}, err
		}
		rest = more
		switch said, isError := strings.CutPrefix(line, "ERR "); {
		case isError:
			return RemoteRefs{}, remoteError(said)
		case line == flushPacket:
			flushes++
		case flushes == 0:
			if format, ok := strings.CutPrefix(line, "object-format="); ok {
				refs.Format = format
			}
		default:
			if err := refs.add(line, names); err != nil {
				return RemoteRefs{}, err
			}
		}
	}
	return refs, nil
}

// add reads a line: an object ID, a name, and attributes.
func (r *RemoteRefs) add(line string, names []string) error {
	words := strings.Split(line, " ")
	if len(words) < 2 || !isObjectID(words[0]) {
		return fmt.Errorf("the remote named a ref by %q", line)
	}
	id, name := words[0], words[1]
	if name != "HEAD" && !slices.Contains(names, name) {
		return nil // a longer one: what is sent are prefixes
	}
	r.IDs[name] = id
	for _, attribute := range words[2:] {
		if target, ok := strings.CutPrefix(attribute, "symref-target:"); ok && name == "HEAD" {
			r.setHead(target)
		}
		if peeled, ok := strings.CutPrefix(attribute, "peeled:"); ok && isObjectID(peeled) {
			r.IDs[name+"^{}"] = peeled
		}
	}
	return nil
}

// remoteError is what a server says instead of an answer.
type remoteError string

func (e remoteError) Error() string { return "fatal: remote error: " + string(e) }

// flushPacket stands for the end of a list; no line is like that.
const flushPacket = "\x00flush"

// cutPacket cuts the first pkt-line off: four hex digits of length, these included,
// and the line, of which a line feed is cut off.
func cutPacket(data []byte) (line string, rest []byte, err error) {
	if len(data) < 4 {
		return "", nil, errors.New("the remote's answer is cut short")
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
		return "", nil, errors.New("the remote's answer is cut short")
	}
	return strings.TrimSuffix(string(data[4:size]), "\n"), data[size:], nil
}

// talk is the standard output of a helper that is asked a question when it has
// answered the first one, over its standard input.
type talk struct {
	limited
	in    *os.File
	reply func(answer []byte) (request []byte, done bool)
}

func (t *talk) Write(p []byte) (int, error) {
	n, err := t.limited.Write(p)
	if t.in == nil {
		return n, err
	}
	if request, done := t.reply(t.buf.Bytes()); done || t.cut {
		// It fits into the pipe: nothing else has been written since it was read.
		_, _ = t.in.Write(request) // a helper that has ended says why
		t.end()
	}
	return n, err
}

// end closes the helper's input.
func (t *talk) end() {
	if t.in != nil {
		t.in.Close()
		t.in = nil
	}
}
