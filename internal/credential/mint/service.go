package mint

import (
	"context"
	"net/http"
	"time"

	"github.com/helmdeck/repos/internal/credential"
)

// service asks a service of the operator. docs/credentials.md has the
// protocol.
type service struct{ *client }

// asked is the body of a request.
type asked struct {
	Subject string `json:"subject"`
	URL     string `json:"url"`
	Access  string `json:"access"`
}

// given is the body of an answer.
type given struct {
	User    string            `json:"user"`
	Secret  credential.Secret `json:"secret"`
	Expires *time.Time        `json:"expires_at"`
}

// Ask implements credential.Provider.
func (s service) Ask(ctx context.Context, q credential.Question) (credential.Answer, error) {
	a, err := s.send(ctx, http.MethodPost, q.Provider, q.Secret.Reveal(), asked{string(q.Subject), q.Repository, string(q.Access)})
	if err != nil {
		return credential.Answer{}, failure(q, err)
	}
	if a.StatusCode != http.StatusOK {
		return credential.Answer{}, refusal(q, a, "ask its operator whether it knows the secret of the credential, the subject and the repository")
	}
	var g given
	if err := a.decode(&g, true); err != nil {
		return credential.Answer{}, failure(q, err)
	}
	if g.Expires == nil {
		return credential.Answer{}, failure(q, wrongAnswer("its answer has no expires_at"))
	}
	return credential.Answer{User: g.User, Secret: g.Secret, Expires: *g.Expires}, nil
}
