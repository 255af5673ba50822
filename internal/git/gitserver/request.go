package gitserver

import (
	"net/http"
	"slices"
	"strings"
)

// Kind is the kind of a request.
type Kind string

const (
	Info   Kind = "info/refs" // the handshake of a fetch; on a dumb server, the list of refs
	LsRefs Kind = "ls-refs"   // protocol 2 only
	Fetch  Kind = "fetch"     // a round of a fetch, with either protocol
	Push   Kind = "push"
	Other  Kind = "other" // files, the handshake of a push, and others
)

// Request is one received request.
type Request struct {
	Repo   string // without the suffix .git
	Kind   Kind
	Method string
	Host   string
	URI    string // path and query
	Header http.Header
}

// Requests returns all requests since the start or the last Reset, in the order of arrival, with
// all headers.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// target is the parsed URL of a request, for the handlers behind ServeHTTP.
type target struct {
	repo    string // without the suffix .git
	rest    string // the path below the repository, with the leading slash
	service string // git-upload-pack, git-receive-pack or empty
	kind    Kind
}

type targetKey struct{}

func targetOf(r *http.Request) target { return r.Context().Value(targetKey{}).(target) }

// split splits a request's path into the repository and the rest.
func split(r *http.Request) target {
	at := target{repo: r.URL.Path}
	// Paths below a repository begin with one of these; the first one in the path counts.
	for _, known := range []string{"/info/", "/objects/", "/HEAD", "/" + uploadPack, "/" + receivePack} {
		if i := strings.Index(r.URL.Path, known); i > 0 && i < len(at.repo) {
			at.repo, at.rest = r.URL.Path[:i], r.URL.Path[i:]
		}
	}
	switch at.rest {
	case "/info/refs":
		at.service = r.URL.Query().Get("service")
	case "/" + uploadPack, "/" + receivePack:
		at.service = at.rest[1:]
	}
	at.repo = strings.TrimSuffix(strings.Trim(at.repo, "/"), ".git")
	return at
}
