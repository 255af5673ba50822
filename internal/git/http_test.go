package git

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
)

func TestRedirect(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{ // an empty want means an error
		{"https://h/a", "https://h/b/info/refs?service=git-upload-pack", "https://h/b"},
		{"https://h/a", "https://h/b.git/info/refs", "https://h/b.git"},
		{"https://h/a", "https://H:443/b/info/refs", "https://h:443/b"},
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
		if err != nil && (giterror.KindOf(err) != giterror.KindRedirect || strings.Contains(err.Error(), "u:p")) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

// TestFollow checks that three redirects in a row are followed, and a fourth is not.
func TestFollow(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	for i, to := range []string{"r", "old-1", "old-2", "old-3"} {
		s.Route(fmt.Sprint("old-", i+1), gitserver.Redirect(http.StatusMovedPermanently, s.URL(to)))
	}
	for n := 1; n <= MaxRedirects; n++ {
		if refs, err := g.LsRefs(t.Context(), Remote{URL: s.URL(fmt.Sprint("old-", n))}); err != nil || refs.Head != "refs/heads/main" {
			t.Errorf("%d redirects: %+v, %v", n, refs, err)
		}
	}
	_, err := g.LsRefs(t.Context(), Remote{URL: s.URL("old-4")})
	if giterror.KindOf(err) != giterror.KindRedirect || !strings.Contains(err.Error(), "more than 3 times") {
		t.Errorf("4 redirects: %v, want an error", err)
	}
}
