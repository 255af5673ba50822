package quarantine

import (
	"crypto/rand"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/helmdeck/repos/internal/git"
	"github.com/helmdeck/repos/internal/git/giterror"
	"github.com/helmdeck/repos/internal/git/gitserver"
)

// TestPushWithoutALengthIsRefused pushes more than git sends with a length, through a server or a
// proxy that wants one, and through one that limits the size.
func TestPushWithoutALengthIsRefused(t *testing.T) {
	t.Parallel()
	const size = 3 << 20
	for _, tt := range []struct {
		name            string
		chunked, length int   // the status of requests of either kind with more than 1 MiB; 0 passes
		buffer          int64 // git.Config.PostBuffer
		want            giterror.Kind
		tries           int64
		advice          string
	}{
		{"411", http.StatusLengthRequired, 0, 64 << 20, "", 2, ""},
		{"400", http.StatusBadRequest, 0, 64 << 20, "", 2, ""},
		{"411, and the length is too large", http.StatusLengthRequired, http.StatusRequestEntityTooLarge, 64 << 20, giterror.KindTooLarge, 2, "client_max_body_size"},
		{"larger than the buffer", http.StatusLengthRequired, 0, 2 << 20, giterror.KindRequest, 2, "HTTP_POST_BUFFER"},
		{"no buffer", http.StatusLengthRequired, 0, 0, giterror.KindRequest, 1, "HTTP_POST_BUFFER"},
		{"400 for another reason", http.StatusBadRequest, http.StatusBadRequest, 64 << 20, giterror.KindRequest, 2, "ask the server's owner"},
		{"413", http.StatusRequestEntityTooLarge, http.StatusRequestEntityTooLarge, 64 << 20, giterror.KindTooLarge, 1, "push fewer commits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.q.Git = withBuffer(t, s, tt.buffer)
			data := make([]byte, size)
			rand.Read(data)
			want := s.commit("big", string(data))
			var tries atomic.Int64
			s.server.Route("r", gitserver.On(gitserver.Push, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					code := 0
					switch {
					case r.Header.Get("Content-Length") == "": // r.ContentLength is what the server has read
						code = tt.chunked
					case r.ContentLength > 1<<20:
						code = tt.length
					default: // git's test request
						next.ServeHTTP(w, r)
						return
					}
					if tries.Add(1); code != 0 {
						http.Error(w, http.StatusText(code), code)
						return
					}
					next.ServeHTTP(w, r)
				})
			}))
			err := s.push("main", "big", "")
			if got := giterror.KindOf(err); got != tt.want || tries.Load() != tt.tries {
				t.Fatalf("%d tries, %v; want %d and the kind %q", tries.Load(), err, tt.tries, tt.want)
			}
			if err == nil {
				if got := s.at("big"); got != want {
					t.Errorf("the remote is at %q, want %q", got, want)
				}
				return
			}
			if text := err.Error(); !strings.Contains(text, tt.advice) || strings.Contains(text, "try again") {
				t.Errorf("%v, want advice about %q", err, tt.advice)
			}
		})
	}
}

// withBuffer returns a Git like that of the scene, with a Config.PostBuffer.
func withBuffer(t *testing.T, s *scene, size int64) *git.Git {
	t.Helper()
	g, err := git.New(git.Config{Program: s.q.Git.Program(), UID: fetcher, GID: fetcher, Schemes: []string{"http"}, PostBuffer: size})
	if err != nil {
		t.Fatal(err)
	}
	return g
}
