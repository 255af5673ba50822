package git

import (
	"net/url"
	"strings"
	"testing"
)

func TestRedirect(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{ // an empty want is a refusal
		{"https://h/a", "https://h/b/info/refs?service=git-upload-pack", "https://h/b"},
		{"https://h/a", "https://h/b.git/info/refs", "https://h/b.git"},
		{"https://h/a", "https://H:443/b/info/refs", "https://H:443/b"},
		{"http://h/a", "https://h/a/info/refs", "https://h/a"},
		{"http://h:80/a", "https://h:443/a/info/refs", "https://h:443/a"},
		{"https://h/a b", "https://h/c%20d/info/refs", "https://h/c%20d"},
		{"http://h:8080/a", "https://h/a/info/refs", ""},
		{"http://h/a", "https://h:8443/a/info/refs", ""},
		{"https://h/a", "http://h/a/info/refs", ""},
		{"https://h/a", "https://h:444/a/info/refs", ""},
		{"https://h/a", "https://other/a/info/refs", ""},
		{"https://h/a", "https://h.other/a/info/refs", ""},
		{"https://h/a", "https://u:p@h/b/info/refs", ""},
		{"https://h/a", "https://h/login", ""},
		{"https://h/a", "ftp://h/b/info/refs", ""},
		{"https://h/a", "file:///etc/info/refs", ""},
	} {
		from, err := url.Parse(c.from)
		if err != nil {
			t.Fatal(err)
		}
		to, err := url.Parse(c.to)
		if err != nil {
			t.Fatal(err)
		}
		got, err := redirect(from, to)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s to %s: got %q, %v; want %q", c.from, c.to, got, err, c.want)
		}
		if err != nil && (KindOf(err) != KindRedirect || strings.Contains(err.Error(), "u:p")) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}
