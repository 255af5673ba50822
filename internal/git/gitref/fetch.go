package gitref

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/helmdeck/repos/internal/intake"
)

// errNotReady means that the server does not know what to leave out of a pack: it has too
// few of the objects that the request named.
var errNotReady = errors.New("the server finds no common history")

// maxAcknowledged bounds the lines in which a server says which objects it has, and where the
// history ends.
const maxAcknowledged = 4096

// Fetch is a request, in protocol 2, for a pack with all objects that are reachable from Wants
// and not from Haves. The pack may have deltas against objects that are reachable from Haves.
// Without Haves, the server sends the pack at once.
type Fetch struct {
	Format       string // of the server's object IDs, as Decoder.Capabilities returns it
	Wants, Haves []string
	// Depth, if not 0, is how many commits of each history the pack has. There are no Haves then.
	Depth int
}

// Request returns the body of the request.
func (f Fetch) Request() []byte {
	var b bytes.Buffer
	command(&b, "fetch", f.Format)
	packet(&b, "thin-pack")
	packet(&b, "ofs-delta")
	packet(&b, "no-progress")
	if f.Depth > 0 {
		packet(&b, fmt.Sprintf("deepen %d", f.Depth))
	}
	for _, id := range f.Wants {
		packet(&b, "want "+id)
	}
	for _, id := range f.Haves {
		packet(&b, "have "+id)
	}
	if len(f.Haves) == 0 {
		packet(&b, "done")
	}
	b.WriteString(flush)
	return b.Bytes()
}

// maxTalk bounds what a server sends beside a pack, in bytes, beyond the pack's own size: the lines before it, the
// headers of packets, and messages.
const maxTalk = 16 << 20

// ReadPack reads the answer until the pack, and returns the pack, whose size is not bounded, and
// the commits whose parents it lacks because of Depth. The error is errNotReady if the server wants
// to hear of more objects first. Reading fails with intake.ErrExcess if the server sends much beside the pack.
func (f Fetch) ReadPack(r io.Reader) (pack io.Reader, shallow []string, err error) {
	both := intake.NewMeter(maxTalk)
	d := NewDecoder(both.In(r), math.MaxInt)
	ready := len(f.Haves) == 0
	for range maxAcknowledged {
		line, ended, err := d.next()
		said, failed := strings.CutPrefix(line, "ERR ")
		commit, cut := strings.CutPrefix(line, "shallow ")
		switch {
		case err != nil:
			return nil, nil, err
		case failed:
			return nil, nil, RemoteError(said)
		case ended:
			return nil, nil, errNotReady
		case line == "packfile" && ready:
			return both.Out(&band{d: d}), shallow, nil
		case line == "ready":
			ready = true
		case cut && f.Depth > 0 && IsObjectID(commit) && Format(commit) == cmp.Or(f.Format, SHA1):
			shallow = append(shallow, commit)
		case line == "shallow-info" && f.Depth > 0:
		case line == "acknowledgments", line == "NAK", line == "", strings.HasPrefix(line, "ACK "):
		default:
			return nil, nil, fmt.Errorf("the remote's answer to a fetch has the line %.100q", line)
		}
	}
	return nil, nil, fmt.Errorf("the remote's answer to a fetch has more than %d lines", maxAcknowledged)
}

// band reads the data in the packets of a pack. The first byte of each packet says whether
// it has data, a message for the user, or the error that ends the answer.
type band struct {
	d    *Decoder
	rest []byte // of the last packet
	err  error
}

func (b *band) Read(p []byte) (int, error) {
	for len(b.rest) == 0 && b.err == nil {
		b.rest, b.err = b.d.data()
	}
	if len(b.rest) == 0 {
		return 0, b.err
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// data returns the data of the next packet, which is valid until the next call. The error
// is io.EOF after a flush packet.
func (d *Decoder) data() ([]byte, error) {
	packet, ended, err := d.packet()
	switch {
	case err != nil:
		return nil, err
	case ended:
		return nil, io.EOF
	case len(packet) == 0:
		return nil, errors.New("the remote sent an empty packet instead of data")
	}
	switch packet[0] {
	case 1:
		return packet[1:], nil
	case 2:
		return nil, nil
	case 3:
		return nil, RemoteError(strings.TrimSpace(string(packet[1:])))
	}
	return nil, fmt.Errorf("the remote sent data of the unknown kind %d", packet[0])
}
