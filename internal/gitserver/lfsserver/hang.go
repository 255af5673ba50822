package lfsserver

import (
	"net/http"
	"strings"
	"time"

	"github.com/helmdeck/repos/internal/gitserver"
)

// Where a server of Hang falls silent.
type Where int

const (
	// InBatch: the answer to a batch has headers and no body.
	InBatch Where = iota
	// InDownload: an object has headers and no content.
	InDownload
	// InContent: an object comes byte by byte, one each second, so that the connection is never silent; its end, which
	// is what the client needs to verify it, does not come.
	InContent
)

// Hang is in front of Serve for ever silent in one place, until the client hangs up: an argument for gitserver's Route.
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
