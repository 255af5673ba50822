package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	"golang.org/x/net/http2"

	"github.com/helmdeck/repos/internal/origin"
	"github.com/helmdeck/repos/tests/wait"
)

// TestSocketsAreBounded: a long header is refused, frames that belong to no request end their connection, and neither
// keeps others from being served, with the uid of who asks.
func TestSocketsAreBounded(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	plain, grpc := filepath.Join(dir, "plain"), filepath.Join(dir, "grpc")
	says := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d bytes of uid %d", n, origin.PeerOf(r.Context()))
	})
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve(ctx, log, nil, map[string]endpoint{plain: {Handler: says}, grpc: {Handler: says, http2: true}}, nil, nil)
	}()
	wait.For(t, "the sockets", func() error {
		for _, socket := range []string{plain, grpc} {
			c, err := net.Dial("unix", socket)
			if err != nil {
				return err
			}
			c.Close()
		}
		return nil
	})
	ask := func(socket string, header string, body io.Reader) (int, string) {
		t.Helper()
		protocols := new(http.Protocols)
		protocols.SetHTTP1(socket == plain)
		protocols.SetUnencryptedHTTP2(socket == grpc)
		transport := &http.Transport{Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}
		defer transport.CloseIdleConnections()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X", header)
		response, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err.Error()
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	honest := func(when string) {
		t.Helper()
		for _, socket := range []string{plain, grpc} {
			if status, text := ask(socket, "y", bytes.NewReader(make([]byte, 8<<20))); status != 200 || text != fmt.Sprintf("%d bytes of uid %d", 8<<20, os.Getuid()) {
				t.Errorf("%s: %s: %d %s", when, filepath.Base(socket), status, text)
			}
		}
	}
	honest("at first")
	for _, socket := range []string{plain, grpc} {
		if status, text := ask(socket, strings.Repeat("y", 2*maxHeader), nil); status != http.StatusRequestHeaderFieldsTooLarge && status != 0 {
			t.Errorf("%s with a long header: %d %s", filepath.Base(socket), status, text)
		}
	}
	c, err := net.Dial("unix", grpc)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, http2.ClientPreface)
	var frames bytes.Buffer
	f := http2.NewFramer(&frames, nil)
	f.WriteSettings()
	for range 1000 {
		f.WriteWindowUpdate(0, 1)
	}
	n := 0
	for err == nil && n < 64<<20 {
		var more int
		more, err = c.Write(frames.Bytes())
		n += more
	}
	if err == nil {
		t.Errorf("%d bytes of frames without a request were read", n)
	}
	honest("after the flood")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
