package gitserver

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault is a handler in front of git, or of the next fault, for Wrap, Script and Route.
type Fault = func(next http.Handler) http.Handler

// On limits a fault to requests of one kind.
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

// OnDepth limits a fault to fetches that ask for a depth or, if deepen is false, to those that ask
// for all of the history.
func OnDepth(deepen bool, fault Fault) Fault {
	return On(Fetch, func(next http.Handler) http.Handler {
		faulty := fault(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := plainBody(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			if bytes.Contains(body, []byte("deepen ")) == deepen {
				faulty.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
}

// Repeat returns the same fault n times, for Script.
func Repeat(n int, fault Fault) []Fault {
	faults := make([]Fault, n)
	for i := range faults {
		faults[i] = fault
	}
	return faults
}

// Stall holds all requests until release is closed, and then passes them on. A request whose client
// hangs up ends.
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

// Gate is a Stall that sends to Arrived for each request before the request waits. Closing Open
// releases all.
type Gate struct{ Arrived, Open chan struct{} }

// NewGate returns a closed Gate.
func NewGate() Gate { return Gate{make(chan struct{}, 1000), make(chan struct{})} }

// Fault returns the Gate in front of next.
func (g Gate) Fault(next http.Handler) http.Handler {
	stalled := Stall(g.Open)(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Arrived <- struct{}{}
		stalled.ServeHTTP(w, r)
	})
}

// Fail answers every request with the status code and its text, 401 with a challenge for basic
// authentication, and 429 with a Retry-After of one second.
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

// Page answers every request with a text of a content type, and the status 200, as a website does.
func Page(kind, text string) Fault {
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, text)
		})
	}
}

// Redirect redirects every request with the status code (301, 302, 307, 308) to another repository:
// base is its URL, on this host or another, to which it appends the rest of the path and the query.
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

// Cut breaks the connection after the first size bytes of every response body. Shorter responses
// are complete.
func Cut(size int) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			cut := &cutter{ResponseWriter: w, left: size}
			next.ServeHTTP(cut, r)
			if cut.left < 0 {
				panic(http.ErrAbortHandler) // makes net/http close the connection silently
			}
		})
	}
}

// cutter writes the first bytes of a response and drops the rest; left is negative once it has
// dropped any.
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

// Unwrap gives http.ResponseController access to the server's own writer.
func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// StallAfter stalls every response after the first size bytes of its body, until release is closed;
// nil means for ever. Shorter responses are complete.
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

// Drip pauses every response after each size bytes of its body.
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

// Packing delays every pack, and keeps the connection alive with an empty packet at every interval,
// as git does while it counts and compresses.
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

// pacer waits after size bytes, once or every time.
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

// Unwrap gives http.ResponseController access to the server's own writer.
func (p *pacer) Unwrap() http.ResponseWriter { return p.ResponseWriter }
