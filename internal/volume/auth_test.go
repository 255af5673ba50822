package volume

import "testing"

// A key can't be handed out, so a volume with an ssh URL can't have auth=container, and a default
// does not apply to it.
func TestAuthNeedsHTTP(t *testing.T) {
	for repo, want := range map[string]string{
		"https://h/o/r":         "",
		"http://127.0.0.1:80/r": "",
		"git@github.com:o/r":    `option "auth": "container" can't be with an ssh URL, because a key is never handed out: use the https URL and a token; allowed: none`,
		"ssh://h/r":             `option "auth": "container" can't be with an ssh URL, because a key is never handed out: use the https URL and a token; allowed: none`,
		"git://h/r":             `option "auth": "container" can't be with a URL of the scheme git, which has no credentials; allowed: none`,
	} {
		got := ""
		if _, err := Parse(map[string]string{"repo": repo, "auth": "container"}, nil, AllSchemes()); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", repo, got, want)
		}
		o, err := Parse(map[string]string{"repo": repo}, map[string]string{"auth": "container"}, AllSchemes())
		if wanted := map[bool]Auth{true: AuthContainer, false: AuthNone}[want == ""]; err != nil || o.Auth != wanted {
			t.Errorf("%s: by default auth=%s, want %s; %v", repo, o.Auth, wanted, err)
		}
	}
}

// A volume can begin without auth=container with what was checkpoint with it, and not the other way round.
func TestFromAuth(t *testing.T) {
	const id = "0123456789abcdef"
	for _, tt := range []struct {
		was, given map[string]string
		want       Auth // empty: refused
	}{
		{map[string]string{"auth": "container"}, nil, AuthContainer},
		{map[string]string{"auth": "container"}, map[string]string{"auth": "none"}, AuthNone},
		{nil, nil, AuthNone},
		{nil, map[string]string{"auth": "container"}, ""},
	} {
		from := map[string]string{"repo": repo}
		given := map[string]string{"repo": repo, "from": id}
		for name, value := range tt.was {
			from[name] = value
		}
		for name, value := range tt.given {
			given[name] = value
		}
		o, err := ParseFrom(given, map[string]string{"auth": "container"}, from, Schemes{})
		if o.Auth != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%v of %v: auth=%q, want %q; %v", tt.given, tt.was, o.Auth, tt.want, err)
		}
	}
}
