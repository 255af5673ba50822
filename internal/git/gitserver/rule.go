package gitserver

import (
	"net/http"
	"slices"
)

// rule has the logins and faults of one repository. The zero value lets everything pass.
type rule struct {
	logins []Login
	script map[Kind][]Fault
	routes []Fault
}

// rule returns a repository's rule, which the caller may change. The caller holds s.mu.
func (s *Server) rule(repo string) *rule {
	if s.rules[repo] == nil {
		s.rules[repo] = &rule{script: map[Kind][]Fault{}}
	}
	return s.rules[repo]
}

// Script appends faults for one kind of request to a repository. Each request of that kind uses up
// one fault; when none is left, requests pass. A nil fault lets one request pass.
func (s *Server) Script(repo string, kind Kind, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule := s.rule(repo)
	rule.script[kind] = append(rule.script[kind], faults...)
}

// Left returns how many faults of a script are not used up.
func (s *Server) Left(repo string, kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rule(repo).script[kind])
}

// Route sets the faults of one repository for all later requests, the first one outermost; without
// faults it removes them. The repository need not exist.
func (s *Server) Route(repo string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rule(repo).routes = slices.Clone(faults)
}

// dispatch passes a request through the rule of its repository.
func (s *Server) dispatch(w http.ResponseWriter, r *http.Request) {
	at := targetOf(r)
	s.mu.Lock()
	rule := s.rule(at.repo)
	allowed := rule.allows(r)
	next := s.backend
	for _, fault := range slices.Backward(rule.routes) {
		next = fault(next)
	}
	if faults := rule.script[at.kind]; allowed && len(faults) > 0 {
		rule.script[at.kind] = faults[1:]
		if faults[0] != nil {
			next = faults[0](next)
		}
	}
	s.mu.Unlock()
	if !allowed {
		next = Fail(http.StatusUnauthorized)(nil)
	}
	next.ServeHTTP(w, r)
}
