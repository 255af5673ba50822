package credential

import (
	"strings"
	"testing"
)

func TestParseScope(t *testing.T) {
	all := []string{"https", "http", "ssh"}
	for _, tt := range []struct{ in, want string }{
		{"https://Git.Example.com", "https://git.example.com"},
		{"https://h/", "https://h"},
		{"https://h:443//", "https://h"},
		{"https://h:8443/", "https://h:8443"},
		{"HTTPS://h/Org/", "https://h/Org"},
		{"https://h/o/r.git", "https://h/o/r"},
		{"http://127.0.0.1:80/", "http://127.0.0.1"},
		{"http://[2001:DB8::1]:81", "http://[2001:db8::1]:81"},
		{"ssh://h", "ssh://h"},
		{"ssh://git@h:22/", "ssh://git@h"},
		{"ssh://git@h:2222/o", "ssh://git@h:2222/o"},
		{"ssh://git@h/~/o", "ssh://git@h/o"},
		{"ssh://git@h/~bob/o", "ssh://git@h/~bob/o"},
		{"git@h:o", "ssh://git@h/o"},
		{"git@h:/o/", "ssh://git@h/o"},
		{"git@h:", "ssh://git@h"},
		{"https://h/_", "https://h/_"},
	} {
		s, err := parseScope(tt.in, all)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if got := s.String(); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
		// The normalized form parses to the same scope.
		if again, err := parseScope(s.String(), all); err != nil || again != s {
			t.Errorf("%q again: got %+v, %v, want %+v", tt.in, again, err, s)
		}
	}
}

func TestParseScopeRefuses(t *testing.T) {
	for _, tt := range []struct {
		in      string
		schemes []string
		want    string
	}{
		{"", []string{"https"}, "scope empty value; allowed: https://host/path, or a part of the path, or none"},
		{"github.com", []string{"https"}, `scope "github.com" is not a URL`},
		{"https://", []string{"https"}, "scope"},
		{"https://u:" + hidden + "@h/o", []string{"https"}, `"https://***@h/o" contains a password or token`},
		{"https://" + hidden + "@h", []string{"https"}, `"https://***@h" contains a user name`},
		{"https://" + hidden + "@h/o", []string{"https"}, `"https://***@h/o" contains a user name: it is the credential's user; allowed: https://host/path`},
		{"https://ghp_0123456789" + hidden + "@h", []string{"https"}, "contains a password or token"},
		{"https://h/o?token=" + hidden, []string{"https"}, "query"},
		{"https://h?x", []string{"https"}, "query"},
		{"https://h/..", []string{"https"}, ". or .."},
		{"https://*.example.com", []string{"https"}, "has a host that"},
		{"http://h", []string{"https"}, `"http://h" has a scheme that does not fit the kind; allowed: https://`},
		{"git@h:o", []string{"https"}, `"ssh://git@h/o" has a scheme`},
		{"https://h", []string{"ssh"}, "allowed: ssh://user@host/path"},
		{"git://h/o", []string{"https", "http"}, "has a scheme"},
		{"file:///etc", []string{"https"}, "the scheme file"},
	} {
		_, err := parseScope(tt.in, tt.schemes)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want %q", tt.in, err, tt.want)
			continue
		}
		shows(t, tt.in, err.Error())
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		scope, url string
		want       bool
	}{
		{"https://h", "https://h/o/r", true},
		{"https://h/o", "https://h/o/r", true},
		{"https://h/o/r", "https://h/o/r.git", true},
		{"https://h/o/r.git", "https://h/o/r", true},
		{"https://h/o/r", "https://h/o/r/info/lfs", true},
		{"https://h/o/r", "https://h/o/r.git/info/lfs", true},
		{"https://h:443/o", "https://H/o/r", true},
		{"https://h/o", "https://h/o", true},
		{"https://h/o", "https://h/o.git", true},
		{"ssh://git@h/o", "git@h:o/r", true},
		{"ssh://git@h/o", "ssh://git@h:22/~/o/r", true},
		{"git@h:o", "ssh://git@h/o/r", true},
		{"ssh://h", "ssh://anyone@h/o/r", true},
		{"ssh://h", "h:r", true},

		{"https://h/o", "https://h/other/r", false},
		{"https://h/o/r", "https://h/o/r2", false},
		{"https://h/o/r", "https://h/o/r.github", false},
		{"https://h/o/r", "https://h/o", false},
		{"https://h/o", "https://h/O/r", false},
		{"https://h/o", "https://h/%6f/r", false},
		{"https://h/o", "https://h/o%2Fr", false},
		{"https://h", "http://h/o/r", false},
		{"http://h", "https://h/o/r", false},
		{"https://h", "https://h:8443/o/r", false},
		{"https://h:8443", "https://h/o/r", false},
		{"https://h", "http://h:443/o/r", false},
		{"https://h", "https://h.evil.example/o/r", false},
		{"https://example.com", "https://sub.example.com/r", false},
		{"https://sub.example.com", "https://example.com/r", false},
		{"https://127.0.0.1", "https://localhost/r", false},
		{"ssh://git@h", "ssh://other@h/o/r", false},
		{"ssh://git@h", "ssh://h/o/r", false},
		{"ssh://git@h/~bob", "ssh://git@h/bob/r", false},
		{"ssh://git@h:2222", "git@h:o/r", false},
		{"ssh://h", "https://h/o/r", false},
		{"ssh://h", "git://h/o/r", false},
	} {
		s, err := parseScope(tt.scope, []string{"https", "http", "ssh"})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.covers(scopeOf(parse(t, tt.url))); got != tt.want {
			t.Errorf("%q covers %q: got %v, want %v", tt.scope, tt.url, got, tt.want)
		}
	}
}
