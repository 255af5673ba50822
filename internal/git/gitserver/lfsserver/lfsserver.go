// Package lfsserver is a Git LFS server for tests: the batch API with basic transfers, download and
// upload, for the repositories of gitserver.
//
// Objects match their IDs, unless Spoil or Fail is called. Every transfer is counted on arrival.
// Objects are kept in memory.
//
// A Server has no port of its own: Serve adds it to a repository of a gitserver, which requires
// logins, records requests, and need not be the repository's own server.
package lfsserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

// Pointer is git's replacement of a file.
type Pointer struct {
	OID  string // SHA-256 of the content, in hex
	Size int
}

// PointerTo returns the pointer to a content.
func PointerTo(content string) Pointer {
	sum := sha256.Sum256([]byte(content))
	return Pointer{hex.EncodeToString(sum[:]), len(content)}
}

// String returns the content of the pointer file.
func (p Pointer) String() string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", p.OID, p.Size)
}

// Stats counts the requests for one object.
type Stats struct {
	Asked     int // batch requests
	Downloads int
	Uploads   int
}

// Server serves objects. Its methods may be called concurrently; the zero value has no objects and
// is ready for use.
type Server struct {
	mu      sync.Mutex
	objects map[string]*object
	href    string
	token   string
	hang    map[Step]time.Duration
}

// Step is a point at which Hang stalls.
type Step int

const (
	Asked    Step = iota + 1 // any request, before its headers
	Batch                    // a batch response, after its headers
	Download                 // a download, after its headers
	Verify                   // a download, after its content, which the client verifies when the response ends
)

type object struct {
	content []byte
	present bool
	denied  int // status in batch responses
	broken  int // status of a download
	stats   Stats
}

// object returns the state of an ID. The caller holds s.mu.
func (s *Server) object(oid string) *object {
	if s.objects == nil {
		s.objects = map[string]*object{}
	}
	if s.objects[oid] == nil {
		s.objects[oid] = &object{}
	}
	return s.objects[oid]
}

// Put adds an object.
func (s *Server) Put(content string) Pointer {
	pointer := PointerTo(content)
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.object(pointer.OID)
	o.content, o.present = []byte(content), true
	return pointer
}

// Spoil serves another content under an object's ID.
func (s *Server) Spoil(oid, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.object(oid)
	o.content, o.present = []byte(content), true
}

// Deny makes batch responses refuse an object with a status code such as 404; 0 stops that.
func (s *Server) Deny(oid string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object(oid).denied = code
}

// Fail makes downloads of an object fail with a status code such as 500, though batch responses
// offer it; 0 stops that.
func (s *Server) Fail(oid string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object(oid).broken = code
}

// Href sends transfers to another base URL, to which the object's ID is appended. Empty means the
// host of the request.
func (s *Server) Href(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.href = base
}

// Token makes each transfer require a bearer token, which batch responses contain. An empty token
// removes the requirement.
func (s *Server) Token(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Hang makes responses stall at a step until the client hangs up; with a positive pause they send
// one byte after each pause. A negative pause ends that.
func (s *Server) Hang(at Step, pause time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hang == nil {
		s.hang = map[Step]time.Duration{}
	}
	if s.hang[at] = pause; pause < 0 {
		delete(s.hang, at)
	}
}

// hangs stalls a response if Hang says so, and reports whether it did.
func (s *Server) hangs(w http.ResponseWriter, r *http.Request, at Step) bool {
	s.mu.Lock()
	pause, ok := s.hang[at]
	s.mu.Unlock()
	if !ok {
		return false
	}
	io.Copy(io.Discard, r.Body) // needed to detect that the client hung up
	var drip <-chan time.Time
	if pause > 0 {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		drip = ticker.C
	}
	for {
		if at != Asked {
			if err := http.NewResponseController(w).Flush(); err != nil {
				return true // the client is gone
			}
		}
		select {
		case <-r.Context().Done():
			return true
		case <-drip:
			if _, err := w.Write([]byte(" ")); err != nil {
				return true
			}
		}
	}
}

// Stats returns the counts of an object since the start.
func (s *Server) Stats(oid string) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.object(oid).stats
}

// Serve is a fault for gitserver's Route that handles requests below info/lfs of a repository.
func (s *Server) Serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		repo, rest, ok := strings.Cut(r.URL.Path, "/info/lfs/")
		if ok && s.hangs(w, r, Asked) {
			return
		}
		oid, isObject := strings.CutPrefix(rest, "objects/")
		switch {
		case !ok:
			next.ServeHTTP(w, r)
		case rest == "objects/batch" && r.Method == http.MethodPost:
			s.batch(w, r, repo)
		case isObject && r.Method == http.MethodGet:
			s.download(w, r, oid)
		case isObject && r.Method == http.MethodPut:
			s.upload(w, r, oid)
		default:
			http.NotFound(w, r)
		}
	})
}

type batch struct {
	Operation string  `json:"operation"`
	Objects   []entry `json:"objects"`
}

type entry struct {
	OID     string            `json:"oid"`
	Size    int               `json:"size"`
	Actions map[string]action `json:"actions,omitempty"`
	Error   *failure          `json:"error,omitempty"`
}

type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header,omitempty"`
}

type failure struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request, repo string) {
	var asked batch
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	if s.hangs(w, r, Batch) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	base := s.href
	if base == "" {
		scheme := "http"
		if r.TLS != nil {
			scheme = "https"
		}
		base = scheme + "://" + r.Host + path.Join(repo, "info/lfs/objects")
	}
	for i := range asked.Objects {
		e := &asked.Objects[i]
		o := s.object(e.OID)
		o.stats.Asked++
		to := action{Href: base + "/" + e.OID}
		if s.token != "" {
			to.Header = map[string]string{"Authorization": "Bearer " + s.token}
		}
		switch {
		case o.denied != 0:
			e.Error = &failure{o.denied, http.StatusText(o.denied)}
		case asked.Operation == "upload" && !o.present:
			e.Actions = map[string]action{"upload": to}
		case asked.Operation == "upload": // nothing to do
		case !o.present:
			e.Error = &failure{http.StatusNotFound, "no such object"}
		default:
			e.Actions = map[string]action{"download": to}
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": asked.Objects})
}

func (s *Server) download(w http.ResponseWriter, r *http.Request, oid string) {
	s.mu.Lock()
	o := s.object(oid)
	o.stats.Downloads++
	content, present, broken, token := o.content, o.present, o.broken, s.token
	s.mu.Unlock()
	switch {
	case !allowed(r, token):
		http.Error(w, "the token is missing", http.StatusForbidden)
	case broken != 0:
		http.Error(w, http.StatusText(broken), broken)
	case !present:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
		if s.hangs(w, r, Download) {
			return
		}
		w.Write(content)
		s.hangs(w, r, Verify)
	}
}

func (s *Server) upload(w http.ResponseWriter, r *http.Request, oid string) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.object(oid)
	o.stats.Uploads++
	switch {
	case !allowed(r, s.token):
		http.Error(w, "the token is missing", http.StatusForbidden)
	case PointerTo(string(content)).OID != oid:
		http.Error(w, "the content is another object", http.StatusUnprocessableEntity)
	default:
		o.content, o.present = content, true
	}
}

func allowed(r *http.Request, token string) bool {
	return token == "" || r.Header.Get("Authorization") == "Bearer "+token
}
