package gitserver

import (
	"net/http"
)

// Stall is a fault for Wrap: a server that takes requests and answers none until release is closed. A request that was
// waiting then goes on; one whose client hangs up ends.
func Stall(release <-chan struct{}) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-release:
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
}

// Fail is a fault for Wrap: every request is answered with the status code and its text.
func Fail(code int) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, http.StatusText(code), code)
		})
	}
}

// Cut is a fault for Wrap: the connection breaks after the first size bytes of every answer's body. Shorter answers
// arrive whole.
func Cut(size int) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cut := &cutter{ResponseWriter: w, left: size}
			next.ServeHTTP(cut, r)
			if cut.left < 0 {
				panic(http.ErrAbortHandler) // net/http's way to break a connection without a word
			}
		})
	}
}

// cutter passes on the first bytes of an answer and swallows the rest; left is negative once it has swallowed any.
type cutter struct {
	http.ResponseWriter
	left int
}

func (c *cutter) Write(p []byte) (int, error) {
	if c.left < 0 {
		return len(p), nil
	}
	pass := p[:min(len(p), c.left)]
	c.left -= len(p)
	if _, err := c.ResponseWriter.Write(pass); err != nil {
		return 0, err
	}
	if c.left < 0 {
		return len(p), http.NewResponseController(c.ResponseWriter).Flush()
	}
	return len(p), nil
}
