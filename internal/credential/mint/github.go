package mint

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/helmdeck/repos/internal/credential"
	"github.com/helmdeck/repos/internal/git/giterror"
)

// github asks for the tokens of an app's installations (docs.github.com, "Generating an
// installation access token for a GitHub App").
type github struct{ *client }

const (
	// issuedBefore is how far GitHub's clock may be behind, and lifeOfProof how long a proof
	// of the app is good: GitHub takes ten minutes at most, counted by its own clock.
	issuedBefore = time.Minute
	lifeOfProof  = 8 * time.Minute
	// maxSkew is a difference of the clocks that is worth a word in an error.
	maxSkew = 30 * time.Second
	// tokenUser is the user with which GitHub takes a token as a password.
	tokenUser = "x-access-token"
)

// Ask implements credential.Provider. It asks which installation has the repository, and
// that for a token with the fewest rights.
func (g github) Ask(ctx context.Context, q credential.Question) (credential.Answer, error) {
	owner, repository, err := repositoryOf(q)
	if err != nil {
		return credential.Answer{}, err
	}
	proof, err := g.prove(q)
	if err != nil {
		return credential.Answer{}, err
	}
	a, err := g.send(ctx, http.MethodGet, q.Provider+"/repos/"+url.PathEscape(owner)+"/"+url.PathEscape(repository)+"/installation", proof, nil)
	if err != nil {
		return credential.Answer{}, failure(q, err)
	}
	if a.StatusCode != http.StatusOK {
		return credential.Answer{}, g.refusal(q, a, fmt.Sprintf("install the app for %q, and give it access to the repository %q", owner, repository))
	}
	var installation struct {
		ID int64 `json:"id"`
	}
	if err := a.decode(&installation, false); err != nil {
		return credential.Answer{}, failure(q, err)
	}
	rights := "read"
	if q.Access == credential.Push {
		rights = "write"
	}
	a, err = g.send(ctx, http.MethodPost, fmt.Sprintf("%s/app/installations/%d/access_tokens", q.Provider, installation.ID), proof, map[string]any{
		"repositories": []string{repository}, "permissions": map[string]string{"contents": rights},
	})
	if err != nil {
		return credential.Answer{}, failure(q, err)
	}
	if a.StatusCode != http.StatusCreated {
		return credential.Answer{}, g.refusal(q, a, fmt.Sprintf("give the app the permission contents: %s, and its installation access to the repository %q", rights, repository))
	}
	var token struct {
		Token   credential.Secret `json:"token"`
		Expires time.Time         `json:"expires_at"`
	}
	if err := a.decode(&token, false); err != nil {
		return credential.Answer{}, failure(q, err)
	}
	return credential.Answer{User: tokenUser, Secret: token.Token, Expires: token.Expires}, nil
}

// prove returns a proof that the request comes from the app.
func (g github) prove(q credential.Question) (string, error) {
	key, err := credential.ParseAppKey(q.Secret.Reveal())
	if err != nil {
		return "", err
	}
	now := g.now()
	claims := jwt.RegisteredClaims{
		Issuer: q.AppID, IssuedAt: jwt.NewNumericDate(now.Add(-issuedBefore)), ExpiresAt: jwt.NewNumericDate(now.Add(lifeOfProof)),
	}
	return jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(key)
}

// refusal is the function refusal, and knows GitHub's words.
func (g github) refusal(q credential.Question, a answer, advice string) error {
	limited := a.StatusCode == http.StatusForbidden && (a.Header.Get("Retry-After") != "" || a.Header.Get("X-RateLimit-Remaining") == "0")
	if limited {
		e := newError(q, giterror.KindServer, "the provider answered "+statusOf(a)+", because of too many requests")
		return e
	}
	if a.StatusCode != http.StatusUnauthorized {
		return refusal(q, a, advice)
	}
	advice = "check the ID of the app, and whether the key is one of its keys"
	if at, err := http.ParseTime(a.Header.Get("Date")); err == nil {
		if skew := at.Sub(g.now()).Round(time.Second); skew.Abs() > maxSkew {
			advice = fmt.Sprintf("set the clock of this machine: that of the provider differs by %v", skew)
		}
	}
	return refusal(q, a, advice)
}

// repositoryOf returns the parts of a repository's URL.
func repositoryOf(q credential.Question) (owner, repository string, err error) {
	u, err := url.Parse(q.Repository)
	if err == nil {
		owner, repository, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	}
	if owner == "" || repository == "" || strings.Contains(repository, "/") {
		return "", "", fmt.Errorf("credential %q is an app's, and %s is not the URL of a repository of GitHub: https://host/owner/repository", q.Name, q.Repository)
	}
	return owner, repository, nil
}
