package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// Ref is a line of an answer to ls-refs. It is sent without a check.
type Ref struct {
	ID     string // "unborn" for a HEAD whose branch has no commit
	Name   string
	Target string // of a symbolic ref
	Peeled string // the object behind a tag
}

// Advertise answers ls-refs of protocol 2 with the given refs, regardless of the request and of the
// repository. An endless sequence ends when the client hangs up.
func Advertise(refs iter.Seq[Ref]) Fault {
	return On(LsRefs, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			for ref := range refs {
				line := ref.ID + " " + ref.Name
				if ref.Target != "" {
					line += " symref-target:" + ref.Target
				}
				if ref.Peeled != "" {
					line += " peeled:" + ref.Peeled
				}
				if _, err := w.Write(pkt([]byte(line + "\n"))); err != nil {
					return
				}
			}
			io.WriteString(w, "0000")
		})
	})
}

// ManyRefs returns n branches at one commit, preceded by a HEAD that points to the first.
func ManyRefs(id string, n int) iter.Seq[Ref] {
	return func(yield func(Ref) bool) {
		if !yield(Ref{ID: id, Name: "HEAD", Target: "refs/heads/branch-0"}) {
			return
		}
		for i := range n {
			if !yield(Ref{ID: id, Name: fmt.Sprintf("refs/heads/branch-%d", i)}) {
				return
			}
		}
	}
}

// Bundle makes a server of protocol 2 offer a bundle at another URL. Clients without support for
// bundles, or with that disabled, do not ask for it.
func Bundle(uri string) Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return // the client is gone
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			switch {
			case targetOf(r).kind == Info:
				answer := &recorder{header: w.Header(), code: http.StatusOK}
				next.ServeHTTP(answer, r)
				w.WriteHeader(answer.code)
				capabilities, ok := bytes.CutSuffix(answer.body.Bytes(), []byte("0000"))
				w.Write(capabilities)
				if ok {
					w.Write(pkt([]byte("bundle-uri\n")))
					io.WriteString(w, "0000")
				}
			case bytes.Contains(body, []byte("command=bundle-uri")):
				w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
				for _, line := range []string{"bundle.version=1", "bundle.mode=all", "bundle.first.uri=" + uri} {
					w.Write(pkt([]byte(line)))
				}
				io.WriteString(w, "0000")
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// ProtocolZero makes a server use protocol 0, even if the client offers a newer one.
func ProtocolZero() Fault {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Git-Protocol")
			next.ServeHTTP(w, r)
		})
	}
}

// IgnoreFilter makes a server accept filters, if uploadpack.allowFilter is set, but send
// everything.
func IgnoreFilter() Fault {
	return On(Fetch, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := plainBody(r)
			var kept []byte
			for len(body) > 0 && err == nil {
				var line string
				var rest []byte
				if line, rest, err = packet(body); !strings.HasPrefix(line, "filter ") {
					kept = append(kept, body[:len(body)-len(rest)]...)
				}
				body = rest
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(kept)), int64(len(kept))
			next.ServeHTTP(w, r)
		})
	})
}

// plainBody reads and decompresses a request's body.
func plainBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil && r.Header.Get("Content-Encoding") == "gzip" {
		r.Header.Del("Content-Encoding")
		return gunzip(body)
	}
	return body, err
}

// Dumb returns a fault for Route that serves a repository as plain files (dumb HTTP), in its
// current state.
func (s *Server) Dumb(repo string) (Fault, error) {
	path := s.Path(repo)
	for _, args := range [][]string{{"repack", "-adq"}, {"update-server-info"}} {
		if _, err := git(path, nil, args...); err != nil {
			return nil, err
		}
	}
	return func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			content, err := os.ReadFile(filepath.Join(path, filepath.Clean(targetOf(r).rest)))
			if err != nil || r.Method != http.MethodGet {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Write(content)
		})
	}, nil
}
