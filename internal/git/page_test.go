package git

import (
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestPage asks websites for refs, in this process and, with the name of a user in the URL, through
// git, which takes a page of one line for the list of an empty repository.
func TestPage(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	testgit.Git(t, "/", "init", "-q", "--bare", s.Path("empty"))
	protocol0 := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Git-Protocol")
			next.ServeHTTP(w, r)
		})
	}
	dumb, err := s.Dumb("empty")
	if err != nil {
		t.Fatal(err)
	}
	const lines = "<!DOCTYPE html>\n<html>\n<head><title>Sign in</title></head>\n</html>\n"
	for _, tt := range []struct {
		name  string
		fault gitserver.Fault
		want  giterror.Kind
	}{
		{"one line", gitserver.Page("text/html", "<html>Sign in</html>"), giterror.KindPage},
		{"lines", gitserver.Page("text/html; charset=utf-8", lines), giterror.KindPage},
		{"of another type", gitserver.Page("text/plain", lines), giterror.KindPage},
		{"a word", gitserver.Page("text/plain", "OK"), giterror.KindPage},
		{"in place of refs", gitserver.On(gitserver.LsRefs, gitserver.Page("text/html", lines)), giterror.KindPage},
		{"an empty repository", nil, ""},
		{"an empty repository, protocol 0", protocol0, ""},
		{"an empty repository of plain files", dumb, ""},
	} {
		s.Route("empty", tt.fault)
		if tt.fault == nil {
			s.Route("empty")
		}
		url := s.URL("empty")
		for _, url := range []string{url, strings.Replace(url, "://", "://user@", 1)} {
			answer, err := g.LsRefs(t.Context(), Remote{URL: url}, "refs/heads/")
			if giterror.KindOf(err) != tt.want || err == nil && len(answer.IDs) > 0 || err != nil && tt.want == "" {
				t.Errorf("%s, %s: %v, %v; want the kind %q", tt.name, url, answer, err, tt.want)
			}
			if tt.want != "" && !strings.Contains(err.Error(), "check the URL") {
				t.Errorf("%s: %v, want advice", tt.name, err)
			}
		}
	}
}
