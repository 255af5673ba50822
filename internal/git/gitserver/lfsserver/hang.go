package lfsserver

import (
	"net/http"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

// Where is the place at which Hang stalls.
type Where int

const (
	// InBatch: after the headers of a batch response.
	InBatch Where = iota
	// InDownload: after the headers of an object.
	InDownload
	// InContent: an object is sent at one byte per second, so that the connection is never silent,
	// but does not end.
	InContent
)

// Hang stalls in one place until the client hangs up. It is a fault for gitserver's Route, in front
// of Serve.
func Hang(where Where) gitserver.Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, rest, ok := strings.Cut(r.URL.Path, "/info/lfs/objects/")
			switch {
			case !ok || (rest == "batch") != (where == InBatch):
				next.ServeHTTP(w, r)
				return
			case where == InBatch:
				w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
			default:
				w.Header().Set("Content-Type", "application/octet-stream")
			}
			w.WriteHeader(http.StatusOK)
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			if where == InContent {
				gitserver.Trickle(w, r, time.Second, func(int) []byte { return []byte{0} })
			}
			<-r.Context().Done()
		})
	}
}
