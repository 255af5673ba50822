package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/yamux"
)

// relayTo runs a relay to a socket and returns the caller's side, and a function that cuts the stream.
func relayTo(t *testing.T, socket string) (*relay, func()) {
	t.Helper()
	ours, theirs := net.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() { serve(theirs, func() (net.Conn, error) { return net.Dial("unix", socket) }) })
	session, err := yamux.Client(ours, config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close(); ours.Close(); serving.Wait() })
	return &relay{session: session, said: &tail{}}, func() { ours.Close() }
}

// plugin serves HTTP on a socket, whose path it returns.
func plugin(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "relay")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return socket
}

func clientOf(r *relay) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx) },
	}}
}

// TestLargeAnswers checks that bytes arrive as they were sent, in both directions and on several
// connections at once.
func TestLargeAnswers(t *testing.T) {
	const size = 50 << 20
	socket := plugin(t, func(w http.ResponseWriter, r *http.Request) {
		err := http.NewResponseController(w).EnableFullDuplex()
		if err == nil {
			_, err = io.Copy(w, r.Body)
		}
		if err != nil {
			t.Error(err)
		}
	})
	r, _ := relayTo(t, socket)
	c := clientOf(r)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			sent, got := sha256.New(), sha256.New()
			random := rand.NewChaCha8([32]byte{byte(i)})
			body := io.TeeReader(io.LimitReader(random, size), sent)
			res, err := c.Post("http://admin/", "", body)
			if err != nil {
				t.Error(err)
				return
			}
			defer res.Body.Close()
			n, err := io.Copy(got, res.Body)
			if err != nil || n != size || !bytes.Equal(got.Sum(nil), sent.Sum(nil)) {
				t.Errorf("got %d bytes back, %v", n, err)
			}
		})
	}
	all.Wait()
}

// TestFollow checks that a stream without end arrives line by line, and that the plugin sees it when the
// client goes away, also while it has much to write.
func TestFollow(t *testing.T) {
	next, gone := make(chan string), make(chan struct{}, 2)
	socket := plugin(t, func(w http.ResponseWriter, r *http.Request) {
		defer func() { gone <- struct{}{} }()
		if r.URL.Path == "/flood" {
			for chunk := make([]byte, 1<<16); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
			return
		}
		for {
			select {
			case line := <-next:
				fmt.Fprintln(w, line)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	r, _ := relayTo(t, socket)
	c := clientOf(r)
	for _, path := range []string{"/lines", "/flood"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://admin"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if path == "/lines" {
			go func() { next <- "first" }()
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 64)
		n, err := res.Body.Read(buffer)
		if path == "/lines" && (err != nil || string(buffer[:n]) != "first\n") {
			t.Errorf("got %q, %v", buffer[:n], err)
		}
		cancel()
		res.Body.Close()
		<-gone
	}
}

// TestStreamEnds checks that every call fails when the engine closes the stream, and says so.
func TestStreamEnds(t *testing.T) {
	entered := make(chan struct{})
	socket := plugin(t, func(w http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	})
	r, cut := relayTo(t, socket)
	failed := make(chan error)
	go func() {
		_, err := clientOf(r).Get("http://admin/")
		failed <- err
	}()
	<-entered
	cut()
	if err := <-failed; err == nil {
		t.Error("a request outlived its stream")
	}
	<-r.session.CloseChan()
	r.said.Write([]byte("a panic\n"))
	if _, err := r.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "has ended") || !strings.Contains(err.Error(), `"a panic"`) {
		t.Errorf("got %v", err)
	}
}

func TestDialErrors(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "admin.sock")
	r, _ := relayTo(t, missing)
	if _, err := r.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") || !strings.Contains(err.Error(), missing) {
		t.Errorf("no socket: got %v", err)
	}
	socket := plugin(t, func(http.ResponseWriter, *http.Request) {})
	r, _ = relayTo(t, socket)
	for range maxStreams {
		if _, err := r.Dial(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "64 connections already") {
		t.Errorf("too many: got %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Dial(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

// TestGreetIsBounded checks that what answers instead of a relay can't send a line without end.
func TestGreetIsBounded(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() {
		for chunk := bytes.Repeat([]byte("x"), 1<<10); ; {
			if _, err := theirs.Write(chunk); err != nil {
				return
			}
		}
	}()
	defer theirs.Close()
	defer ours.Close()
	if _, err := greet(ours); err == nil {
		t.Error("no error")
	}
}
