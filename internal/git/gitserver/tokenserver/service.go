package tokenserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Question is a question to a Service.
type Question struct {
	Subject string `json:"subject"`
	URL     string `json:"url"`
	Access  string `json:"access"`
}

// Service gives secrets to whoever sends its own secret. NewService makes one. It is safe for
// concurrent use.
type Service struct {
	Issued
	secret string

	mu        sync.Mutex
	questions []Question
	user      func(Question) (user string, ok bool)
}

// NewService returns a service, whose clients send a secret, and whose secrets live for a
// time. It has the same user for every question.
func NewService(secret string, life time.Duration) *Service {
	return &Service{Issued: newIssued("svc-", life), secret: secret, user: func(Question) (string, bool) { return "robot", true }}
}

// Users makes user decide what a question is answered: with the secret of a user, of a
// bearer token if the user is empty, or with 403.
func (s *Service) Users(user func(Question) (user string, ok bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user = user
}

// Questions returns the questions, the oldest first.
func (s *Service) Questions() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.questions)
}

// ServeHTTP implements http.Handler.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.count()
	if f := s.fault(); f != nil {
		f.ServeHTTP(w, r)
		return
	}
	if r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer "+s.secret {
		say(w, http.StatusUnauthorized, map[string]any{"error": "the secret is wrong"})
		return
	}
	var q Question
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&q); err != nil {
		say(w, http.StatusBadRequest, map[string]any{"error": err.Error()})
		return
	}
	s.mu.Lock()
	s.questions = append(s.questions, q)
	decide := s.user
	s.mu.Unlock()
	user, ok := decide(q)
	if !ok {
		say(w, http.StatusForbidden, map[string]any{"error": "no"})
		return
	}
	secret, expires := s.issue(Grant{User: user, Subject: q.Subject, Repository: q.URL, Write: q.Access == "push"})
	body := map[string]any{"secret": secret, "expires_at": expires.UTC().Format(time.RFC3339Nano)}
	if user != "" {
		body["user"] = user
	}
	say(w, http.StatusOK, body)
}
