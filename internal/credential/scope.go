package credential

import (
	"slices"
	"strings"

	"github.com/helmdeck/repos/internal/volume"
)

// scope is a URL prefix, or a whole URL.
type scope struct {
	scheme, user string
	host         string // with the port, if it is not the scheme's default; an IPv6 address in brackets
	path         string // empty, or beginning with a slash; no .git at its end
}

// forms has an example of a scope for each scheme.
var forms = map[string]string{"https": "https://host/path", "http": "http://host/path", "ssh": "ssh://user@host/path"}

func parseScope(text string, schemes []string) (scope, error) {
	var allowed []string
	for _, s := range schemes {
		allowed = append(allowed, forms[s])
	}
	suffix := "; allowed: " + strings.Join(allowed, ", ") + ", or a part of the path, or none"
	u, err := volume.ParseURL(text, volume.AllSchemes())
	s := scopeOf(u)
	if err != nil {
		// A scope for a whole host has no path, so it is not the URL of a repository.
		host, hostErr := volume.ParseURL(strings.TrimRight(text, "/")+"/_", volume.AllSchemes())
		if s = scopeOf(host); hostErr != nil || s.path != "/_" {
			e := optionError("scope", err)
			e.Problem += suffix
			return scope{}, e
		}
		s.path, u = "", host
	}
	if u.HTTPUser() != "" { // it may be a token
		return scope{}, invalid("scope", "%q contains a user name: it is the credential's user%s", volume.Redact(text), suffix)
	}
	if !slices.Contains(schemes, s.scheme) {
		return scope{}, invalid("scope", "%.200q has a scheme that does not fit the kind%s", s, suffix)
	}
	return s, nil
}

func scopeOf(u volume.URL) scope {
	scheme, rest, _ := strings.Cut(u.Normalized(), "://")
	host, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	user := ""
	if i := strings.IndexByte(host, '@'); i >= 0 {
		user, host = host[:i], host[i+1:]
	}
	if home, ok := strings.CutPrefix(path, "/~/"); ok && scheme == "ssh" {
		path = "/" + home
	}
	return scope{scheme: scheme, user: user, host: host, path: path}
}

// covers reports whether s is a prefix of u. The scope of the repository r also covers
// all URLs below r.git, such as its LFS endpoint.
func (s scope) covers(u scope) bool {
	if s.scheme != u.scheme || s.host != u.host || s.user != "" && s.user != u.user {
		return false
	}
	rest, ok := strings.CutPrefix(u.path, s.path)
	return ok && (s.path == "" || rest == "" || rest[0] == '/' || strings.HasPrefix(rest, ".git/"))
}

func (s scope) String() string {
	user := s.user
	if user != "" {
		user += "@"
	}
	return s.scheme + "://" + user + s.host + s.path
}
