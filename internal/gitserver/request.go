package gitserver

import (
	"net/http"
	"slices"
	"strings"
)

// Kind is what a request asks.
type Kind string

const (
	Info   Kind = "info/refs" // the handshake of a fetch; over a dumb server, the list of refs
	LsRefs Kind = "ls-refs"   // of protocol 2
	Fetch  Kind = "fetch"     // a round of fetching, of either protocol
	Push   Kind = "push"
	Other  Kind = "other" // files, the handshake of a push, and what is behind Route
)

// Request is one request as it arrived.
type Request struct {
	Repo   string // without the suffix .git
	Kind   Kind
	Method string
	Host   string
	URI    string // path and query
	Header http.Header
}

// Requests are all requests since the start or the last Reset, in the order in which they arrived. The headers are
// whole: what is not in here was not sent to this server.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// target is what a request is about, for the handlers behind ServeHTTP.
type target struct {
	repo    string // without the suffix .git
	rest    string // the path below the repository, with its slash
	service string // git-upload-pack, git-receive-pack, or nothing
	kind    Kind
}

type targetKey struct{}

func targetOf(r *http.Request) target { return r.Context().Value(targetKey{}).(target) }

// split cuts a request's path into the repository and what is asked of it.
func split(r *http.Request) target {
	at := target{repo: r.URL.Path}
	// What can be below a repository begins with one of these; the first one in the path counts.
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
