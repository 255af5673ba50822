package git

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/helmdeck/repos/internal/gitserver"
)

// TestRealFailures asks for refs in ways that must fail.
func TestRealFailures(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := l.Addr().String()
	l.Close()
	for _, tt := range []struct {
		name, url string
		fault     func(http.Handler) http.Handler
		want      Kind
		definite  bool
	}{
		{"no repository", s.URL("nobody"), nil, KindNotFound, true},
		{"401", s.URL("r"), gitserver.Fail(401), KindAuth, true},
		{"403", s.URL("r"), gitserver.Fail(403), KindAuth, true},
		{"404", s.URL("r"), gitserver.Fail(404), KindNotFound, true},
		{"429", s.URL("r"), gitserver.Fail(429), KindServer, false},
		{"500", s.URL("r"), gitserver.Fail(500), KindServer, false},
		{"502", s.URL("r"), gitserver.Fail(502), KindServer, false},
		{"cut", s.URL("r"), gitserver.Cut(20), KindServer, false},
		{"no answer", s.URL("r"), hangUp, KindServer, false},
		{"refused port", "http://" + closed + "/r", nil, KindRefused, true},
		{"unknown host", "http://nonexistent.invalid/r", nil, KindHost, true},
		{"no TLS there", strings.Replace(s.URL("r"), "http:", "https:", 1), nil, KindTLS, true},
		{"local path", "/etc", nil, KindProtocol, true},
		{"file", "file:///etc", nil, KindProtocol, true},
		{"ext", "ext::sh -c id", nil, KindProtocol, true},
		{"option", "--upload-pack=id", nil, KindOther, false}, // the parser of URLs refuses it earlier
	} {
		s.Wrap(tt.fault)
		_, err := g.LsRefs(t.Context(), Remote{URL: tt.url}, "refs/heads/main")
		if got := KindOf(err); got != tt.want || got.Definite() != tt.definite {
			t.Errorf("%s: %v; got kind %q, want %q", tt.name, err, got, tt.want)
		}
		if e, ok := errors.AsType[*Error](err); !ok || e.URL != tt.url || !strings.Contains(err.Error(), tt.url) {
			t.Errorf("%s: %v does not name the URL", tt.name, err)
		}
	}
}

// hangUp is a server that closes every connection without an answer.
func hangUp(http.Handler) http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		stderr string
		want   Kind // if the disk is full
	}{
		{"", KindOther},
		{"fatal: something new\n", KindOther},
		// A connection that breaks says nothing about the certificate.
		{"error: RPC failed; curl 56 GnuTLS recv error (-110): The TLS connection was non-properly terminated.\nfatal: early EOF\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_read: Connection reset by peer, errno 104\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to h:443\n", KindServer},
		{"fatal: unable to access 'https://h/x/': GnuTLS, handshake failed: Error in the pull function.\n", KindServer},
		{"fatal: unable to access 'https://h/x/': OpenSSL SSL_read: error:0A000126:SSL routines::unexpected eof while reading, errno 0\n", KindServer},
		{"fatal: unable to access 'https://h/x/': server certificate verification failed. CAfile: none CRLfile: none\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': SSL certificate problem: self-signed certificate\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': gnutls_handshake() failed: The TLS connection was non-properly terminated.\n", KindServer},
		{"fatal: unable to access 'https://h/x/': gnutls_handshake() failed: An unexpected TLS packet was received.\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': OpenSSL/3.0: error:0A00010B:SSL routines::wrong version number\n", KindTLS},
		{"fatal: unable to access 'https://h/x/': Failed to connect to h port 443 after 130000 ms: Connection timed out\n", KindTimeout},
		{"fatal: unable to access 'https://h/x/': Failed to connect to h port 443 after 1 ms: Couldn't connect to server\n", KindRefused},
		{"fatal: unable to access 'https://h/x/': Operation too slow. Less than 1 bytes/sec transferred the last 60 seconds\n", KindTimeout},
		{"fatal: remote error: upload-pack: not our ref 1234\n", KindRefNotFound},
		{"fatal: couldn't find remote ref refs/pull/7/head\n", KindRefNotFound},
		{"fatal: source repository is shallow, reject to clone.\n", KindShallow},
		{"fatal: write error: No space left on device\nfatal: index-pack failed\n", KindNoSpace},
		{"fatal: unable to create temporary file '/s/objects/pack/tmp_pack_XXXXXX': Disk quota exceeded\n", KindNoSpace},
		{"error: object file objects/12/34 is empty\nfatal: loose object 1234 is corrupt\n", KindCorrupt},
		{"error: unable to write file big\n", KindNoSpace},
		// The remote's own message determines only kinds that the remote may choose anyway.
		{"fatal: remote error: access denied or repository not exported: /x\n", KindAuth},
		{"fatal: remote error: No space left on device\n", KindOther},
		{"fatal: remote error: object file x is empty, packed-refs corrupt\n", KindOther},
		{"remote: Repository not found.\nfatal: early EOF\n", KindServer},
		{"remote: no space left on device\nfatal: the remote end hung up unexpectedly\n", KindServer},
		// The remote's progress ends with a carriage return, and git continues after it.
		{"remote: Counting objects:  10% (1/10)\rfatal: early EOF\n", KindServer},
		{"remote: Compressing objects: 1% (1/100)\x1b[K\rremote: timeout\nfatal: early EOF\n", KindServer},
	} {
		if got, _ := classify(tt.stderr, "https://h/x", true); got != tt.want {
			t.Errorf("classify(%q) = %q, want %q", tt.stderr, got, tt.want)
		}
		want := tt.want
		if want == KindNoSpace {
			want = KindOther // the message alone is not enough
		}
		if got, _ := classify(tt.stderr, "https://h/x", false); got != want {
			t.Errorf("classify(%q) = %q with a disk that is not full, want %q", tt.stderr, got, want)
		}
	}
}

// TestRemoteSaysNoSpace checks that a remote can't cause an eviction with a message about a full
// disk.
func TestRemoteSaysNoSpace(t *testing.T) {
	t.Parallel()
	g, s := newGit(t), remote(t)
	const words = "No space left on device"
	dir := store(t, g)
	s.Wrap(gitserver.On(gitserver.Fetch, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-result")
			fmt.Fprintf(w, "%04xERR %s", len("0000ERR ")+len(words), words)
		})
	}))
	err := g.Fetch(t.Context(), Fetch{Store: dir, Remote: Remote{URL: s.URL("r")}, Refspecs: everything})
	if got := KindOf(err); got != KindOther || !strings.Contains(err.Error(), "remote error: "+words) {
		t.Errorf("got %v, of kind %q", err, got)
	}
}

// TestFilled checks that the bytes of a command count even if it deleted them since.
func TestFilled(t *testing.T) {
	t.Parallel()
	dirs := []string{scratch(t)}
	for _, tt := range []struct {
		wrote int64
		want  bool
	}{
		{0, false}, {1 << 20, false}, {1 << 60, true},
	} {
		if got := mayHaveFilled(dirs, tt.wrote); got != tt.want {
			t.Errorf("mayHaveFilled with %d bytes: %v, want %v", tt.wrote, got, tt.want)
		}
	}
}

func TestNewError(t *testing.T) {
	t.Parallel()
	exit := errors.New("exit status 128")
	for _, tt := range []struct {
		name, url, stderr string
		err               error
		want              Kind
		text              string
	}{
		{"words in the URL do not count", "https://timeout.example/ssl", "fatal: unable to access 'https://timeout.example/ssl/': The requested URL returned error: 500\n",
			exit, KindServer, "fetch https://timeout.example/ssl: server error (git: unable to access"},
		{"deadline", "https://h/x", "fatal: whatever\n", context.DeadlineExceeded, KindTimeout, "fetch https://h/x: timeout"},
		{"cancelled", "https://h/x", "", context.Canceled, KindCanceled, "fetch https://h/x: canceled"},
		{"no message", "https://h/x", "", exit, KindOther, "fetch https://h/x: failed (exit status 128)"},
		{"control characters", "", "fatal: a\x1b[31mb\x07c\n", exit, KindOther, "fetch: failed (git: a[31mbc)"},
		{"last fatal line", "", "error: first\nfatal: second\nhint: third\n", exit, KindOther, "fetch: failed (git: second)"},
	} {
		e := newError("fetch", tt.url, tt.stderr, tt.err, false)
		if e.Kind != tt.want || !strings.HasPrefix(e.Error(), tt.text) || !errors.Is(e, tt.err) {
			t.Errorf("%s: kind %q, %q; want %q, %q", tt.name, e.Kind, e, tt.want, tt.text)
		}
	}
	long := newError("fetch", "", "fatal: "+strings.Repeat("x", 10000), exit, false).Error()
	if len(long) > maxWords+100 { // the operation and the remedy are added
		t.Errorf("the error has %d bytes, want %d at most", len(long), maxWords+100)
	}
	if got := KindOf(exit); got != "" {
		t.Errorf("KindOf(%v) = %q", exit, got)
	}
}
