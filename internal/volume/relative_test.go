package volume

import "testing"

func TestParseRelative(t *testing.T) {
	for _, tt := range []struct{ base, text, want string }{ // an empty want means an error
		{"https://h/o/r", "../s", "https://h/o/s"},
		{"https://h/o/r.git", "../s.git", "https://h/o/s.git"},
		{"https://h/o/r", "../../p/s", "https://h/p/s"},
		{"https://h/o/r", "./s", "https://h/o/r/s"},
		{"https://h/o/r", "./../s", "https://h/o/s"},
		{"https://h:8443/o/r", "../s/", "https://h:8443/o/s"},
		{"https://h/r", "../s", "https://h/s"},
		{"https://h/r", "../../s", ""},
		{"https://h/r", "../../../other.example/s", ""},
		{"git@h:o/r", "../s", "git@h:o/s"},
		{"git@h:r", "../s", "git@h:s"},
		{"git@h:r", "../../s", ""},
		{"git@h:/o/r", "../s", "git@h:/o/s"},
		{"ssh://git@h:22/~/o/r", "../s", "ssh://git@h:22/~/o/s"},
		{"https://h/o/r", "../a/../../b", ""},
		{"https://h/o/r", "../s?x=1", ""},
		{"https://h/o/r", "../s\r", ""},
		{"git@h:o/r", "../../-oProxyCommand=x", ""},
		{"https://h/o/r", "https://g/s", "https://g/s"},
		{"https://h/o/r", "/etc", ""},
		{"https://h/o/r", "..", ""},
		{"https://h/o/r", "file:///etc", ""},
		{"https://h/o/r", "ext::sh -c id", ""},
		{"https://h/o/r", "--upload-pack=x", ""},
		{"https://h/o/r", "ssh://-oProxyCommand=x/s", ""},
		{"https://h/o/r", "https://user:pw@h/s", ""},
	} {
		base, err := ParseURL(tt.base, AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		u, err := base.ParseRelative(tt.text, AllSchemes())
		if got := u.String(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%s: ParseRelative(%q) = %q, %v, want %q", tt.base, tt.text, got, err, tt.want)
		}
	}
}

func TestPort(t *testing.T) {
	for text, want := range map[string]string{
		"https://h/r": "443", "http://h/r": "80", "http://h:8080/r": "8080", "h:r": "22", "git://h/r": "9418",
	} {
		u, err := ParseURL(text, AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Port(); got != want {
			t.Errorf("%s: port %q, want %q", text, got, want)
		}
	}
}

func TestOverHTTP(t *testing.T) {
	for text, want := range map[string]string{
		"https://h:8443/o/r.git": "https://h:8443/o/r.git", "http://h/r": "http://h/r",
		"git@h:o/r.git": "https://h/o/r.git", "ssh://git@h:2222/o/r": "https://h/o/r", "git://h/r": "https://h/r",
	} {
		u, err := ParseURL(text, AllSchemes())
		if err != nil {
			t.Fatal(err)
		}
		if got := u.OverHTTP(); got != want {
			t.Errorf("%s: OverHTTP %q, want %q", text, got, want)
		}
	}
}
