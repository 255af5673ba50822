package gitserver

import (
	"net/http"
	"slices"
	"strings"
)

const challenge = `Basic realm="git"`

// Login is what a client says about itself: a user with a password, a bearer token, or, all empty, nothing.
type Login struct {
	User, Password string
	Bearer         string
	Unknown        string // an Authorization header that is neither
}

// Protect asks for one of the logins at every request for a repository from now on; without any, it asks for none.
func (s *Server) Protect(repo string, logins ...Login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rule(repo).logins = slices.Clone(logins)
}

// Logins counts the requests for a repository by what they said about their sender, since the start or the last Reset.
// Whether the repository is protected makes no difference.
func (s *Server) Logins(repo string) map[Login]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	logins := map[Login]int{}
	for _, r := range s.requests {
		if r.Repo == repo {
			logins[loginOf(r.Header)]++
		}
	}
	return logins
}

func (r *rule) allows(req *http.Request) bool {
	return len(r.logins) == 0 || slices.Contains(r.logins, loginOf(req.Header))
}

func loginOf(header http.Header) Login {
	value := header.Get("Authorization")
	if value == "" {
		return Login{}
	}
	r := http.Request{Header: header}
	if user, password, ok := r.BasicAuth(); ok {
		return Login{User: user, Password: password}
	}
	if scheme, token, ok := strings.Cut(value, " "); ok && strings.EqualFold(scheme, "Bearer") {
		return Login{Bearer: token}
	}
	return Login{Unknown: value}
}
