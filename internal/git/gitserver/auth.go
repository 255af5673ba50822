package gitserver

import (
	"net/http"
	"slices"
	"strings"
)

const challenge = `Basic realm="git"`

// Login is the content of a request's Authorization header: a user with a password, or a bearer
// token. The zero Login is that of a request without the header.
type Login struct {
	User, Password string
	Bearer         string
	Unknown        string // the header, if it is neither
}

// Protect makes all later requests for a repository require one of the logins; without logins it
// removes the requirement.
func (s *Server) Protect(repo string, logins ...Login) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rule(repo).logins = slices.Clone(logins)
}

// Logins counts the requests for a repository by their Login, since the start or the last Reset,
// whether the repository is protected or not.
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
