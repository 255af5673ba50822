package gitserver

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync"
)

// maxBand is the number of bytes of a pack in one packet.
const maxBand = 65515

// Corrupt flips the bits of one byte of every pack: the one at the offset, counted from the end if
// negative, modulo the pack's size. 0 damages the signature, -1 the checksum, most others an
// object.
func Corrupt(offset int) Fault {
	return On(Fetch, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := &recorder{header: w.Header(), code: http.StatusOK}
			next.ServeHTTP(answer, r)
			if err := spoil(answer.body.Bytes(), offset); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.WriteHeader(answer.code)
			w.Write(answer.body.Bytes())
		})
	})
}

// spoil flips a byte of the pack in an answer of upload-pack, in place. It does not change an
// answer without a pack.
func spoil(answer []byte, offset int) error {
	var pack [][]byte // the parts of it, in band 1
	size := 0
	for len(answer) > 0 {
		line, rest, err := packet(answer)
		if err != nil {
			return err
		}
		if strings.HasPrefix(line, "\x01") {
			pack = append(pack, answer[5:4+len(line)])
			size += len(line) - 1
		}
		answer = rest
	}
	if size == 0 {
		return nil
	}
	offset = (offset%size + size) % size
	for _, part := range pack {
		if offset < len(part) {
			part[offset] ^= 0xff
			return nil
		}
		offset -= len(part)
	}
	return nil
}

// recorder stores a response instead of sending it.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(p []byte) (int, error) { return r.body.Write(p) }

// SendAll answers every fetch of protocol 2 with all objects of the bare repository at path,
// without parsing them: for malformed objects, which git's server would refuse to walk.
func SendAll(path string) Fault {
	return sendPack(func([]string) ([]byte, error) {
		ids, err := git(path, nil, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
		if err != nil {
			return nil, err
		}
		return packOf(path, ids)
	})
}

// Frozen is SendAll with a pack that Frozen makes once. Then serving a large or hostile repository
// costs almost nothing, as if another machine did it.
func Frozen(path string) (Fault, error) {
	ids, err := git(path, nil, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
	if err != nil {
		return nil, err
	}
	pack, err := packOf(path, ids)
	if err != nil {
		return nil, err
	}
	return sendPack(func([]string) ([]byte, error) { return pack, nil }), nil
}

// Remember caches the answers to requests for refs, so that they cost almost nothing, like the
// packs of Frozen. It is for one repository, which may have many names. Fetches pass.
func Remember() Fault {
	var mu sync.Mutex
	known := make(map[string]*recorder)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at := targetOf(r)
			if at.kind != Info && at.kind != LsRefs {
				next.ServeHTTP(w, r)
				return
			}
			body, err := plainBody(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			key := fmt.Sprintln(at.rest, r.URL.RawQuery, r.Header.Get("Git-Protocol"), string(body))
			mu.Lock()
			answer := known[key]
			if answer == nil {
				answer = &recorder{header: make(http.Header), code: http.StatusOK}
				next.ServeHTTP(answer, r)
				known[key] = answer
			}
			mu.Unlock()
			maps.Copy(w.Header(), answer.header)
			w.WriteHeader(answer.code)
			w.Write(answer.body.Bytes())
		})
	}
}

// SendFile answers every fetch of protocol 2 with the file at path as the pack.
func SendFile(path string) Fault {
	return sendPack(func([]string) ([]byte, error) { return os.ReadFile(path) })
}

// Incomplete answers every fetch of protocol 2 with a pack of only the wanted objects: commits
// without their trees.
func Incomplete(path string) Fault {
	return sendPack(func(wants []string) ([]byte, error) { return packOf(path, strings.Join(wants, "\n")) })
}

func packOf(path, ids string) ([]byte, error) {
	// No --revs: pack the listed objects only, without following references.
	pack, err := output(path, strings.NewReader(ids+"\n"), "pack-objects", "-q", "--stdout", "--window=0")
	if err != nil {
		return nil, fmt.Errorf("pack: %w", err)
	}
	return pack, nil
}

// sendPack answers fetches of protocol 2 with the pack that pack returns for the wanted objects.
func sendPack(pack func(wants []string) ([]byte, error)) Fault {
	return On(Fetch, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			wants, done, err := parseWants(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			content, err := pack(wants)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			beginPack(w, done)
			for len(content) > 0 {
				n := min(len(content), maxBand)
				w.Write(pkt(append([]byte{1}, content[:n]...)))
				content = content[n:]
			}
			io.WriteString(w, "0000")
		})
	})
}

// beginPack writes the sections before a pack; done is from parseWants.
func beginPack(w http.ResponseWriter, done bool) {
	w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
	if !done { // end the negotiation
		w.Write(pkt([]byte("acknowledgments\n")))
		w.Write(pkt([]byte("ready\n")))
		io.WriteString(w, "0001")
	}
	w.Write(pkt([]byte("packfile\n")))
}

func parseWants(r *http.Request) (wants []string, done bool, err error) {
	body, err := plainBody(r)
	for len(body) > 0 && err == nil {
		var line string
		line, body, err = packet(body)
		line = strings.TrimSuffix(line, "\n")
		if id, ok := strings.CutPrefix(line, "want "); ok {
			wants = append(wants, id)
		}
		done = done || line == "done"
	}
	return wants, done, err
}

// pkt returns a pkt-line: the length as four hex digits, these included, and the content.
func pkt(content []byte) []byte {
	return append(fmt.Appendf(nil, "%04x", len(content)+4), content...)
}
