package tokenserver

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Grant is what a secret gives a right to.
type Grant struct {
	User, Subject, Repository string
	Write                     bool
	expires                   time.Time
}

// Issued has the secrets that a server gave. It is safe for concurrent use.
type Issued struct {
	mu     sync.Mutex
	prefix string
	life   time.Duration
	ahead  time.Duration
	grants map[string]Grant
	order  []string // the secrets
	asked  int
	broken http.Handler
}

func newIssued(prefix string, life time.Duration) Issued {
	return Issued{prefix: prefix, life: life, grants: make(map[string]Grant)}
}

// Now returns the server's time.
func (i *Issued) Now() time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return time.Now().Add(i.ahead)
}

// Advance sets the server's clock forward, or back. It moves the end of no secret.
func (i *Issued) Advance(by time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.ahead += by
}

// Live sets how long the next secrets live.
func (i *Issued) Live(life time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.life = life
}

// Fail makes h answer all later requests for secrets; nil ends that.
func (i *Issued) Fail(h http.Handler) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = h
}

func (i *Issued) fault() http.Handler {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.broken
}

func (i *Issued) count() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
}

// Asked returns the number of requests.
func (i *Issued) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Secrets returns all secrets that were given, the oldest first.
func (i *Issued) Secrets() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return append([]string(nil), i.order...)
}

// Revoke ends all secrets at once.
func (i *Issued) Revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.grants)
}

func (i *Issued) issue(g Grant) (secret string, expires time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	secret, g.expires = i.prefix+rand.Text(), time.Now().Add(i.ahead+i.life)
	i.grants[secret] = g
	i.order = append(i.order, secret)
	return secret, g.expires
}

// Grant returns what the credential of a request gives a right to, unless it has ended or
// is unknown. Git sends one with a user as a password.
func (i *Issued) Grant(r *http.Request) (Grant, bool) {
	user, secret, basic := r.BasicAuth()
	if !basic {
		secret, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	g, ok := i.grants[secret]
	return g, ok && g.User == user && g.expires.After(time.Now().Add(i.ahead))
}

// Guard puts a check in front of a repository, for gitserver.Server.Route: a request needs
// a secret for which allowed returns true.
func (i *Issued) Guard(allowed func(g Grant) bool) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch g, ok := i.Grant(r); {
			case !ok:
				w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
				http.Error(w, "a secret is needed", http.StatusUnauthorized)
			case !allowed(g):
				http.Error(w, "the secret gives no right to that", http.StatusForbidden)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}
