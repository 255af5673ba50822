// Package gitserver is a real git server on loopback for tests, the demo and the benchmarks:
// net/http in front of the machine's own `git http-backend`, over a folder of bare repositories,
// with generators for their content.
//
// Clients get git's own answers, with protocol 0 and 2, for clone, fetch and push, unless a Fault
// is in front of it. Every request is counted and recorded on arrival, before any fault, so the
// counts are of requests, not of answers. After Close no process of the server is left.
//
// A request passes in this order: the fault of Wrap, the logins of Protect for its repository, the
// repository's faults of Script, those of Route, and git.
//
// It needs no authentication, unless Protect is called. So it listens on 127.0.0.1 only, and is not
// part of the plugin.
package gitserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
)

// Server serves the bare repositories of one folder. Its methods may be called concurrently.
type Server struct {
	dir     string
	base    string
	ca      []byte
	backend http.Handler
	http    *http.Server
	serving sync.WaitGroup
	// handshakes counts those of TLS.
	handshakes atomic.Int64

	mu       sync.Mutex
	next     http.Handler // dispatch, or a fault in front of it
	stats    map[string]*Stats
	requests []Request
	rules    map[string]*rule
}

// Start serves the bare repositories `<dir>/<repo>.git` on a free port of 127.0.0.1 until Close,
// also those that are made later. It fails if the machine has no git or no free port.
func Start(dir string) (*Server, error) {
	s, listener, err := listen(dir)
	if err != nil {
		return nil, err
	}
	s.base = "http://" + listener.Addr().String()
	s.serving.Go(func() { s.http.Serve(listener) })
	return s, nil
}

// listen makes a server and its listener, without serving.
func listen(dir string) (*Server, net.Listener, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	git, err := exec.LookPath("git")
	if err != nil {
		return nil, nil, fmt.Errorf("git server: %w", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("git server: %w", err)
	}
	s := &Server{
		dir: dir,
		backend: &cgi.Handler{
			Path: git,
			Args: []string{"http-backend"},
			Dir:  dir,
			Env: append(environment(),
				"GIT_PROJECT_ROOT="+dir,
				"GIT_HTTP_EXPORT_ALL=1",
				// Without a user's name the backend refuses pushes unless it is told to allow them.
				"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http.receivepack", "GIT_CONFIG_VALUE_0=true",
			),
			Stderr: io.Discard, // the backend complains when a client hangs up
		},
		stats: map[string]*Stats{},
		rules: map[string]*rule{},
	}
	s.next = http.HandlerFunc(s.dispatch)
	// The server logs broken connections, which tests cause on purpose.
	s.http = &http.Server{Handler: s, ErrorLog: log.New(io.Discard, "", 0)}
	return s, listener, nil
}

// URL returns the URL of `<dir>/<repo>.git`, without the suffix.
func (s *Server) URL(repo string) string { return s.base + "/" + repo }

// Addr returns the server's host and port.
func (s *Server) Addr() string {
	_, addr, _ := strings.Cut(s.base, "://")
	return addr
}

// Path returns the folder of the bare repository, for Generate and Commit.
func (s *Server) Path(repo string) string { return filepath.Join(s.dir, repo+".git") }

// Configure sets a variable of the repository's configuration, such as uploadpack.allowFilter or
// uploadpack.allowAnySHA1InWant, for later requests.
func (s *Server) Configure(repo, key, value string) error {
	_, err := git(s.Path(repo), nil, "config", key, value)
	return err
}

// Wrap sets the fault in front of all repositories for later requests; nil removes it. It gets each
// request after it was counted, with its whole body.
func (s *Server) Wrap(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = http.HandlerFunc(s.dispatch)
	if fault != nil {
		s.next = fault(s.next)
	}
}

// Stats returns the counts of one repository since the start or the last Reset.
func (s *Server) Stats(repo string) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stats := s.stats[repo]; stats != nil {
		return *stats
	}
	return Stats{}
}

// Reset sets the counts of all repositories to zero and forgets the requests. Faults and logins
// stay.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.stats)
	s.requests = nil
}

// Close closes all connections, also those that a fault stalls, and returns when the last git has
// ended.
func (s *Server) Close() error {
	err := s.http.Close()
	s.serving.Wait()
	return err
}

// ServeHTTP counts a request and handles it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serving.Add(1)
	defer s.serving.Done()

	// The backend is a CGI program and accepts no chunked bodies, which git sends above a megabyte.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil

	at := split(r)
	asked, err := parse(r.Method, at.service, r.Header.Get("Content-Encoding"), body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at.kind = asked.kind()
	s.mu.Lock()
	next := s.next
	s.count(at.repo, asked)
	s.requests = append(s.requests, Request{
		Repo: at.repo, Kind: at.kind, Method: r.Method, Host: r.Host, URI: r.RequestURI, Header: r.Header.Clone(),
	})
	s.mu.Unlock()
	r = r.WithContext(context.WithValue(r.Context(), targetKey{}, at))
	next.ServeHTTP(&counter{ResponseWriter: w, server: s, repo: at.repo}, r)
}

// count adds to a repository's counts. The caller holds s.mu.
func (s *Server) count(repo string, more Stats) {
	stats := s.stats[repo]
	if stats == nil {
		stats = &Stats{}
		s.stats[repo] = stats
	}
	stats.add(more)
}

// counter counts the bytes of a response body as they are written.
type counter struct {
	http.ResponseWriter
	server *Server
	repo   string
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.server.mu.Lock()
	c.server.count(c.repo, Stats{BytesOut: int64(n)})
	c.server.mu.Unlock()
	return n, err
}

// Unwrap gives http.ResponseController access to the server's own writer.
func (c *counter) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// environment returns git's whole environment, without the user's and the system's configuration.
func environment() []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0",
	}
}

// git runs a git command on a bare repository and returns its trimmed output. The error includes
// git's message.
func git(path string, stdin io.Reader, args ...string) (string, error) {
	out, err := output(path, stdin, args...)
	return strings.TrimSpace(string(out)), err
}

// output is git with untrimmed output.
func output(path string, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.Command("git", append([]string{"--git-dir=" + path}, args...)...)
	cmd.Env = environment()
	cmd.Stdin = stdin
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(exit.Stderr))
	}
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}
