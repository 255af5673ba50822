// Package tokenserver has servers that give secrets which end, for tests: the part of
// GitHub's API that an app gets tokens from, and a service for the credentials of the kind
// http. Guard makes a repository of gitserver require such a secret.
package tokenserver

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// GitHub gives tokens to one app. NewGitHub makes one. It is safe for concurrent use.
type GitHub struct {
	Issued
	appID string
	key   *rsa.PrivateKey

	mu        sync.Mutex
	contents  map[string]string // by owner/repository: read or write
	problems  []string
	requested []string
}

// NewGitHub returns a server for an app, which is installed nowhere. The tokens live for a
// time.
func NewGitHub(appID string, life time.Duration) (*GitHub, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	return &GitHub{Issued: newIssued("ghs_", life), appID: appID, key: key, contents: make(map[string]string)}, nil
}

// Key returns the private key of the app, as GitHub gives it to the app's owner.
func (g *GitHub) Key() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(g.key)}))
}

// Install gives the app access to a repository, owner/repository: read or write. Without
// access it removes it.
func (g *GitHub) Install(repository, contents string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.contents, repository)
	if contents != "" {
		g.contents[repository] = contents
	}
}

// Problems returns what was wrong with the proofs of the app: none may be.
func (g *GitHub) Problems() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.problems)
}

// Requests returns the paths that were asked for, with the method.
func (g *GitHub) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.requested)
}

// maxLife is how long the proof of an app may be good.
const maxLife = 10 * time.Minute

// verify checks the proof of the app, as GitHub does.
func (g *GitHub) verify(r *http.Request) error {
	text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return fmt.Errorf("no proof")
	}
	claims := new(jwt.RegisteredClaims)
	_, err := jwt.ParseWithClaims(text, claims, func(*jwt.Token) (any, error) { return &g.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"RS256"}), jwt.WithIssuer(g.appID), jwt.WithIssuedAt(), jwt.WithExpirationRequired(), jwt.WithTimeFunc(g.Now))
	switch {
	case err != nil:
		return err
	case claims.IssuedAt == nil:
		return fmt.Errorf("no iat")
	case claims.ExpiresAt.Sub(claims.IssuedAt.Time) > maxLife || claims.ExpiresAt.After(g.Now().Add(maxLife)):
		return fmt.Errorf("exp is too far in the future")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (g *GitHub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f := g.fault(); f != nil {
		g.count()
		f.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Date", g.Now().UTC().Format(http.TimeFormat))
	err := g.verify(r)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requested = append(g.requested, r.Method+" "+r.URL.Path)
	g.count()
	if err != nil {
		g.problems = append(g.problems, err.Error())
		say(w, http.StatusUnauthorized, map[string]any{"message": "A JSON web token could not be decoded"})
		return
	}
	if name, ok := strings.CutPrefix(r.URL.Path, "/repos/"); ok && r.Method == http.MethodGet {
		if name, ok := strings.CutSuffix(name, "/installation"); ok && g.contents[name] != "" {
			owner, _, _ := strings.Cut(name, "/")
			say(w, http.StatusOK, map[string]any{"id": idOf(owner), "account": map[string]any{"login": owner}, "app_slug": "test"})
			return
		}
	}
	if id, ok := strings.CutPrefix(r.URL.Path, "/app/installations/"); ok && r.Method == http.MethodPost {
		if id, ok := strings.CutSuffix(id, "/access_tokens"); ok {
			g.giveLocked(w, r, id)
			return
		}
	}
	say(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
}

// idOf returns the ID of the installation for an owner.
func idOf(owner string) int {
	id := 1000
	for _, c := range owner {
		id = id*31%1_000_000 + int(c)
	}
	return id
}

// giveLocked gives a token of an installation, with the rights that are asked for.
func (g *GitHub) giveLocked(w http.ResponseWriter, r *http.Request, id string) {
	var want struct {
		Repositories []string          `json:"repositories"`
		Permissions  map[string]string `json:"permissions"`
	}
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&want); err != nil {
		g.problems = append(g.problems, err.Error())
		say(w, http.StatusBadRequest, map[string]any{"message": "Problems parsing JSON"})
		return
	}
	if len(want.Repositories) != 1 || len(want.Permissions) != 1 || want.Permissions["contents"] == "" {
		g.problems = append(g.problems, fmt.Sprintf("more was asked for than one repository and contents: %+v", want))
	}
	for name, contents := range g.contents {
		owner, repository, _ := strings.Cut(name, "/")
		if fmt.Sprint(idOf(owner)) != id || !slices.Contains(want.Repositories, repository) {
			continue
		}
		asked := want.Permissions["contents"]
		if asked != "read" && (asked != "write" || contents != "write") {
			break
		}
		token, expires := g.issue(Grant{User: "x-access-token", Repository: name, Write: asked == "write"})
		say(w, http.StatusCreated, map[string]any{"token": token, "expires_at": expires.UTC().Format(time.RFC3339Nano), "permissions": want.Permissions, "repository_selection": "selected"})
		return
	}
	say(w, http.StatusUnprocessableEntity, map[string]any{"message": "There is at least one repository that does not exist or is not accessible to the parent installation."})
}

func say(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
