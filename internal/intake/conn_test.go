package intake

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// flood writes a frame again and again until the other side closes the connection, and returns how many bytes that took.
// The kernel has a part of them, and nobody reads it.
func flood(t *testing.T, c net.Conn, write func(f *http2.Framer) error) int64 {
	t.Helper()
	var b bytes.Buffer
	f := http2.NewFramer(&b, nil)
	for range 1000 {
		if err := write(f); err != nil {
			t.Fatal(err)
		}
	}
	go io.Copy(io.Discard, c)
	for n := int64(0); ; n += int64(b.Len()) {
		if _, err := c.Write(b.Bytes()); err != nil {
			return n
		}
		if n > 1<<30 {
			t.Error("the flood does not end")
			return n
		}
	}
}

// floods are frames that belong to no request.
var floods = map[string]func(f *http2.Framer) error{
	"pings":             func(f *http2.Framer) error { return f.WritePing(true, [8]byte{}) }, // an answer, which asks for none
	"window updates":    func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) },
	"settings":          func(f *http2.Framer) error { return f.WriteSettingsAck() },
	"priorities":        func(f *http2.Framer) error { return f.WritePriority(1, http2.PriorityParam{Weight: 1}) },
	"unknown":           func(f *http2.Framer) error { return f.WriteRawFrame(0x77, 0, 0, nil) },
	"closed streams":    func(f *http2.Framer) error { return f.WriteWindowUpdate(1, 1) },
	"large and strange": func(f *http2.Framer) error { return f.WriteRawFrame(0x77, 0, 0, make([]byte, 16<<10)) },
}

// inKernel is more than the buffers of a connection, which are written to but not read.
const inKernel = 16 << 20

// TestHandlerEndsFloods: a client of HTTP/2 that sends frames without requests is cut off, on a connection that has
// served a request.
func TestHandlerEndsFloods(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
	})))
	server.Listener = Listener{server.Listener}
	server.Config.ConnContext = WithConn
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	for name, write := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			f := http2.NewFramer(c, c)
			io.WriteString(c, http2.ClientPreface)
			f.WriteSettings()
			var header bytes.Buffer
			h := hpack.NewEncoder(&header)
			for _, field := range []string{":method GET", ":scheme http", ":authority x", ":path /"} {
				name, value, _ := strings.Cut(field, " ")
				h.WriteField(hpack.HeaderField{Name: name, Value: value})
			}
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true})
			for answered := false; !answered; {
				frame, err := f.ReadFrame()
				if err != nil {
					t.Fatal(err)
				}
				answered = frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream)
			}
			if n := flood(t, c, write); n > perConn+perRequest+inKernel {
				t.Errorf("it took %d bytes", n)
			}
		})
	}
}

// TestAnswerEndsFloods: a server of HTTP/2 that sends frames without answers is cut off, while a question waits and on an
// idle connection.
func TestAnswerEndsFloods(t *testing.T) {
	t.Parallel()
	for name, write := range floods {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flooded := make(chan int64, 1)
			at := serveRaw(t, func(c net.Conn) {
				f := http2.NewFramer(c, c)
				io.CopyN(io.Discard, c, int64(len(http2.ClientPreface)))
				f.WriteSettings()
				flooded <- flood(t, c, write)
			})
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+at, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := Answer(transport(), request)
			if err == nil {
				response.Body.Close()
				t.Error("there is an answer")
			}
			if n := <-flooded; n > perConn+perAnswer+inKernel {
				t.Errorf("it took %d bytes", n)
			}
		})
	}
}

// transport is one of TLS, whose connections are bounded.
func transport() *http.Transport {
	return &http.Transport{DialContext: Dial(new(net.Dialer).DialContext).Bounded(), ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
}

// serveRaw serves connections of TLS with HTTP/2, and returns the address.
func serveRaw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	certificates := httptest.NewTLSServer(nil)
	t.Cleanup(certificates.Close)
	config := certificates.TLS.Clone()
	config.NextProtos = []string{"h2"}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// TestHonestAnswers: many large answers pass over few connections, of both versions of HTTP, also if nobody reads the
// first part for a while, and if the body is given up.
func TestHonestAnswers(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	handler := Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%8d", n)
		chunk := make([]byte, 1<<16)
		for range size / len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	for _, version := range []int{1, 2} {
		server := httptest.NewUnstartedServer(handler)
		server.Listener = Listener{server.Listener}
		server.Config.ConnContext = WithConn
		server.EnableHTTP2 = version == 2
		server.StartTLS()
		t.Cleanup(server.Close)
		client := transport()
		t.Cleanup(client.CloseIdleConnections)
		for i := range 6 {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.LimitReader(&endless{text: "x"}, 3<<20))
			if err != nil {
				t.Fatal(err)
			}
			response, err := Answer(client, request)
			if err != nil {
				t.Fatalf("HTTP/%d: request %d: %v", version, i, err)
			}
			if response.ProtoMajor != version {
				t.Errorf("the protocol is %s, want %d", response.Proto, version)
			}
			if i%3 == 1 { // given up
				response.Body.Close()
				continue
			}
			head := make([]byte, 8)
			if _, err := io.ReadFull(response.Body, head); err != nil || strings.TrimSpace(string(head)) != fmt.Sprint(3<<20) {
				t.Errorf("HTTP/%d: the server got %q bytes, %v", version, head, err)
			}
			if n, err := io.Copy(io.Discard, response.Body); n != size || err != nil {
				t.Errorf("HTTP/%d: request %d: %d bytes, %v", version, i, n, err)
			}
			response.Body.Close()
		}
	}
}

// TestSlowBody: a body has a deadline from its first byte on, and the connection has none afterwards.
func TestSlowBody(t *testing.T) {
	t.Parallel()
	var deadlines []time.Time
	s := &slow{body: body{strings.NewReader("content"), nil}, deadline: func(at time.Time) error {
		deadlines = append(deadlines, at)
		return nil
	}}
	if data, err := io.ReadAll(s); string(data) != "content" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if len(deadlines) < 2 || time.Until(deadlines[0]) > bodyWait || time.Until(deadlines[0]) <= 0 || !deadlines[len(deadlines)-1].IsZero() {
		t.Errorf("deadlines: %v", deadlines)
	}
}

// TestMain discards what net/http logs of each frame that it does not know.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}
