package git

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
	"github.com/helmdeck/repos/tests/testgit"
)

// TestRealFailures asks for refs in ways that must fail.
func TestRealFailures(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	for _, tt := range []struct {
		name, url string
		fault     func(http.Handler) http.Handler
		want      giterror.Kind
		definite  bool
	}{
		{"no repository", s.URL("nobody"), nil, giterror.KindNotFound, true},
		{"401", s.URL("r"), gitserver.Fail(401), giterror.KindAuth, true},
		{"403", s.URL("r"), gitserver.Fail(403), giterror.KindAuth, true},
		{"404", s.URL("r"), gitserver.Fail(404), giterror.KindNotFound, true},
		{"429", s.URL("r"), gitserver.Fail(429), giterror.KindServer, false},
		{"500", s.URL("r"), gitserver.Fail(500), giterror.KindServer, false},
		{"502", s.URL("r"), gitserver.Fail(502), giterror.KindServer, false},
		{"cut", s.URL("r"), gitserver.Cut(20), giterror.KindServer, false},
		{"no answer", s.URL("r"), hangUp, giterror.KindServer, false},
		{"refused port", "http://" + testgit.Refusing(t) + "/r", nil, giterror.KindRefused, true},
		{"unknown host", "http://nonexistent.invalid/r", nil, giterror.KindHost, true},
		{"no TLS there", strings.Replace(s.URL("r"), "http:", "https:", 1), nil, giterror.KindTLS, true},
		{"local path", "/etc", nil, giterror.KindProtocol, true},
		{"file", "file:///etc", nil, giterror.KindProtocol, true},
		{"ext", "ext::sh -c id", nil, giterror.KindProtocol, true},
		{"option", "--upload-pack=id", nil, giterror.KindOther, false}, // the parser of URLs refuses it earlier
	} {
		s.Wrap(tt.fault)
		_, err := g.LsRefs(t.Context(), Remote{URL: tt.url}, "refs/heads/main")
		if got := giterror.KindOf(err); got != tt.want || got.Definite() != tt.definite {
			t.Errorf("%s: %v; got kind %q, want %q", tt.name, err, got, tt.want)
		}
		if e, ok := errors.AsType[*giterror.Error](err); !ok || e.URL != tt.url || !strings.Contains(err.Error(), tt.url) {
			t.Errorf("%s: %v does not name the URL", tt.name, err)
		}
	}
}

// hangUp is a server that closes every connection without an answer.
func hangUp(http.Handler) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// TestRemoteSaysNoSpace checks that a remote can't cause an eviction with a message about a full
// disk.
func TestRemoteSaysNoSpace(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	const words = "No space left on device"
	dir := store(t, g)
	s.Wrap(gitserver.On(gitserver.Fetch, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			fmt.Fprintf(w, "%04xERR %s", len("0000ERR ")+len(words), words)
		})
	}))
	err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything})
	if got := giterror.KindOf(err); got != giterror.KindOther || !strings.Contains(err.Error(), "remote error: "+words) {
		t.Errorf("got %v, of kind %q", err, got)
	}
}
