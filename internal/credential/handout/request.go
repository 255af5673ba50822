package handout

import (
	"bytes"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/volume"
)

// maxRequest is in bytes. git repeats the server's WWW-Authenticate headers, and some servers send
// a few of some hundred bytes.
const maxRequest = 16 << 10

// request is what `git credential-cache` sends: action=, and what git gave to the helper.
type request struct {
	action               string // get, erase, or one that is ignored
	protocol, host, path string
	user, password       string // the secret that a server refused, with erase
	bearer               bool   // git takes bearer tokens
}

var (
	errTooLong   = errors.New("the request is too long")
	errMalformed = errors.New("the request is malformed")
)

// readRequest reads a request until its end: the end of the stream, or an empty line. It refuses
// control characters and repeated names, because programs differ in what they make of them.
func readRequest(r io.Reader) (request, error) {
	buf := make([]byte, 0, 1024)
	for done := false; !done; {
		if len(buf) > maxRequest {
			return request{}, errTooLong
		}
		buf = slices.Grow(buf, 512)
		n, err := r.Read(buf[len(buf):min(cap(buf), maxRequest+1)])
		from := max(0, len(buf)-1) // a client may send byte by byte
		buf = buf[:len(buf)+n]
		if err != nil && err != io.EOF {
			return request{}, err
		}
		done = err == io.EOF || bytes.Contains(buf[from:], []byte("\n\n"))
	}
	text, _, _ := strings.Cut(string(buf), "\n\n")
	return parseRequest(strings.TrimSuffix(text, "\n"))
}

func parseRequest(text string) (request, error) {
	var r request
	fields := map[string]*string{
		"action": &r.action, "protocol": &r.protocol, "host": &r.host, "path": &r.path, "username": &r.user, "password": &r.password,
	}
	seen := make(map[string]bool)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.ContainsFunc(line, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return request{}, errMalformed
		}
		switch at := fields[name]; {
		case name == "capability[]" && value == "authtype":
			r.bearer = true
		case name == "credential": // a refused bearer token
			r.password = value
		case at == nil:
		case seen[name]:
			return request{}, errMalformed
		default:
			*at, seen[name] = value, true
		}
	}
	return r, nil
}

// repository is what a URL names, in the form in which two URLs are compared.
type repository struct{ base, path string }

// repositoryOf returns the repository of a volume's URL. git decodes the path of a URL before it
// asks a helper, so paths are compared decoded.
func repositoryOf(u volume.URL) (repository, bool) {
	scheme, rest, _ := strings.Cut(u.Normalized(), "://")
	host, path, ok := strings.Cut(rest, "/")
	decoded, err := url.PathUnescape(path)
	return repository{scheme + "://" + host, decoded}, ok && err == nil && decoded != "" && (scheme == "https" || scheme == "http")
}

// repository returns what the request asks for. ok is false if that is no repository.
func (r request) repository() (repo repository, ok bool) {
	path := (&url.URL{Path: "/" + strings.TrimPrefix(r.path, "/")}).EscapedPath()
	if r.protocol == "" || r.host == "" || r.path == "" || strings.ContainsAny(r.protocol+r.host, "/@?#%") {
		return repo, false
	}
	u, err := volume.ParseURL(r.protocol+"://"+r.host+path, volume.AllSchemes())
	if err != nil {
		return repo, false
	}
	return repositoryOf(u)
}
