// Package lfsserver is a Git LFS server for tests: the batch API with basic transfers, download and upload, beside the
// repositories of gitserver.
//
// A caller may rely on what git-lfs can: an object is what its id says, unless Spoil or Fail decide otherwise. Every
// transfer is counted as it arrives. Objects are kept in memory.
//
// A Server has no port of its own: Serve hooks it into a repository of gitserver, which asks for logins, records what
// arrives, and can be another host than the one that the repository is on.
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

// Pointer is what git keeps in place of a file.
type Pointer struct {
	OID  string // SHA-256 of the content, in hex
	Size int
}

// PointerTo is the pointer to a content.
func PointerTo(content string) Pointer {
	sum := sha256.Sum256([]byte(content))
	return Pointer{hex.EncodeToString(sum[:]), len(content)}
}

// String is the pointer file.
func (p Pointer) String() string {
	return fmt.Sprintf("version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n", p.OID, p.Size)
}

// Stats counts what clients did with one object.
type Stats struct {
	Asked     int // in batches
	Downloads int
	Uploads   int
}

// Server has objects. Its methods may be called concurrently; the zero value has no objects and is ready for use.
type Server struct {
	mu      sync.Mutex
	objects map[string]*object
	href    string
	token   string
	hang    map[Step]time.Duration
}

// Step is a point at which Hang has the server stop.
type Step int

const (
	Asked    Step = iota + 1 // any request, before its headers
	Batch                    // the answer to a batch, after its headers
	Download                 // the answer to a download, after its headers
	Verify                   // the same, after all of the content, which the client verifies when the answer ends
)

type object struct {
	content []byte
	present bool
	denied  int // status in the answer to a batch
	broken  int // status of a download
	stats   Stats
}

// object returns what is known of an id. s.mu must be held.
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

// Spoil serves another content under an object's id.
func (s *Server) Spoil(oid, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.object(oid)
	o.content, o.present = []byte(content), true
}

// Deny says in the answers to batches that an object can't be had, with a status code such as 404; 0 stops that.
func (s *Server) Deny(oid string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object(oid).denied = code
}

// Fail promises an object and answers its downloads with a status code such as 500; 0 stops that.
func (s *Server) Fail(oid string, code int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.object(oid).broken = code
}

// Href sends transfers to another address: the object's id is appended. Empty is the host that was asked.
func (s *Server) Href(base string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.href = base
}

// Token gives each transfer a bearer token to show, and asks for it. Empty asks for none.
func (s *Server) Token(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Hang has answers send nothing more from a step on, or with a pause a byte after each, for ever: until the client is
// gone. A negative pause takes that back.
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

// hangs hangs an answer, if it is to, and reports whether it did.
func (s *Server) hangs(w http.ResponseWriter, r *http.Request, at Step) bool {
	s.mu.Lock()
	pause, ok := s.hang[at]
	s.mu.Unlock()
	if !ok {
		return false
	}
	io.Copy(io.Discard, r.Body) // only then is it noticed that the client is gone
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

// Stats is what clients did with an object since the start.
func (s *Server) Stats(oid string) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.object(oid).stats
}

// Serve answers what is asked below info/lfs of a repository and passes the rest on: an argument for gitserver's Route.
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
