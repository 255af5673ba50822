package download

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/git/guard"
	"github.com/helmdeck/repos/internal/repo/lfs"
	"github.com/helmdeck/repos/tests/wait"
)

// again writes a text until the client has gone, and returns how many bytes that took.
func again(w io.Writer, text string) (n int64) {
	text = strings.Repeat(text, 1+(64<<10)/len(text))
	for n < 1<<33 {
		more, err := io.WriteString(w, text)
		if n += int64(more); err != nil {
			break
		}
	}
	return n
}

// TestHostileAnswers: no answer costs more than its bound, whatever it inflates to, and however many elements it has.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const oid = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	const emptyBlock = "\x00\x00\x00\xff\xff" // of deflate
	zipped := func(w http.ResponseWriter, write func(io.Writer)) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		write(z)
		z.Close()
	}
	batch := fmt.Sprintf(`{"objects":[{"oid":%q,"actions":{"download":{"href":"HREF"`, oid)
	for name, tt := range map[string]struct {
		answer   func(w http.ResponseWriter)
		download func(w http.ResponseWriter)
		want     string
	}{
		"gzip without content": {answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff")
			again(w, emptyBlock)
		}, want: "more than 4194304 bytes"},
		"gzip of much": {answer: func(w http.ResponseWriter) {
			zipped(w, func(w io.Writer) { w.Write(make([]byte, 64<<20)) })
		}, want: `the coding "gzip", and none was asked for`},
		"a page": {answer: func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, "<!DOCTYPE html>\n<title>Sign in</title>")
		}, want: "a page of HTML"},
		"spaces":  {answer: func(w http.ResponseWriter) { again(w, " ") }, want: "more than 4194304 bytes"},
		"objects": {answer: func(w http.ResponseWriter) { io.WriteString(w, `{"objects":[`+strings.Repeat(`{},`, 1<<20)+`{}]}`) }, want: "more than 20000 names"},
		"headers": {answer: func(w http.ResponseWriter) {
			io.WriteString(w, batch+`,"header":{`+strings.Repeat(`"":"",`, 500_000)+`"":""}}}}]}`)
		}, want: "more than 20000 names"},
		"deep":          {answer: func(w http.ResponseWriter) { io.WriteString(w, `{"x":`+strings.Repeat(`[`, 4_000_000)) }, want: "more than 20000 names"},
		"a long header": {answer: func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, want: "headers exceeded"},
		"an object that is zipped": {answer: func(w http.ResponseWriter) { io.WriteString(w, batch+`}}}]}`) }, download: func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			again(w, emptyBlock)
		}, want: "the server sent another content (8 bytes, want 7)"},
	} {
		t.Run(name, func(t *testing.T) {
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					tt.download(w)
					return
				}
				tt.answer(&placed{w, server})
			}))
			defer server.Close()
			u, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), wait.Most(t))
			defer cancel()
			f := Job{Endpoint: server.URL + "/lfs", Rule: guard.Rule{Own: guard.HostPortOf(u)}, Storage: t.TempDir(), Objects: []lfs.Pointer{{Path: "f", OID: oid, Size: 7}}}
			client, temp := newClient(newGit(t), f), t.TempDir()
			defer client.http.CloseIdleConnections()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = client.fetch(ctx, temp)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if n := (after.TotalAlloc - before.TotalAlloc) >> 20; !testing.Short() && n > 256 { // the server's too
				t.Errorf("it took %d MiB", n)
			}
			if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// placed writes the URL of the server in place of HREF.
type placed struct {
	http.ResponseWriter
	server *httptest.Server
}

func (p *placed) Write(data []byte) (int, error) {
	if len(data) < 1<<10 {
		_, err := io.WriteString(p.ResponseWriter, strings.Replace(string(data), "HREF", p.server.URL+"/object", 1))
		return len(data), err
	}
	return p.ResponseWriter.Write(data)
}
