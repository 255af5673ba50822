package gitserver

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// Stats counts the requests for one repository. One `git fetch` with protocol 2 is one of Infos,
// one of LsRefs and, if there is something new, one or more of Fetches: the rounds of the
// negotiation.
type Stats struct {
	Infos    int   // GET info/refs for a fetch: the handshake of protocol 2, the list of all refs in protocol 0
	LsRefs   int   // ls-refs requests, protocol 2 only
	Fetches  int   // rounds of fetches
	Clones   int   // Fetches of clients without objects: first fetches, and later ones of partial clones
	Pushes   int   // packs and deletions received
	BytesOut int64 // bytes of response bodies
}

func (s *Stats) add(more Stats) {
	s.Infos += more.Infos
	s.LsRefs += more.LsRefs
	s.Fetches += more.Fetches
	s.Clones += more.Clones
	s.Pushes += more.Pushes
	s.BytesOut += more.BytesOut
}

// kind returns the kind of the one request that s counts.
func (s Stats) kind() Kind {
	switch {
	case s.Infos > 0:
		return Info
	case s.LsRefs > 0:
		return LsRefs
	case s.Fetches > 0:
		return Fetch
	case s.Pushes > 0:
		return Push
	}
	return Other
}

// parse returns the counts of one request. A body that is not git's protocol is an error.
func parse(method, service, encoding string, body []byte) (Stats, error) {
	if method == http.MethodGet {
		if service == uploadPack {
			return Stats{Infos: 1}, nil
		}
		return Stats{}, nil
	}
	if encoding == "gzip" {
		var err error
		if body, err = gunzip(body); err != nil {
			return Stats{}, fmt.Errorf("gzip body: %w", err)
		}
	}
	switch service {
	case receivePack:
		// Before a large push git sends an empty request (a flush packet) to check its
		// permission.
		if string(body) == "0000" {
			return Stats{}, nil
		}
		return Stats{Pushes: 1}, nil
	case uploadPack:
		return parseFetch(body)
	}
	return Stats{}, nil
}

// parseFetch parses a request to upload-pack.
func parseFetch(body []byte) (Stats, error) {
	var fetch, have, done bool
	for len(body) > 0 {
		line, rest, err := packet(body)
		if err != nil {
			return Stats{}, err
		}
		body = rest
		switch word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); word {
		case "command=ls-refs":
			return Stats{LsRefs: 1}, nil
		case "command=fetch", "want": // a request of protocol 0 has no command: its first line is a want
			fetch = true
		case "have":
			have = true
		case "done":
			done = true
		}
	}
	var stats Stats
	if fetch {
		stats.Fetches = 1
	}
	if fetch && done && !have {
		stats.Clones = 1
	}
	return stats, nil
}

// packet splits off the first pkt-line. For flush, delimiter and response-end packets, with lengths
// below four, line is empty.
func packet(body []byte) (line string, rest []byte, err error) {
	if len(body) < 4 {
		return "", nil, fmt.Errorf("packet header %q is cut short", body)
	}
	size, err := strconv.ParseUint(string(body[:4]), 16, 16)
	if err != nil {
		return "", nil, fmt.Errorf("packet header %q is not a length", body[:4])
	}
	if size < 4 {
		return "", body[4:], nil
	}
	if int(size) > len(body) {
		return "", nil, fmt.Errorf("packet of %d bytes is cut short at %d", size, len(body))
	}
	return string(body[4:size]), body[size:], nil
}

func gunzip(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
