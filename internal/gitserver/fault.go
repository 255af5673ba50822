package gitserver

import (
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault stands in front of git, or of the next fault: an argument for Wrap, Script and Route.
type Fault = func(next http.Handler) http.Handler

// On limits a fault to requests of one kind; the others pass.
func On(kind Kind, fault Fault) Fault {
	return func(next http.Handler) http.Handler {
		faulty := fault(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if targetOf(r).kind == kind {
				faulty.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Repeat is n times the same fault, for Script.
func Repeat(n int, fault Fault) []Fault {
	faults := make([]Fault, n)
	for i := range faults {
		faults[i] = fault
	}
	return faults
}

// Stall is a server that takes requests and answers none until release is closed. A request that was
// waiting then goes on; one whose client hangs up ends.
func Stall(release <-chan struct{}) Fault {
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

// Fail answers every request with the status code and its text; 401 with the challenge of basic authentication, 429
// with a Retry-After of one second.
func Fail(code int) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch code {
			case http.StatusUnauthorized:
				w.Header().Set("WWW-Authenticate", challenge)
			case http.StatusTooManyRequests:
				w.Header().Set("Retry-After", "1")
			}
			http.Error(w, http.StatusText(code), code)
		})
	}
}

// Redirect sends every request with the status code (301, 302, 307, 308) to another repository: base is its address, on
// this host or another, and the rest of the path and the query are appended as they are.
func Redirect(code int, base string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			to := base + targetOf(r).rest
			if r.URL.RawQuery != "" {
				to += "?" + r.URL.RawQuery
			}
			http.Redirect(w, r, to, code)
		})
	}
}

// Cut is a broken line: the connection breaks after the first size bytes of every answer's body. Shorter answers
// arrive whole.
func Cut(size int) Fault {
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

// Unwrap lets http.ResponseController reach what the server's own writer can do.
func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// StallAfter is a server that falls silent after the first size bytes of every answer's body until release is closed,
// and then goes on; nil is never. Shorter answers arrive whole.
func StallAfter(size int, release <-chan struct{}) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&pacer{ResponseWriter: w, size: size, wait: func() error {
				select {
				case <-release:
					return nil
				case <-r.Context().Done():
					return r.Context().Err()
				}
			}}, r)
		})
	}
}

// Drip is a slow line: after every size bytes of an answer's body it rests for the time given.
func Drip(size int, rest time.Duration) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&pacer{ResponseWriter: w, size: size, again: true, wait: func() error {
				select {
				case <-time.After(rest):
					return nil
				case <-r.Context().Done():
					return r.Context().Err()
				}
			}}, r)
		})
	}
}

// Packing is a server that needs the time given before the first byte of a pack, and keeps the connection alive with
// an empty packet at every interval, as git's own does while it counts and compresses.
func Packing(rest, every time.Duration) Fault {
	return On(Fetch, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := &recorder{header: w.Header(), code: http.StatusOK}
			next.ServeHTTP(answer, r)
			w.WriteHeader(answer.code)
			const mark = "packfile\n"
			before, after, found := strings.Cut(answer.body.String(), mark)
			if !found {
				io.WriteString(w, before)
				return
			}
			io.WriteString(w, before+mark)
			tick := time.NewTicker(every)
			defer tick.Stop()
			for began := time.Now(); time.Since(began) < rest; {
				io.WriteString(w, "0005\x01")
				if http.NewResponseController(w).Flush() != nil {
					return
				}
				select {
				case <-tick.C:
				case <-r.Context().Done():
					return
				}
			}
			io.WriteString(w, after)
		})
	})
}

// pacer waits when size bytes have been written, once or every time.
type pacer struct {
	http.ResponseWriter
	size, sent int
	again      bool
	wait       func() error
}

func (p *pacer) Write(b []byte) (int, error) {
	written := 0
	for p.size > 0 && p.sent+len(b) > p.size {
		n, err := p.ResponseWriter.Write(b[:p.size-p.sent])
		written += n
		if err != nil {
			return written, err
		}
		if err := http.NewResponseController(p.ResponseWriter).Flush(); err != nil {
			return written, err
		}
		if err := p.wait(); err != nil {
			return written, err
		}
		b = b[n:]
		p.sent = 0
		if !p.again {
			p.size = 0
		}
	}
	n, err := p.ResponseWriter.Write(b)
	p.sent += n
	return written + n, err
}

// Unwrap lets http.ResponseController reach what the server's own writer can do.
func (p *pacer) Unwrap() http.ResponseWriter { return p.ResponseWriter }
