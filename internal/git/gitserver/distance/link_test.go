package distance

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/helmdeck/repos/internal/git/gitserver"
)

const (
	oneWay    = 15 * time.Millisecond
	roundTrip = 2 * oneWay
)

// pipeEnd is an end of a pipe, which has no half-closed state.
type pipeEnd struct{ net.Conn }

func (p pipeEnd) CloseWrite() error { return p.Close() }

// joined returns the two ends of a connection over a Link, in a bubble of synctest, where times are
// exact.
func joined(t *testing.T, l *Link) (client, server net.Conn) {
	client, near := net.Pipe()
	server, far := net.Pipe()
	go l.connect(pipeEnd{near}, func() (conn, error) { return pipeEnd{far}, nil })
	t.Cleanup(func() {
		client.Close()
		server.Close()
		time.Sleep(2 * roundTrip)
		if got := l.Open(); got != 0 {
			t.Errorf("%d connections are open after both ends were closed", got)
		}
	})
	return client, server
}

func newLink() *Link {
	l := &Link{pairs: map[*pair]bool{}}
	l.SetRoundTrip(roundTrip)
	return l
}

// send sends a text and returns how long it took to arrive.
func send(t *testing.T, from, to net.Conn, text string) time.Duration {
	t.Helper()
	began := time.Now()
	go io.WriteString(from, text)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(to, got); err != nil || string(got) != text {
		t.Fatalf("got %q, %v, want %q", got, err, text)
	}
	return time.Since(began)
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLink()
		client, server := joined(t, l)
		for _, step := range []struct {
			name      string
			from, to  net.Conn
			roundTrip time.Duration
			want      time.Duration
		}{
			{"the first bytes, after the handshake", client, server, roundTrip, roundTrip + oneWay},
			{"the answer", server, client, roundTrip, oneWay},
			{"more", client, server, roundTrip, oneWay},
			{"more, nearer", client, server, 0, 0},
			{"an answer, nearer", server, client, 0, 0},
		} {
			time.Sleep(time.Millisecond) // what the client does after it has connected takes time too
			l.SetRoundTrip(step.roundTrip)
			if got := send(t, step.from, step.to, "some text"); got != step.want {
				t.Errorf("%s: took %v, want %v", step.name, got, step.want)
			}
		}
	})
}

// TestBandwidth checks that all bytes of a large stream arrive half a round trip after they were
// sent, in order, although each write waits for nothing.
func TestBandwidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := joined(t, newLink())
		send(t, client, server, "connect")
		want := bytes.Repeat([]byte("0123456789abcde\n"), 1<<20)
		began := time.Now()
		go func() {
			server.Write(want)
			server.Close()
		}()
		got, err := io.ReadAll(client)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("got %d bytes, %v, want the %d that were sent", len(got), err, len(want))
		}
		if took := time.Since(began); took != oneWay {
			t.Errorf("took %v, want %v", took, oneWay)
		}
	})
}

func TestEnd(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(l *Link, client, server net.Conn) (other net.Conn)
	}{
		{"the server's", func(_ *Link, client, server net.Conn) net.Conn { server.Close(); return client }},
		{"the client's", func(_ *Link, client, server net.Conn) net.Conn { client.Close(); return server }},
		{"HangUp", func(l *Link, client, _ net.Conn) net.Conn { l.HangUp(); return client }},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLink()
			client, server := joined(t, l)
			send(t, client, server, "connect")
			send(t, server, client, "connected")
			began := time.Now()
			other := test.end(l, client, server)
			if n, err := other.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("%s: read %d bytes, %v, want the end", test.name, n, err)
			}
			if took := time.Since(began); took != oneWay {
				t.Errorf("%s: the end took %v, want %v", test.name, took, oneWay)
			}
			if got := l.Open(); got != 1 {
				t.Errorf("%s: %d connections are open before the other side has closed, want 1", test.name, got)
			}
		})
	}
}

// TestConnections checks that a Link in front of a TLS server passes HTTP/2, and counts connections.
func TestConnections(t *testing.T) {
	server, err := gitserver.StartHTTP2(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	l, err := New(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(server.CA())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	ask := func() {
		t.Helper()
		response, err := (&http.Client{Transport: transport}).Get("https://" + l.Addr() + "/app/HEAD")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.ProtoMajor != 2 {
			t.Errorf("got %s, %v, want HTTP/2", response.Proto, err)
		}
	}
	ask()
	ask()
	if got := l.Connections(); got != 1 || l.Open() != 1 || server.Handshakes() != 1 {
		t.Errorf("two requests: %d connections, %d open, %d TLS handshakes, want one", got, l.Open(), server.Handshakes())
	}
	l.HangUp()
	for l.Open() > 0 { // the client closes its side
		time.Sleep(time.Millisecond)
	}
	ask()
	if got := l.Connections(); got != 2 || l.Open() != 1 || server.Handshakes() != 2 {
		t.Errorf("after HangUp: %d connections, %d open, %d TLS handshakes, want 2, 1 and 2", got, l.Open(), server.Handshakes())
	}
}

// TestClose checks that the client of a server that refuses connections sees the end, and that Close
// ends a connection although neither side does.
func TestClose(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listener.Accept(); err != nil {
		t.Fatal(err)
	}
	listener.Close()
	refused, err := net.Dial("tcp", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("without a server the client reads something, want the end")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("the client of a closed Link reads something, want the end")
	}
}
